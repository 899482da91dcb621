/*
 * extension/delivery/record.h
 *		A session's records: encoded in place in its ring.
 */
#ifndef STENO_RECORD_H
#define STENO_RECORD_H

#include "base/facts.h"
#include "describe/param.h"

#pragma GCC visibility push(hidden)

extern void steno_record_describe(const uint8 *body, uint32 len);
extern void steno_record_put(StenoRecord *record, bool top_level);
extern bool steno_record_is_big(const StenoRecord *record);
extern void steno_record_may_fail(const StenoStatement *s);
extern bool steno_record_guarded(void (*f) (void));

/* ---- records that are dropped ---- */

#define STENO_GAP_PAIRS 4
#define STENO_GAP_EXTRA 128

extern void steno_record_drop(void);
extern bool steno_record_undo_cancelled(void);
extern const char *steno_gap_reason(uint32 reason);
extern uint32 steno_gap_extra(uint8 *buf, uint64 count, uint64 first, uint64 last, uint32 reason);
extern void steno_gap_save(void);
extern void steno_gap_recover(void);
extern void steno_gap_recover_unowned(uint32 ring, StenoWriterControl *writer);

#pragma GCC visibility pop

#endif							/* STENO_RECORD_H */
