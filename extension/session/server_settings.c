/*
 * extension/session/server_settings.c
 *		Changes of the server's settings, by a reload or a restart.
 *
 * Writer 0 compares the values of all settings, not only of ours, with those that
 * the trail knows, when a run begins and after each reload.  The latter are in the
 * file pg_steno.settings in the data directory, so that a change which takes effect
 * with a restart is noticed, too.  The file is replaced only when the records of the
 * changes are on disk: a crash in between records them twice.
 *
 * Values that sessions set are no matter of the server's; so settings that cannot be
 * in the configuration file, and values of the writer's own process, are left out.
 */
#include "base/steno.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "access/xlog.h"
#include "common/file_perm.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "session/settings_in_force.h"
#include "trail/file.h"

#define SETTINGS_FILE "pg_steno.settings"
#define SETTINGS_MAX (1024 * 1024)

/*
 * What the file has: for each setting its name, its value as records show it, and
 * the hash of the value itself, each with a zero at its end; then the hash of all
 * that.
 */
typedef struct Known
{
	char	   *bytes;
	size_t		len;
} Known;

/* Whether the value of a setting is the server's. */
static bool
is_server_setting(const struct config_generic *setting)
{
	return setting->context != PGC_INTERNAL && !(setting->flags & (GUC_DISALLOW_IN_FILE | GUC_NO_SHOW_ALL)) &&
		setting->source <= PGC_S_ARGV;
}

/* As SHOW shows it.  A superuser's setting must not lead to a catalog, which a writer cannot read. */
static const char *
value_of(const struct config_generic *setting)
{
	const char *value = setting->flags & GUC_SUPERUSER_ONLY ?
		GetConfigOption(setting->name, true, false) :
		GetConfigOptionByName(setting->name, NULL, true);

	return value == NULL ? "" : value;
}

/* ---- the file ---- */

static bool
read_known(Known *known)
{
	int			fd = open(SETTINGS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	uint64		sum;

	memset(known, 0, sizeof(*known));
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t) sizeof(sum) && st.st_size <= SETTINGS_MAX)
	{
		known->len = (size_t) st.st_size - sizeof(sum);
		known->bytes = palloc(st.st_size);
		if (!steno_read_at(fd, known->bytes, (size_t) st.st_size, 0))
			known->len = 0;
		else
			memcpy(&sum, known->bytes + known->len, sizeof(sum));
	}
	close(fd);
	return known->len > 0 && known->bytes[known->len - 1] == '\0' &&
		sum == XXH64(known->bytes, known->len, GetSystemIdentifier());
}

/* The value of a setting as records show it, and its hash; false if the file does not have it. */
static bool
find_known(const Known *known, const char *name, const char **shown, const char **hash)
{
	const char *p = known->bytes;
	const char *end = p + known->len;

	while (p < end)
	{
		const char *of = p;

		*shown = of + strlen(of) + 1;
		if (*shown >= end)
			break;
		*hash = *shown + strlen(*shown) + 1;
		if (*hash >= end)
			break;
		p = *hash + strlen(*hash) + 1;
		if (strcmp(of, name) == 0)
			return true;
	}
	*shown = *hash = "";
	return false;
}

/* What the file is to have, from a comparison until it is saved. */
static MemoryContext context;
static StringInfoData compared;

/* The records of all changes that the last comparison has found are on disk. */
void
steno_server_settings_save(void)
{
	uint64		sum = XXH64(compared.data, compared.len, GetSystemIdentifier());
	StenoError	error;
	int			fd;
	bool		ok;

	appendBinaryStringInfo(&compared, (char *) &sum, sizeof(sum));
	(void) unlink(SETTINGS_FILE ".new");
	fd = open(SETTINGS_FILE ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	ok = fd >= 0 && steno_write_at(fd, compared.data, compared.len, 0) && pg_fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	if (ok && rename(SETTINGS_FILE ".new", SETTINGS_FILE) == 0 && steno_sync_folder(".", &error))
		return;
	ereport(WARNING,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", SETTINGS_FILE),
			 errdetail("Changes of settings may be recorded again.")));
}

/* ---- comparing ---- */

static void
add_string(const char *s)
{
	appendBinaryStringInfo(&compared, s, strlen(s) + 1);
}

/*
 * Call change for each setting whose value differs from the one that the trail
 * knows.  ours: those of pg_steno, too, which a reload records by itself.  Returns
 * whether there is anything to save.
 */
bool
steno_server_settings_compare(bool ours, StenoServerSettingChange change, void *arg)
{
	bool		recorded = ((steno_control->wanted.session_mask | steno_private.mandatory_mask) &
							(1u << STENO_CLASS_SETTING)) != 0;
	struct config_generic **all;
	MemoryContext before;
	Known		known;
	bool		is_known;
	bool		any = false;
	int			count;
	int			i;

	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "pg_steno settings", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(context);
	before = MemoryContextSwitchTo(context);
	initStringInfo(&compared);
	is_known = read_known(&known);
	all = steno_all_settings(&count);
	for (i = 0; i < count; i++)
	{
		const struct config_generic *setting = all[i];
		const char *value;
		const char *old;
		const char *old_hash;
		char		shown[STENO_SETTING_VALUE];
		char		hash[20];

		if (!is_server_setting(setting))
			continue;
		value = value_of(setting);
		steno_setting_show(setting->name, value, shown);
		snprintf(hash, sizeof(hash), "%016llx",
				 (unsigned long long) XXH64(value, strlen(value), GetSystemIdentifier()));
		add_string(setting->name);
		add_string(shown);
		add_string(hash);
		if (!is_known)
			continue;
		/* a setting that is new is so in this version of the server, unless somebody has set it */
		if (find_known(&known, setting->name, &old, &old_hash) ? strcmp(hash, old_hash) == 0 :
			setting->source == PGC_S_DEFAULT)
			continue;
		any = true;
		if (recorded && (ours || !steno_setting_is_recorded(setting->name)))
			change(arg, setting->name, old, shown, setting->source == PGC_S_FILE ? setting->sourcefile : NULL,
				   setting->sourceline);
	}
	MemoryContextSwitchTo(before);
	return any || !is_known;
}
