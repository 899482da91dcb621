/*
 * extension/session/role.h
 *		Names of roles: see role.c.
 */
#ifndef STENO_ROLE_H
#define STENO_ROLE_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_role_name(char *to, Oid role);
extern void steno_role_name_failing(char *to, Oid role, const char *setting);
extern bool steno_role_names_changed(bool failing);
extern bool steno_role_names_stale(void);
extern void steno_role_keep(Oid role, Oid session_user_id);
extern void steno_role_learn_anew(Oid role);
extern void steno_role_changes(Oid role);
extern void steno_role_drops(Oid role);
extern void steno_role_inherit(Oid role, const char *name);
extern void steno_role_install(void);

extern Oid	steno_role_learned;

/*
 * Whenever we are called while catalogs can be read: learn the name of the current role, which may
 * be needed in a failure.
 */
static inline void
steno_role_learn(void)
{
	Oid			role = steno_private.get_user_id();

	if (unlikely(role != steno_role_learned))
		steno_role_learn_anew(role);
}

#pragma GCC visibility pop

#endif							/* STENO_ROLE_H */
