/*
 * extension/session/session.h
 *		This process as a session.
 */
#ifndef STENO_SESSION_H
#define STENO_SESSION_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_session_install(void);
extern void steno_session_failed(const ErrorData *edata);
extern void steno_session_died(const ErrorData *edata);
extern void steno_session_prepare_mapping(void);
extern void steno_session_map_data(void);
extern bool steno_session_attach(void);

/* ---- facts.c ---- */

struct StenoLeader;

extern void steno_session_learn(void);
extern void steno_session_check(Oid user_id);
extern void steno_session_failing(Oid user_id);
extern void steno_facts_set_client(void);
extern void steno_facts_set_authentication(void);
extern void steno_facts_set_leader(const struct StenoLeader *leader);
extern void steno_facts_find_encoding(void);
extern void steno_facts_publish_names(void);

/* ---- outermost.c ---- */

extern void steno_outermost_install(void);
extern void steno_outermost_check(void);

/* Attach to the ring if necessary; false if this process cannot record. */
static inline bool
steno_session_ready(void)
{
	return likely(steno_my.state == STENO_READY) ||
		(steno_my.state == STENO_UNDECIDED && steno_session_attach());
}

/*
 * Has a session fact changed since our session message?  user_id is the statement's
 * role.  A setting's new value has another address than its old one, which
 * stands at least to the end of the transaction; to rely on that, we must look
 * at each statement.  The session user changes in utility statements, which look
 * for themselves.
 */
static inline void
steno_describe(Oid user_id)
{
	if (unlikely(!steno_is_described() || steno_my.application != *steno_private.application_name ||
				 steno_my.user_id != user_id))
		steno_session_check(user_id);
}

/* ---- the identity of records that come late ---- */

typedef struct StenoIdentity StenoIdentity;

extern StenoIdentity *steno_identity_take(void);
extern void steno_identity_release(StenoIdentity **mine);
extern bool steno_identity_describe(const StenoIdentity *who);
extern void steno_identity_described(void);

#pragma GCC visibility pop

#endif							/* STENO_SESSION_H */
