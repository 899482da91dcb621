/*
 * extension/base/last_stop.h
 *		Whether the server was run between its last stop and this start.
 */
#ifndef STENO_LAST_STOP_H
#define STENO_LAST_STOP_H

#pragma GCC visibility push(hidden)

/* A stop: where the server's own WAL ended (0: it had none), and when.  Part of the state file. */
typedef struct StenoStop
{
	uint64		wal;
	uint64		timeline;
	int64		time;
} StenoStop;

extern void steno_last_stop_begin_run(void);
extern void steno_last_stop_now(StenoStop *stop);
extern bool steno_not_run_since(const StenoStop *stop, TimestampTz *shut_down);

#pragma GCC visibility pop

#endif							/* STENO_LAST_STOP_H */
