/*
 * extension/delivery/staged.h
 *		The staged record: that of a client's statement that runs.
 */
#ifndef STENO_STAGED_H
#define STENO_STAGED_H

#include "base/facts.h"
#include "describe/param.h"


#pragma GCC visibility push(hidden)

extern bool steno_stage_record(const StenoRecord *record);
extern bool steno_stage_query(const StenoStatement *q, const uint8 *shape, uint32 shape_len,
							  const StenoParams *params);
extern bool steno_stage_prepared(const StenoStatement *q, StenoPrepared *prepared, ParamListInfo params);
extern void steno_unstage(void);
extern void steno_staged_publish(void);
extern void steno_staged_end(uint64 duration, uint64 rows, TransactionId xid);
extern void steno_staged_finish(uint64 duration, uint64 rows, TransactionId xid);
extern bool steno_staged_fail(uint64 duration, uint64 rows, TransactionId xid, int sqlerrcode,
							  const char *message);

#pragma GCC visibility pop

#endif							/* STENO_STAGED_H */
