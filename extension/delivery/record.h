/*
 * extension/delivery/record.h
 *		A session's records: encoded in place in its ring.
 */
#ifndef STENO_RECORD_H
#define STENO_RECORD_H

#include "base/facts.h"
#include "describe/param.h"

#pragma GCC visibility push(hidden)

extern void steno_record_put(StenoRecord *record, bool top_level);
extern void steno_record_put_failed(StenoRecord *record);
extern void *steno_record_room(uint32 len);
extern bool steno_record_stage(const StenoRecord *record);
extern bool steno_record_stage_usual(const StenoStatement *q, const uint8 *shape,
									 uint32 shape_len, const StenoParams *params);
extern bool steno_record_stage_prepared(const StenoStatement *q, StenoPrepared *prepared,
										ParamListInfo params);
extern void steno_record_unstage(void);
extern void steno_record_publish(void);
extern void steno_record_end_staged(uint64 duration, uint64 rows, TransactionId xid);
extern bool steno_record_is_big(const StenoRecord *record);
extern void steno_record_finish(uint64 duration, uint64 rows, TransactionId xid);
extern bool steno_record_finish_failed(uint64 duration, uint64 rows, TransactionId xid,
									   int sqlerrcode, const char *message);

#define STENO_GAP_PAIRS 4
#define STENO_GAP_EXTRA 128
extern const char *steno_gap_reason(uint32 reason);
extern uint32 steno_gap_extra(uint8 *buf, uint64 count, uint64 first, uint64 last, uint32 reason);
extern void steno_record_leave(void);
extern void steno_record_drop(void);
extern bool steno_record_take_back(void);
extern void steno_record_may_fail(const StenoStatement *s);
extern int	steno_record_covered;	/* how many statements the reserve is for */
extern int	steno_record_owed(void);
extern bool steno_record_cover(int owed);
extern bool steno_record_reserve_is_whole(void);
extern bool steno_record_drops(void);
extern void *steno_record_reserved(uint32 len);
extern bool steno_record_sleep(long *nap);
extern void steno_record_dying(void);
extern void steno_record_take_over(void);
extern void steno_record_tell_left_gap(uint32 ring, StenoWriterControl *writer);

#pragma GCC visibility pop

#endif							/* STENO_RECORD_H */
