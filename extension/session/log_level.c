/*
 * extension/session/log_level.c
 *		Whether the failures of this session are reported to the server's log.
 *
 * What fails before it is planned is seen only where the server reports it
 * (capture/failure.c), which a high log_min_messages prevents.  The value that the
 * configuration has is in the trail.  A session that has another one, which hides
 * failures, has a record of that, as if it were one of our settings.
 *
 * The setting's assign hook sees each new value, whoever assigns it: SET, a function
 * and its SET clause, an UPDATE of pg_settings, ALTER ROLE and the connection, the end
 * of a transaction.  Statements pay nothing for it.  Because it runs in the middle of
 * aborts, too, it only notes what is to be recorded; the records are made where those
 * of other settings are, and state the time of the assignment.  So a value that lasts
 * for a part of a statement, such as in a function that the planner calls, has its
 * records as well: failures may have been hidden meanwhile.
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "session/settings_in_force.h"

#define LOG_LEVEL "log_min_messages"

static StenoLogLevelHook previous_assign;
static struct config_generic *variable;

bool		steno_log_level_assigned STENO_SESSION_DATA;

/* The last record of this session says that it hides failures: the value is in "told". */
static bool told_hides STENO_SESSION_DATA;
static char told[STENO_SETTING_VALUE];

/* A value that hides failures, assigned since; in_statement: while a statement ran. */
static bool hid STENO_SESSION_DATA;
static bool hid_in_statement STENO_SESSION_DATA;
static TimestampTz hid_since STENO_SESSION_DATA;
static char hidden[STENO_SETTING_VALUE];

/* A new value is being assigned; the setting still has the old one.  Nothing here allocates memory or fails. */
static void
level_assigned(STENO_LOG_LEVEL_TYPE value, void *extra)
{
	bool		hides;

	if (previous_assign)
		previous_assign(value, extra);
	hides = steno_hides_errors(STENO_LOG_LEVEL_OF(value));
	if (!IsUnderPostmaster || IsParallelWorker() || steno_my.state == STENO_DEAD || !(hides || told_hides || hid))
		return;
	if (hides)
	{
		if (!hid)
			hid_since = GetCurrentTimestamp();
		if (!hid && !told_hides)
			steno_setting_cut(GetConfigOption(LOG_LEVEL, true, false), told);
		steno_setting_cut(STENO_LOG_LEVEL_TEXT(variable, value), hidden);
		hid = true;
		/* a reload, of which the trail has its own record, comes when none runs */
		hid_in_statement |= debug_query_string != NULL;
	}
	steno_log_level_assigned = true;
	steno_settings_assigned();
}

static bool
is_own(void)
{
	return variable->source > PGC_S_ARGV;
}

/* Whether the session has a value of its own that hides failures, and no record of it yet. */
bool
steno_log_level_is_due(void)
{
	return unlikely(steno_log_level_assigned) && is_own() &&
		steno_hides_errors(STENO_LOG_MIN_MESSAGES(MyBackendType));
}

/* Record what was assigned since the last call, if it hides failures or did so. */
void
steno_log_level_record(StenoRecordSettingAt record, bool failing)
{
	bool		hides = steno_hides_errors(STENO_LOG_MIN_MESSAGES(MyBackendType)) && is_own();
	bool		was_hidden = hid && hid_in_statement && !told_hides;
	char		value[STENO_SETTING_VALUE];

	steno_setting_cut(GetConfigOption(LOG_LEVEL, true, false), value);
	steno_log_level_assigned = hid_in_statement = false;
	if (hides ? !told_hides || strcmp(told, value) != 0 : was_hidden)
	{
		const char *new = hides ? value : hidden;

		record(hid ? hid_since : GetCurrentTimestamp(), LOG_LEVEL, told, new,
			   hides ? steno_setting_source_name(variable->source, true) : "session", failing);
		strlcpy(told, new, sizeof(told));
		told_hides = true;
	}
	hid = false;
	if (told_hides && !hides)
	{
		record(GetCurrentTimestamp(), LOG_LEVEL, told, value,
			   steno_setting_source_name(variable->source, true), failing);
		told_hides = false;
	}
}

void
steno_log_level_install(void)
{
	variable = steno_find_setting(LOG_LEVEL);
	previous_assign = STENO_LOG_LEVEL_HOOK(variable);
	STENO_LOG_LEVEL_HOOK(variable) = level_assigned;
}
