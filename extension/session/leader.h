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

/* Who a session is: its user and its current role. */
typedef struct StenoNames
{
	Oid			user_id;		/* 0: not known yet */
	Oid			role_id;
	char		user[NAMEDATALEN];
	char		role[NAMEDATALEN];
} StenoNames;

extern void steno_leader_request_shmem(void);
extern void steno_leader_create_shmem(void);
extern void steno_leader_publish(const StenoClientFacts *facts);
extern void steno_leader_publish_names(const StenoNames *names);
extern void steno_leader_find(StenoLeader *leader, StenoClientFacts *facts, StenoNames *names);
extern bool steno_session_names(uint32 ring_number, StenoNames *names);

#pragma GCC visibility pop

#endif							/* STENO_LEADER_H */
