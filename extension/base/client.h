/*
 * extension/base/client.h
 *		What a process knows of its client's connection: set once, when it attaches to
 *		its ring or is authenticated, and part of the facts of its session.
 */
#ifndef STENO_CLIENT_H
#define STENO_CLIENT_H

#include "base/steno.h"
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

/*
 * Of this session's client, or, in a parallel worker, of its leader's.  Set by
 * session/facts.c when the session begins and, as to authentication, once that is over.
 */
extern StenoClientFacts steno_client;

#pragma GCC visibility pop

#endif							/* STENO_CLIENT_H */
