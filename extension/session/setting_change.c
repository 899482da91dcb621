/*
 * extension/session/setting_change.c
 *		Records of changes of our own settings.
 *
 * Before the next statement begins, or at the end of the one that has made the
 * change, the server's values are compared with those in force
 * (settings_in_force.c).  Each difference is recorded, and the new value is then
 * put in force.  So the record of a change precedes everything that was recorded,
 * or not recorded, because of it, whether it was made by SET, set_config(), ALTER
 * ROLE, or the end of a transaction or function.  A value that was set and reset
 * without a statement in between was never in force, and has no record.
 */
#include "base/steno.h"

#include "utils/timestamp.h"

#include "delivery/record.h"
#include "policy/policy.h"
#include "session/session.h"
#include "session/settings_in_force.h"

/*
 * Record the change of a setting.  Allocates nothing and, if failing, reads no
 * catalogs: this is also called for statements that are refused.
 */
static void
record_setting_at(TimestampTz time, const char *name, const char *old, const char *new, const char *source,
				  bool failing)
{
	const char *pairs[][2] = {{"name", name}, {"old", old}, {"new", new}, {"source", source}};
	StenoRecord record;
	uint8		extra[4 * (8 + 2 * STENO_VARINT_MAX) + NAMEDATALEN + 2 * STENO_SETTING_VALUE + 16];
	uint8	   *p = extra;
	int			j;

	if (!steno_class_logged(STENO_CLASS_SETTING))
		return;
	for (j = 0; j < (int) lengthof(pairs); j++)
		p = steno_put_pair(p, pairs[j][0], pairs[j][1]);
	if (failing)
		steno_session_failing(InvalidOid);
	else
		steno_session_check(InvalidOid);
	steno_record_init(&record, STENO_KIND_SETTING);
	record.time = time;
	record.audited = steno_audit_reason(STENO_CLASS_SETTING, 0);
	steno_record_set_class(&record, STENO_CLASS_SETTING);
	record.extra = extra;
	record.extra_len = p - extra;
	record.extra_count = lengthof(pairs);
	steno_record_put(&record, false);
}

static void
record_setting(const char *name, const char *old, const char *new, const char *source, bool failing)
{
	record_setting_at(GetCurrentTimestamp(), name, old, new, source, failing);
}

/*
 * Record the settings that have changed in this session, which is ready, since the last call, and put them in
 * force.
 */
void
steno_setting_changes_record(bool failing)
{
	if (unlikely(steno_log_level_assigned))
		steno_log_level_record(record_setting_at, failing);
	steno_settings_put_in_force(record_setting, failing);
}
