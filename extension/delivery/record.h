/*
 * extension/delivery/record.h
 *		A session's records: encoded in place in its ring (record.c), staged there while the
 *		client's statement runs (staged.c), and copied to private memory if they cannot
 *		stay in the ring (copy.c).
 */
#ifndef STENO_RECORD_H
#define STENO_RECORD_H

#include "base/facts.h"
#include "describe/object.h"
#include "value/param.h"

#pragma GCC visibility push(hidden)

extern void steno_record_describe(const uint8 *body, uint32 len);
extern void steno_record_put(StenoRecord *record, bool top_level);
extern bool steno_put_commit(const StenoRecord *record);
extern bool steno_put_nested(const StenoStatement *s, uint8 template, const StenoParams *params, uint64 rows,
							 uint64 xid);
extern bool steno_record_is_big(const StenoRecord *record);
extern bool steno_stage_ended(const StenoRecord *record);
extern bool steno_record_guarded(void (*f) (void));

/* ---- records that are dropped ---- */

#define STENO_GAP_PAIRS 4
#define STENO_GAP_EXTRA 128

extern void steno_record_drop(void);
extern bool steno_record_undo_cancelled(void);
extern const char *steno_gap_reason(uint32 reason);
extern uint32 steno_gap_extra(uint8 *buf, uint64 count, uint64 first, uint64 last, uint32 reason);
extern void steno_gap_save(const StenoRecord *end);

/* ---- staged.c ---- */

extern bool steno_stage_record(const StenoRecord *record);
extern bool steno_stage_query(const StenoStatement *q, const uint8 *shape, uint32 shape_len,
							  const StenoParams *params);
extern bool steno_stage_repeated(const StenoStatement *s, StenoKept *k, const StenoParams *params);
extern bool steno_stage_control(const StenoStatement *s, uint8 control);
extern bool steno_stage_prepared(const StenoStatement *q, StenoPrepared *prepared, ParamListInfo params);
extern void steno_inflight_text(uint64 statement, int64 time, const char *text, uint32 len);
extern void steno_unstage(void);
extern void steno_staged_publish(void);
extern void steno_staged_end(const StenoStatement *s, uint64 rows, uint64 xid);
extern void steno_staged_finish(const StenoStatement *s, uint64 rows, uint64 xid);
extern void steno_staged_commit(const StenoStatement *s);
extern void steno_staged_wait(const StenoStatement *s, uint64 rows);
extern bool steno_staged_fail(const StenoStatement *s, uint64 rows, uint64 xid, int sqlerrcode, const char *message);

/* ---- copy.c ---- */

typedef struct StenoCopy StenoCopy;

extern void steno_copy_install(void);
extern StenoCopy *steno_copy_record(const StenoRecord *record);
extern StenoCopy *steno_copy_message(const StenoRecordMessage *m);
extern void steno_copy_read(const StenoCopy *c, struct StenoObjects *objects, StenoRecord *record);
extern void steno_copy_release(StenoCopy **mine);

#pragma GCC visibility pop

#endif							/* STENO_RECORD_H */
