/*
 * extension/session/leader.h
 *		Parallel workers and their leaders: see leader.c.
 */
#ifndef STENO_LEADER_H
#define STENO_LEADER_H

#include "base/client.h"

#pragma GCC visibility push(hidden)

/* The statement that a parallel worker executes a part of. */
typedef struct StenoLeader
{
	int64		start;			/* start time of the leader's session; 0: there is no leader */
	uint32		pid;
	uint64		statement;
	uint32		substatement;	/* 0: it is the client's own statement */
	uint16		depth;
} StenoLeader;

extern void steno_leader_request_shmem(void);
extern void steno_leader_create_shmem(void);
extern void steno_leader_publish(const StenoClientFacts *facts);
extern void steno_leader_find(StenoLeader *leader, StenoClientFacts *facts);

#pragma GCC visibility pop

#endif							/* STENO_LEADER_H */
