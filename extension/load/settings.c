/*
 * extension/load/settings.c
 *		Defines the settings of base/settings.def, and checks their values.
 */
#include "base/steno.h"
#include "base/compat.h"
#include "load/load.h"
#include "session/settings_in_force.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/varlena.h"

static const struct config_enum_entry delivery_options[] = {
	{"wait", STENO_DELIVERY_WAIT, false},
	{"drop", STENO_DELIVERY_DROP, false},
	{NULL, 0, false}
};

static const struct config_enum_entry on_failure_options[] = {
	{"wait", STENO_ON_FAILURE_WAIT, false},
	{"error", STENO_ON_FAILURE_ERROR, false},
	{"continue", STENO_ON_FAILURE_CONTINUE, false},
	{"shutdown", STENO_ON_FAILURE_SHUTDOWN, false},
	{NULL, 0, false}
};

static const struct config_enum_entry compression_options[] = {
	{"lz4", STENO_CODEC_LZ4, false},
	{"none", STENO_CODEC_NONE, false},
	{NULL, 0, false}
};

static const struct
{
	const char *name;
	uint32		mask;
}			log_classes[] =
{
#define STENO_CLASS(n, id, name, doc) {name, 1u << n},
#include "../format/records.def"
#undef STENO_CLASS
	{"all", ~0u}
};

/*
 * A list of classes: all, none, classes, and, from those, -class.  How the list
 * is named in messages is up to the server, which names the setting.
 */
static bool
check_classes(char **newval, void **extra, GucSource source)
{
	char	   *copy = pstrdup(*newval);
	List	   *names;
	ListCell   *lc;
	uint32		mask = 0;
	bool		none = false;

	if (!SplitIdentifierString(copy, ',', &names))
	{
		GUC_check_errdetail("List syntax is invalid.");
		goto refuse;
	}
	foreach(lc, names)
	{
		const char *name = (const char *) lfirst(lc);
		const char *class = name + (*name == '-');
		int			i;

		if (strcmp(name, "none") == 0)
		{
			none = true;
			continue;
		}
		for (i = 0; i < (int) lengthof(log_classes); i++)
			if (strcmp(class, log_classes[i].name) == 0)
				break;
		if (i == (int) lengthof(log_classes))
		{
			GUC_check_errdetail("Unrecognized class: \"%s\".", class);
			GUC_check_errhint("Classes are all, none, read, write, function, role, ddl, misc, misc_set, connect, error, transaction, setting; \"-\" before a class takes it off the list.");
			goto refuse;
		}
		if (class == name)
			mask |= log_classes[i].mask;
		else if (lc == list_head(names))
		{
			GUC_check_errdetail("There is no class before \"%s\" from which to exclude it.", name);
			GUC_check_errhint("Write \"all, %s\".", name);
			goto refuse;
		}
		else
			mask &= ~log_classes[i].mask;
	}
	if (names == NIL)
	{
		GUC_check_errdetail("The list is empty; use \"none\".");
		goto refuse;
	}
	if (none && list_length(names) > 1)
	{
		GUC_check_errdetail("\"none\" cannot be combined with classes.");
		goto refuse;
	}
	list_free(names);
	pfree(copy);

	*extra = steno_guc_malloc(sizeof(uint32));
	if (*extra == NULL)
		return false;
	*(uint32 *) *extra = mask;
	return true;

refuse:
	list_free(names);
	pfree(copy);
	return false;
}

static void
assign_log(const char *newval, void *extra)
{
	steno_settings_assigned();
	steno_wanted.session_mask = *(uint32 *) extra;
}

static void
assign_mandatory(const char *newval, void *extra)
{
	steno_private.mandatory_mask = *(uint32 *) extra;
}

static void
assign_log_start(const char *newval, void *extra)
{
	steno_settings_assigned();
	steno_wanted.start_mask = *(uint32 *) extra;
}

static void
assign_sync(const char *newval, void *extra)
{
	steno_settings_assigned();
	steno_wanted.sync_mask = *(uint32 *) extra;
}

/*
 * SET wants a role that there is.  Elsewhere it need not exist yet, or cannot be looked
 * up: that is done when it is needed.
 */
static bool
check_audit_role(char **newval, void **extra, GucSource source)
{
	if (strlen(*newval) >= NAMEDATALEN)
	{
		GUC_check_errdetail("The name is too long.");
		return false;
	}
	if (source == PGC_S_SESSION && **newval != '\0' && IsTransactionState() && !InitializingParallelWorker &&
		!OidIsValid(get_role_oid(*newval, true)))
	{
		GUC_check_errcode(ERRCODE_UNDEFINED_OBJECT);
		GUC_check_errdetail("Role \"%s\" does not exist.", *newval);
		GUC_check_errhint("Name a role that has the privileges to be audited, or \"\" for none.");
		return false;
	}
	return true;
}

static void
assign_audit_role(const char *newval, void *extra)
{
	steno_settings_assigned();
	strlcpy(steno_wanted.role, newval ? newval : "", NAMEDATALEN);
}

static bool
check_app(char **newval, void **extra, GucSource source)
{
	if (strlen(*newval) >= STENO_APP_MAX)
	{
		GUC_check_errdetail("The value is longer than %d bytes.", STENO_APP_MAX - 1);
		return false;
	}
	return true;
}

/* The next record says so in a new session message. */
static void
assign_app(const char *newval, void *extra)
{
	steno_my.application = NULL;
}

/*
 * Assign hooks only say that something may have changed: they run in the middle of
 * aborts, too.
 */
static void
assign_bool(bool newval, void *extra)
{
	steno_settings_assigned();
}

static void
assign_string(const char *newval, void *extra)
{
	steno_settings_assigned();
}

static void
assign_int(int newval, void *extra)
{
	steno_settings_assigned();
}

static void
assign_enum(int newval, void *extra)
{
	steno_settings_assigned();
}

static bool
check_path(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0')
	{
		GUC_check_errdetail("The path is empty.");
		return false;
	}
	if (strlen(*newval) >= MAXPGPATH - 64)
	{
		GUC_check_errdetail("The path is too long.");
		return false;
	}
	return true;
}

/* More than a hundred years. */
#define RETENTION_AGE_MOST 52560000

/*
 * A time like that of other settings, in minutes by default.  But whoever writes 400 means days, and would lose what
 * must be kept: without a unit, it must be a day at least.
 */
static bool
check_retention_age(char **newval, void **extra, GucSource source)
{
	const char *hint = NULL;
	int			minutes;
	int			number;
	double		exact;

	if (!parse_int(*newval, &minutes, GUC_UNIT_MIN, &hint))
	{
		GUC_check_errdetail("\"steno.retention_age\" must be a time, such as \"400d\".");
		if (hint)
			GUC_check_errhint("%s", _(hint));
		return false;
	}
	if (minutes < 0 || minutes > RETENTION_AGE_MOST)
	{
		GUC_check_errdetail("\"steno.retention_age\" must be between 0 and %d minutes.", RETENTION_AGE_MOST);
		return false;
	}
	if (minutes > 0 && minutes < MINS_PER_HOUR * HOURS_PER_DAY && parse_int(*newval, &number, 0, NULL))
	{
		GUC_check_errdetail("Without a unit, this is %d minutes.", minutes);
		GUC_check_errhint("Add the unit, such as \"%dd\" for days, or \"%dmin\".", minutes, minutes);
		return false;
	}
	/* 0 would keep everything */
	if (minutes == 0 && parse_real(*newval, &exact, GUC_UNIT_MIN, NULL) && exact != 0)
	{
		GUC_check_errdetail("\"steno.retention_age\" must be a minute at least, or 0 for no limit.");
		return false;
	}
	*extra = steno_guc_malloc(sizeof(int));
	if (*extra == NULL)
		return false;
	*(int *) *extra = minutes;
	return true;
}

static void
assign_retention_age(const char *newval, void *extra)
{
	steno_settings_assigned();
	steno_retention_age = *(int *) extra;
}

static bool
check_ring_size(int *newval, void **extra, GucSource source)
{
	if ((*newval & (*newval - 1)) != 0)
	{
		GUC_check_errdetail("\"steno.ring_size\" must be a power of two, in kilobytes.");
		return false;
	}
	return true;
}

/* As the server refuses unknown placeholders in its own commands, so that a mistake is not found in an emergency. */
static bool
check_alert_command(char **newval, void **extra, GucSource source)
{
	const char *p;

	for (p = strchr(*newval, '%'); p != NULL; p = strchr(p + 2, '%'))
	{
		if (p[1] == '\0')
		{
			GUC_check_errdetail("The command ends with an incomplete placeholder \"%%\".");
			return false;
		}
		if (strchr("esdm%", p[1]) == NULL)
		{
			GUC_check_errdetail("The command contains the unknown placeholder \"%%%c\".", p[1]);
			GUC_check_errhint("Use %%e for the event, %%s for the stream, %%d for the trail directory, %%m for the message, and %%%% for a percent sign.");
			return false;
		}
	}
	return true;
}

static bool
check_file_mode(int *newval, void **extra, GucSource source)
{
	if (*newval != 0600 && *newval != 0640 && *newval != 0644)
	{
		GUC_check_errdetail("\"steno.file_mode\" must be 0600, 0640, or 0644.");
		return false;
	}
	return true;
}

static const char *
show_file_mode(void)
{
	static char buf[12];

	snprintf(buf, sizeof(buf), "%04o", steno_file_mode);
	return buf;
}

/*
 * From PostgreSQL 16 on, a server with assertions checks what a variable has when its
 * setting is defined: zero will do, but that of an enum must have the default
 * (a73952b7956).
 */
void
steno_settings_define(void)
{
#define STENO_SETTING_BOOL(name, var, def, context, flags, check, assign, show, short_desc, long_desc) \
	DefineCustomBoolVariable("steno." #name, short_desc, long_desc, &var, def, \
							 context, flags, check, assign, show);
#define STENO_SETTING_INT(name, var, def, min, max, context, flags, check, assign, show, short_desc, long_desc) \
	DefineCustomIntVariable("steno." #name, short_desc, long_desc, &var, def, min, max, \
							context, flags, check, assign, show);
#define STENO_SETTING_ENUM(name, var, def, options, context, flags, check, assign, show, short_desc, long_desc) \
	var = def; \
	DefineCustomEnumVariable("steno." #name, short_desc, long_desc, &var, def, options, \
							 context, flags, check, assign, show);
#define STENO_SETTING_STRING(name, var, def, context, flags, check, assign, show, short_desc, long_desc) \
	DefineCustomStringVariable("steno." #name, short_desc, long_desc, &var, def, \
							   context, flags, check, assign, show);
#include "base/settings.def"
#undef STENO_SETTING_BOOL
#undef STENO_SETTING_INT
#undef STENO_SETTING_ENUM
#undef STENO_SETTING_STRING

	MarkGUCPrefixReserved("steno");
}
