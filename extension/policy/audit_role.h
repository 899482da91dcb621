/*
 * extension/policy/audit_role.h
 *		Object auditing, for the hooks that know what a statement is about to touch.
 */
#ifndef STENO_AUDIT_ROLE_H
#define STENO_AUDIT_ROLE_H

#include "base/steno.h"
#include "base/compat.h"

#pragma GCC visibility push(hidden)

extern void steno_watch_roles(void);
extern void steno_audit_role_changed(void);
extern bool steno_audit_permission(const StenoPermission *p);
extern bool steno_audit_permissions(List *permissions);
extern bool steno_audit_relation(Oid relid, AclMode mode);
extern bool steno_audit_known(const StenoPermission *p);

#pragma GCC visibility pop

#endif							/* STENO_AUDIT_ROLE_H */
