/*
 * extension/capture/start_record.c
 *		Start records that a session makes, numbered like its other records, for each
 *		statement of the classes of steno.log_start.
 */
#include "base/steno.h"

#include "access/xact.h"

#include "capture/statement.h"

/*
 * A statement starts that wants a start record.  record is what its own record
 * will be, as far as that is known.
 */
STENO_COLD void
steno_running_record(StenoStatement *s, StenoRecord *record)
{
	steno_fill(record, s);
	record->kind = STENO_KIND_START;
	record->outcome = STENO_OUTCOME_RUNNING;
	record->xid = GetTopTransactionIdIfAny();
	if (unlikely(s->policy != 0))
		steno_policy_apply(s, record);
	if (s->top_level)
		STENO_STORE(steno_my.producer.ring->inflight.announced, s->statement);
	steno_record_put(record, false);
}
