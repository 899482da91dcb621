/*
 * extension/setting_change.c
 *		Records of changes of our own settings.
 *
 * An assign hook only says that something may have changed; the next end of a
 * statement compares the values with those last recorded.  A value from the
 * server's configuration came by a reload, which writer 0 records once for all
 * sessions; any other was set in this session, by whatever way: SET,
 * set_config(), connection options, ALTER ROLE ... SET.
 */
#include "steno.h"

#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"

/* Settings that can change while the server runs. */
static const struct
{
	const char *name;
	GucContext	context;
}			settings[] =
{
#define STENO_SETTING_BOOL(name, var, def, context, flags, check, assign, show, short_desc, long_desc) \
	{"steno." #name, context},
#define STENO_SETTING_INT(name, var, def, min, max, context, flags, check, assign, show, short_desc, long_desc) \
	{"steno." #name, context},
#define STENO_SETTING_ENUM(name, var, def, options, context, flags, check, assign, show, short_desc, long_desc) \
	{"steno." #name, context},
#define STENO_SETTING_STRING(name, var, def, context, flags, check, assign, show, short_desc, long_desc) \
	{"steno." #name, context},
#include "settings.def"
#undef STENO_SETTING_BOOL
#undef STENO_SETTING_INT
#undef STENO_SETTING_ENUM
#undef STENO_SETTING_STRING
};

StaticAssertDecl(lengthof(settings) <= STENO_SETTINGS_MOST, "room for all settings");

static char recorded[STENO_SETTINGS_MOST][STENO_SETTING_VALUE];
static bool of_session[STENO_SETTINGS_MOST];	/* recorded as set in this session */

/*
 * Those that need a restart cannot change; what applications say of themselves
 * (steno.app_user) stands in every record.
 */
static inline bool
watched(int i)
{
	return settings[i].context != PGC_POSTMASTER && settings[i].context != PGC_USERSET;
}

static void
current_value(int i, char *value)
{
	const char *v = GetConfigOption(settings[i].name, true, false);

	strlcpy(value, v ? v : "", STENO_SETTING_VALUE);
}

static GucSource
source_of(const char *name)
{
	struct config_generic *setting = steno_find_setting(name);

	return setting ? setting->source : PGC_S_SESSION;
}

/* Put the values where all processes see them: the postmaster's. */
void
steno_settings_publish(void)
{
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (watched(i))
			current_value(i, steno_control->settings[i]);
}

/* This session starts from the server's values. */
void
steno_settings_baseline(void)
{
	memcpy(recorded, steno_control->settings, sizeof(recorded));
	memset(of_session, 0, sizeof(of_session));
	steno_my.settings_dirty = true;
}

/* Writer 0 has reloaded the configuration: change is called for each change. */
void
steno_settings_reloaded(void (*change) (const char *name, const char *from, const char *to))
{
	int			i;
	char		value[STENO_SETTING_VALUE];

	for (i = 0; i < (int) lengthof(settings); i++)
	{
		if (!watched(i))
			continue;
		current_value(i, value);
		if (strcmp(value, steno_control->settings[i]) == 0)
			continue;
		change(settings[i].name, steno_control->settings[i], value);
		strlcpy(steno_control->settings[i], value, STENO_SETTING_VALUE);
	}
}

static void
record_change(int i, const char *value)
{
	StenoRecord record;
	StringInfoData extra;
	uint8		shape[8];
	uint8	   *p = shape;
	MemoryContext old = MemoryContextSwitchTo(steno_my.scratch);

	steno_my.scratch_used = true;
	initStringInfo(&extra);
	steno_put_pair(&extra, "name", settings[i].name);
	steno_put_pair(&extra, "old", recorded[i]);
	steno_put_pair(&extra, "new", value);
	steno_put_pair(&extra, "source", "session");
	p = steno_put_varint(p, STENO_CLASS_SETTING);
	memset(p, 0, 4);			/* no query id, command tag, relations, parameters */
	p += 4;
	steno_session_check(InvalidOid);
	steno_record_init(&record, STENO_KIND_SETTING);
	record.time = GetCurrentTimestamp();
	record.shape = shape;
	record.shape_len = p - shape;
	record.extra = (uint8 *) extra.data;
	record.extra_len = extra.len;
	record.extra_count = 4;
	steno_record_put(&record, false);
	MemoryContextSwitchTo(old);
}

/* Record what has changed in this session since the last call. */
void
steno_settings_record(void)
{
	int			i;
	char		value[STENO_SETTING_VALUE];

	if (!steno_session_ready())
		return;
	steno_my.settings_dirty = false;
	for (i = 0; i < (int) lengthof(settings); i++)
	{
		bool		servers;

		if (!watched(i))
			continue;
		current_value(i, value);
		if (strcmp(value, recorded[i]) == 0)
			continue;
		/* writer 0 may not have read the new configuration yet: ask for the source */
		servers = strcmp(value, steno_control->settings[i]) == 0 ||
			source_of(settings[i].name) <= PGC_S_ARGV;
		if (!servers || of_session[i])
			record_change(i, value);
		of_session[i] = !servers;
		strlcpy(recorded[i], value, STENO_SETTING_VALUE);
	}
}
