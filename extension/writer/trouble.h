/*
 * extension/writer/trouble.h
 *		A trail that cannot be written: what sessions and writers ask of
 *		trouble.c.
 */
#ifndef STENO_TROUBLE_H
#define STENO_TROUBLE_H

#include "storage/spin.h"

#pragma GCC visibility push(hidden)

/* steno.on_failure */
typedef enum StenoOnFailure
{
	STENO_ON_FAILURE_WAIT,
	STENO_ON_FAILURE_ERROR,
	STENO_ON_FAILURE_CONTINUE,
	STENO_ON_FAILURE_SHUTDOWN
} StenoOnFailure;

#define STENO_FAILURE_TEXT 512

/*
 * What is the matter with a writer that writes the trail nevertheless, and goes on as
 * well as it can.
 */
typedef enum StenoProblem
{
	STENO_PROBLEM_ENCRYPTION,	/* no answer of steno.encryption_key_command */
	STENO_PROBLEM_SIGNING,		/* steno.signing_key_file cannot be used */
	STENO_PROBLEM_SEAL,			/* the last seal could not be made */
	STENO_PROBLEM_RETENTION		/* segments that are to go cannot be deleted */
} StenoProblem;

/*
 * A writer's part of the control area about its trouble, which the writer sets;
 * all read it.  failing: 0, or what sessions are to do, one more than a
 * StenoOnFailure.  disk_free: of the trail's file system, in hundredths of a percent,
 * one more than that; 0: not known.  problems: a bit for each StenoProblem.  refused is
 * added to by sessions.  The mutex
 * guards text, which says what is the matter; empty: nothing.
 */
typedef struct StenoTrouble
{
	_Atomic uint32_t failing;
	_Atomic uint32_t disk_free;
	_Atomic uint32_t problems;
	_Atomic uint64_t refused;
	_Atomic int64_t since;
	slock_t		mutex;
	char		text[STENO_FAILURE_TEXT];
} StenoTrouble;

extern int	steno_on_failure;
extern int	steno_disk_reserve;
extern int	steno_disk_warning;
extern char *steno_alert_command;

#pragma GCC visibility pop

#endif							/* STENO_TROUBLE_H */
