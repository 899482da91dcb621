/*
 * extension/session/leader.h
 *		What leader.c has for session.c and policy.c: see there.
 */
#ifndef STENO_LEADER_H
#define STENO_LEADER_H

#include "filter/rules.h"

#pragma GCC visibility push(hidden)

/* Facts of a client's connection that a parallel worker does not inherit. */
typedef struct StenoClientFacts
{
	StenoClient address;		/* as rules want it */
	char		client[88];		/* [address%interface]:port */
	char		auth_method[16];
	char		identity[248];
} StenoClientFacts;

/* session.c */
extern const StenoClient *steno_session_client(void);

/* The statement that a parallel worker works for. */
typedef struct StenoLeader
{
	int64		start;			/* of its session; 0: there is no leader */
	uint32		pid;
	uint64		statement;
	uint32		substatement;	/* 0: the client's own statement */
	uint16		depth;
} StenoLeader;

extern void steno_leader_request_shmem(void);
extern void steno_leader_create_shmem(void);
extern void steno_leader_publish(const StenoClientFacts *facts);
extern void steno_leader_find(StenoLeader *leader, StenoClientFacts *facts);

#pragma GCC visibility pop

#endif							/* STENO_LEADER_H */
