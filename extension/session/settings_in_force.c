/*
 * extension/session/settings_in_force.c
 *		The values of our own settings that are in force in this process.
 *
 * The server may assign a setting's new value at any time, even while it aborts a
 * transaction.  So an assigned value is only the wanted one (steno_wanted), and
 * steno_my keeps the value in force until the change has been recorded
 * (setting_change.c).
 *
 * Changes of the server's configuration by a reload are recorded once for all
 * sessions, by writer 0.  It publishes the values in the control area when their
 * records are in the trail.  A session that finds such a change earlier keeps the
 * values in force, and compares again before each statement.
 */
#include "base/steno.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "base/compat.h"
#include "filter/redact.h"
#include "policy/audit_role.h"
#include "policy/policy.h"
#include "policy/secret.h"
#include "session/settings_in_force.h"

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
#include "base/settings.def"
#undef STENO_SETTING_BOOL
#undef STENO_SETTING_INT
#undef STENO_SETTING_ENUM
#undef STENO_SETTING_STRING
};

StaticAssertDecl(lengthof(settings) <= STENO_SETTINGS_MOST, "room for all settings");

/*
 * The values in force in this session, as text: those that were recorded last.  They are here only
 * once one of them may have changed (has_texts): most sessions change none, and spare themselves
 * the copy.
 */
static char in_force[STENO_SETTINGS_MOST][STENO_SETTING_VALUE];
static bool has_texts STENO_SESSION_DATA;
static bool of_session[STENO_SETTINGS_MOST] STENO_SESSION_DATA;	/* whether it was set in this session */

/*
 * Whether the values that this process has inherited from the postmaster are those in the control
 * area: known by the number of assignments that the postmaster has made, and the generation in the
 * control area (StenoControl.inherited_values).  assigned: a value was assigned in this process.
 */
static uint32 assignments;
static bool assigned STENO_SESSION_DATA;
static uint32 compared STENO_SESSION_DATA;	/* generation of the texts that this session began with */

/* The server's entries of the settings: found once, before processes are forked. */
static struct config_generic *variables[STENO_SETTINGS_MOST];

/*
 * Settings that need a restart cannot change; those that identify the application's
 * user (steno.app_user) are facts of every record.
 */
static inline bool
is_recorded_setting(int i)
{
	return settings[i].context != PGC_POSTMASTER && settings[i].context != PGC_USERSET;
}

/*
 * A value that is too long is replaced by its beginning and a hash.  All processes must cut it in the same way,
 * also those without a database, so that it is cut as UTF-8; periods fill the rest.
 */
#define CUT_AT (STENO_SETTING_VALUE - 20)
#define CUT_LEN (CUT_AT + 4 + 8)

void
steno_setting_cut(const char *v, char *value)
{
	size_t		len;

	len = strlcpy(value, v, STENO_SETTING_VALUE);
	if (len >= STENO_SETTING_VALUE)
	{
		int			kept = pg_encoding_mbcliplen(PG_UTF8, v, (int) len, CUT_AT);

		memset(value + kept, '.', CUT_AT - kept);
		snprintf(value + CUT_AT, STENO_SETTING_VALUE - CUT_AT, "... %08x",
				 hash_bytes((const unsigned char *) v, (int) len));
	}
}

static void
current_setting_value(int i, char *value)
{
	const char *v = GetConfigOption(settings[i].name, true, false);

	steno_setting_cut(v == NULL ? "" : v, value);
}

/*
 * The form of a value in a record.  Nothing is shown of a truncated value that may
 * contain a secret, because the beginning of a secret may not be recognized as one.
 */
static void
show_setting_value(const char *value, char *shown)
{
	if (strlen(value) == CUT_LEN && strncmp(value + CUT_AT, "... ", 4) == 0 &&
		steno_redact_suspect(value, CUT_AT))
		strlcpy(shown, STENO_REDACTED, STENO_SETTING_VALUE);
	else
		steno_secret_hide_value(value, shown);
}

/* The units of settings, from the largest on, as the server shows them: a number that is a multiple of one has it. */
static const struct
{
	int			flag;
	const char *name;
	int64		factor;			/* in the setting's own unit */
}			units[] =
{
	{GUC_UNIT_BYTE, "TB", INT64CONST(1) << 40},
	{GUC_UNIT_BYTE, "GB", INT64CONST(1) << 30},
	{GUC_UNIT_BYTE, "MB", INT64CONST(1) << 20},
	{GUC_UNIT_BYTE, "kB", INT64CONST(1) << 10},
	{GUC_UNIT_BYTE, "B", 1},
	{GUC_UNIT_KB, "TB", INT64CONST(1) << 30},
	{GUC_UNIT_KB, "GB", INT64CONST(1) << 20},
	{GUC_UNIT_KB, "MB", INT64CONST(1) << 10},
	{GUC_UNIT_KB, "kB", 1},
	{GUC_UNIT_MB, "TB", INT64CONST(1) << 20},
	{GUC_UNIT_MB, "GB", INT64CONST(1) << 10},
	{GUC_UNIT_MB, "MB", 1},
	{GUC_UNIT_MS, "d", 86400000},
	{GUC_UNIT_MS, "h", 3600000},
	{GUC_UNIT_MS, "min", 60000},
	{GUC_UNIT_MS, "s", 1000},
	{GUC_UNIT_MS, "ms", 1},
	{GUC_UNIT_S, "d", 86400},
	{GUC_UNIT_S, "h", 3600},
	{GUC_UNIT_S, "min", 60},
	{GUC_UNIT_S, "s", 1},
	{GUC_UNIT_MIN, "d", 1440},
	{GUC_UNIT_MIN, "h", 60},
	{GUC_UNIT_MIN, "min", 1}
};

/*
 * The value of one of our settings as SHOW and records show it.  GetConfigOptionByName would do the same, but
 * allocates memory, and this may run where nothing must fail.
 */
static void
show_own_value(int i, const char *value, char *shown)
{
	int			unit = variables[i] != NULL ? variables[i]->flags & GUC_UNIT : 0;
	int64		number;
	size_t		k;

	if (unit != 0 && (number = strtoll(value, NULL, 10)) > 0)
	{
		for (k = 0; k < lengthof(units); k++)
			if (units[k].flag == unit && number % units[k].factor == 0)
			{
				snprintf(shown, STENO_SETTING_VALUE, INT64_FORMAT "%s", number / units[k].factor, units[k].name);
				return;
			}
	}
	if (strcmp(settings[i].name, "steno.file_mode") == 0)
		snprintf(shown, STENO_SETTING_VALUE, "%04o", atoi(value));
	else
		show_setting_value(value, shown);
}

/* The value of any setting of the server as records show it. */
void
steno_setting_show(const char *name, const char *value, char *shown)
{
	char		cut[STENO_SETTING_VALUE];

	steno_setting_cut(value, cut);
	if (value[0] != '\0' && steno_secret_setting(name))
		strlcpy(shown, STENO_REDACTED, STENO_SETTING_VALUE);
	else
		show_setting_value(cut, shown);
	if (steno_my.scratch_used)
	{
		MemoryContextReset(steno_private.scratch);
		steno_my.scratch_used = false;
	}
}

bool
steno_setting_is_recorded(const char *name)
{
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (is_recorded_setting(i) && strcmp(settings[i].name, name) == 0)
			return true;
	return false;
}

static GucSource
setting_source(int i)
{
	if (variables[i] == NULL)
		variables[i] = steno_find_setting(settings[i].name);
	return variables[i] ? variables[i]->source : PGC_S_SESSION;
}

static bool
is_set_by_server(int i)
{
	return setting_source(i) <= PGC_S_ARGV;
}

/* Where a value comes from, as records show it; of_session: the one before was set in this session. */
const char *
steno_setting_source_name(GucSource source, bool was_of_session)
{
	switch (source)
	{
		case PGC_S_DATABASE:
			return "database";
		case PGC_S_GLOBAL:
		case PGC_S_USER:
		case PGC_S_DATABASE_USER:
			return "role";
		case PGC_S_CLIENT:
			return "connection";
		default:
			/* a reset to the server's value was made by the session */
			return source <= PGC_S_ARGV && !was_of_session ? "server" : "session";
	}
}

/* Writer 0's count when we last found that we must wait for it. */
static uint32 waited_for STENO_SESSION_DATA;

/* This parallel worker has the values of its leader's session, which it adopts without waiting. */
static bool inherited STENO_SESSION_DATA;

/* Put these values in force in this process. */
static void
adopt_settings(const StenoWanted *wanted)
{
	steno_my.session_mask = wanted->session_mask;
	steno_policy_masks();
	steno_start_mask_adopt(wanted);
	/* while nothing was recorded, changes of the application's name were not noticed */
	steno_my.application = NULL;
	steno_my.delivery = wanted->delivery;
	steno_my.log_parameter_max_size = wanted->log_parameter_max_size;
	steno_my.log_nested = wanted->log_nested;
	steno_set_unusual(STENO_U_NO_PARAMETERS, !wanted->log_parameter);
	steno_set_unusual(STENO_U_NO_TEXT, !wanted->log_statement);
	steno_set_unusual(STENO_U_NO_RELATIONS, !wanted->log_relation);
	steno_set_unusual(STENO_U_NO_ROWS, !wanted->log_rows);
	/* if statements on catalogs are not recorded, they must be recognized */
	steno_policy_switch(STENO_POLICY_CATALOG, !wanted->log_catalog);
	steno_policy_switch(STENO_POLICY_REFERENTIAL, !wanted->log_referential);
	steno_policy_switch(STENO_POLICY_SCRIPTS, !wanted->log_scripts);
	steno_set_unusual(STENO_U_ROLE_SET, wanted->role[0] != '\0');
	if (strcmp(steno_audit_role, wanted->role) != 0)
	{
		memcpy(steno_audit_role, wanted->role, sizeof(steno_audit_role));
		steno_audit_role_changed();
	}
}

static inline uint64
inherited_values(uint32 generation)
{
	return (uint64) assignments << 32 | generation;
}

/*
 * A value is being assigned: the variables of all settings still have the old values.  This may be in
 * the middle of an abort; nothing here allocates memory or fails.
 */
void
steno_settings_assigned(void)
{
	int			i;

	steno_settings_become(STENO_SETTINGS_ASSIGNED);
	if (!IsUnderPostmaster)
	{
		assignments++;
		return;
	}
	assigned = true;
	if (steno_my.state != STENO_READY || has_texts)
		return;
	for (i = 0; i < (int) lengthof(settings); i++)
		if (is_recorded_setting(i))
			current_setting_value(i, in_force[i]);
	has_texts = true;
}

/*
 * Put the values where all processes see them.  Only the postmaster does this, before it
 * starts any process, and then writer 0.  The order is that of StenoControl (control.h).
 */
void
steno_settings_publish(void)
{
	int			i;

	adopt_settings(&steno_wanted);
	steno_control->wanted = steno_wanted;
	/* pairs with the fence in steno_settings_baseline: texts are no newer than "wanted" */
	atomic_thread_fence(memory_order_release);
	for (i = 0; i < (int) lengthof(settings); i++)
		if (is_recorded_setting(i))
		{
			current_setting_value(i, steno_control->settings[i]);
			(void) setting_source(i);
		}
	atomic_fetch_add(&steno_control->settings_generation, 1);
	if (!IsUnderPostmaster)
		atomic_store(&steno_control->inherited_values,
					 inherited_values(atomic_load(&steno_control->settings_generation)));
}

/*
 * Start this session with the server's values.  They are compared with those that this process has
 * inherited only if none before has done so: a reload can reach the postmaster before writer 0 has
 * recorded it.
 */
void
steno_settings_baseline(void)
{
	compared = atomic_load(&steno_control->settings_generation);
	if (likely(!assigned && atomic_load(&steno_control->inherited_values) == inherited_values(compared)))
	{
		adopt_settings(&steno_wanted);
		steno_settings_become(STENO_SETTINGS_SAME);
		return;
	}
	has_texts = true;
	memcpy(in_force, steno_control->settings, sizeof(in_force));
	/* pairs with the fence in steno_settings_publish: "wanted" is no older than the texts */
	atomic_thread_fence(memory_order_acquire);
	adopt_settings(&steno_control->wanted);
	memset(of_session, 0, sizeof(of_session));
	steno_settings_become(STENO_SETTINGS_ASSIGNED);
}

/*
 * Start a parallel worker with the values of its leader's session, whose changes
 * the leader has recorded.
 */
void
steno_settings_inherit(void)
{
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (is_recorded_setting(i) && !is_set_by_server(i))
		{
			current_setting_value(i, in_force[i]);
			of_session[i] = true;
			inherited = true;
		}
}

/*
 * At the server's start: names and values of the configured settings, so that a
 * change by a restart is recorded, too.  pairs has room for STENO_SETTINGS_MOST
 * pairs.  Returns their number.
 */
int
steno_settings_configured(const char **pairs)
{
	static char shown[STENO_SETTINGS_MOST][STENO_SETTING_VALUE];
	char		value[STENO_SETTING_VALUE];
	int			count = 0;
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
	{
		if (setting_source(i) == PGC_S_DEFAULT)
			continue;
		current_setting_value(i, value);
		show_own_value(i, value, shown[count]);
		pairs[2 * count] = settings[i].name;
		pairs[2 * count + 1] = shown[count];
		count++;
	}
	return count;
}

/*
 * Writer 0 has reloaded the configuration: call change for each changed setting, with arg.
 * Returns whether there was any; the caller publishes the values once all records
 * are in the trail.
 */
bool
steno_settings_reloaded(void (*change) (void *arg, const char *name, const char *from, const char *to), void *arg)
{
	bool		recorded = (steno_control->wanted.session_mask | steno_private.mandatory_mask) &
		(1u << STENO_CLASS_SETTING);
	bool		any = false;
	char		value[STENO_SETTING_VALUE];
	char		old[STENO_SETTING_VALUE];
	char		new[STENO_SETTING_VALUE];
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
	{
		if (!is_recorded_setting(i))
			continue;
		current_setting_value(i, value);
		if (strcmp(value, steno_control->settings[i]) == 0)
			continue;
		any = true;
		if (!recorded)
			continue;
		show_own_value(i, steno_control->settings[i], old);
		show_own_value(i, value, new);
		change(arg, settings[i].name, old, new);
	}
	if (steno_my.scratch_used)
	{
		MemoryContextReset(steno_private.scratch);
		steno_my.scratch_used = false;
	}
	return any;
}

/* Changes of settings that concern this session. */
typedef struct Changes
{
	bool		changed[STENO_SETTINGS_MOST];
	bool		own;			/* one was made or reset in this session */
	bool		unpublished;	/* writer 0 has yet to record one */
} Changes;

static bool
is_own_change(int i)
{
	return of_session[i] || !is_set_by_server(i);
}

static void
find_changes(Changes *c)
{
	char		value[STENO_SETTING_VALUE];
	int			i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < (int) lengthof(settings); i++)
	{
		if (!is_recorded_setting(i))
			continue;
		current_setting_value(i, value);
		c->changed[i] = strcmp(value, in_force[i]) != 0;
		if (!c->changed[i])
			continue;
		if (is_own_change(i))
			c->own = true;
		else if (strcmp(value, steno_control->settings[i]) != 0)
			c->unpublished = true;
	}
}

/*
 * Call record for each change that this session must record, and put all changes in
 * force.  While writer 0 has yet to record a change, do neither, unless a change
 * was made in this session.
 */
void
steno_settings_put_in_force(StenoRecordSetting record, bool failing)
{
	uint32		generation = atomic_load(&steno_control->settings_generation);
	Changes		c;
	bool		any = false;
	char		value[STENO_SETTING_VALUE];
	char		old[STENO_SETTING_VALUE];
	char		new[STENO_SETTING_VALUE];
	int			i;

	if (steno_my.settings == STENO_SETTINGS_WAITING && generation == waited_for)
		return;
	find_changes(&c);
	if (c.unpublished && !c.own && !inherited)
	{
		steno_settings_become(STENO_SETTINGS_WAITING);
		waited_for = generation;
		return;
	}
	steno_settings_become(STENO_SETTINGS_SAME);
	inherited = false;
	for (i = 0; i < (int) lengthof(settings); i++)
	{
		if (!c.changed[i])
			continue;
		any = true;
		current_setting_value(i, value);

		/*
		 * A change of our own cannot wait, so an unpublished one of the server's is
		 * recorded with it: twice is better than late.
		 */
		if (is_own_change(i) || strcmp(value, steno_control->settings[i]) != 0)
		{
			show_own_value(i, in_force[i], old);
			show_own_value(i, value, new);
			record(settings[i].name, old, new, steno_setting_source_name(setting_source(i), of_session[i]), failing);
		}
		of_session[i] = !is_set_by_server(i);
		strlcpy(in_force[i], value, STENO_SETTING_VALUE);
	}
	if (!any && !assigned)
		atomic_store(&steno_control->inherited_values, inherited_values(compared));
	adopt_settings(&steno_wanted);
}
