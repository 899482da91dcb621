/*
 * extension/delivery/wait.h
 *		Waiting for the disk, and what is served meanwhile.
 */
#ifndef STENO_WAIT_H
#define STENO_WAIT_H

#include "base/steno.h"


#pragma GCC visibility push(hidden)

extern bool steno_can_raise(void);
extern void steno_raise_cancel(void);
extern void steno_raise_cancelled(void);
extern bool steno_call_guarded(void (*f) (void));
extern bool steno_allow_barriers(bool allow);
extern void steno_absorb_barriers(void);
extern void steno_ring_watch(void);
extern void steno_ring_wake_writer(void);
extern void steno_wait_to_start(void);
extern bool steno_wait_is_ended(const char *awaited, const char *detail);
extern void steno_wait_after_commit(void);
extern void steno_wait_request(void);
extern void steno_wait_for_request(void);
extern void steno_wait_at_workers_end(void);

#pragma GCC visibility pop

#endif							/* STENO_WAIT_H */
