/*
 * extension/session/role.c
 *		Names of roles.
 *
 * Records have names, while the server knows roles by number.  Catalogs cannot be read in a
 * failure, so a name is learned before: when the session begins, when a function that runs as
 * its owner is called, and whenever else one of our hooks finds another role than before.
 *
 * A role that is renamed must not keep its old name, which may be another one's by then.  The
 * server's invalidation messages say that a name may have changed, and it is looked up again.
 * In a failure that is not possible.  So each session that commits a change of a role's name
 * puts the new one into the control area (StenoRoleChanges), where other sessions find it.
 *
 * A role that is dropped keeps its name in the sessions that it still has, until another role gets
 * that name.  The control area counts both: a name is lost when its role has been dropped and the name has been given,
 * since it was learned.
 *
 * A name that is not known is never replaced by a number alone: a role may be named so.  No
 * role can be named like what stands for it, because the server reserves names that begin
 * with "pg_".
 */
#include "base/steno.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "session/role.h"

/* Roles that this session has had lately. */
#define MOST_ROLES 8

typedef struct KnownRole
{
	Oid			role;			/* 0: none */
	uint32		role_hash;		/* as invalidation messages have it */
	uint32		name_hash;
	bool		stale;			/* such a message has come since */
	bool		uncommitted;	/* learned in a transaction that changes roles, and has not ended */
	uint64		changes;		/* numbers in the control area by then: of renames */
	uint32		given;			/* of those who got its name */
	uint32		dropped;		/* of dropped roles */
	char		name[NAMEDATALEN];
} KnownRole;

static KnownRole roles[MOST_ROLES] STENO_SESSION_DATA;
static int	next_role STENO_SESSION_DATA;

/* The last one whose name was learned, and those that are not to be forgotten. */
Oid			steno_role_learned STENO_SESSION_DATA;
static Oid	kept_role STENO_SESSION_DATA;
static Oid	kept_session_user STENO_SESSION_DATA;

static bool any_stale STENO_SESSION_DATA;
static uint64 version_seen STENO_SESSION_DATA;

static fmgr_hook_type previous_fmgr;

/* ---- changes of names, which other sessions publish ---- */

static uint64
count_changes(void)
{
	return atomic_load(&steno_control->roles.count);
}

static uint32
name_counter(const char *name)
{
	return hash_bytes((const unsigned char *) name, strlen(name)) % STENO_ROLE_COUNTERS;
}

static uint32
role_counter(Oid role)
{
	return hash_bytes_uint32(role) % STENO_ROLE_COUNTERS;
}

/* How often a role was dropped that is, perhaps, this one. */
static uint32
count_dropped(Oid role)
{
	return atomic_load(&steno_control->roles.dropped[role_counter(role)]);
}

/* How often a role got a name that is, perhaps, this one. */
static uint32
count_given(const char *name)
{
	return atomic_load(&steno_control->roles.given[name_counter(name)]);
}

/* Whether the role has gone since its name was learned, and another one may have the name. */
static bool
is_taken(const KnownRole *r)
{
	return count_dropped(r->role) != r->dropped && count_given(r->name) != r->given;
}

/*
 * Whether a role was renamed after its name was learned: false if that is not known, because there have
 * been too many renames.  *changed: it has a new name, which is in "to", and empty if that is not
 * certain.  The change that an invalidation message is about may have been counted before the name was
 * learned.
 */
static bool
find_change(const KnownRole *r, bool *changed, char *to)
{
	StenoRoleChanges *c = &steno_control->roles;
	uint64		since = r->stale ? 0 : r->changes;
	uint64		count = count_changes();
	uint64		i;
	bool		whole;

	*changed = false;
	if (count == since)
		return true;
	SpinLockAcquire(&c->mutex);
	count = atomic_load(&c->count);
	whole = count - r->changes <= STENO_ROLE_CHANGES;
	for (i = count; i > since && count - i < STENO_ROLE_CHANGES && !*changed; i--)
	{
		const StenoRoleChange *change = &c->last[(i - 1) % STENO_ROLE_CHANGES];

		if (change->role == r->role)
		{
			*changed = true;
			memcpy(to, change->name, NAMEDATALEN);
		}
	}
	SpinLockRelease(&c->mutex);
	return whole || *changed;
}

/* ---- what is known ---- */

static KnownRole *
find_role(Oid role)
{
	int			i;

	for (i = 0; i < MOST_ROLES; i++)
		if (roles[i].role == role)
			return &roles[i];
	return NULL;
}

/*
 * Callback: roles were created, changed or dropped.  The next statement looks at the session's facts
 * then, as if the application's name had changed.
 */
static void
role_changed(Datum arg, int cacheid, uint32 hash)
{
	int			i;

	for (i = 0; i < MOST_ROLES; i++)
	{
		KnownRole  *r = &roles[i];

		if (!OidIsValid(r->role) ||
			(hash != 0 && hash != (cacheid == AUTHOID ? r->role_hash : r->name_hash)))
			continue;
		r->stale = true;
		any_stale = true;
		steno_role_learned = InvalidOid;
		steno_my.application = NULL;
	}
}

static void
watch_names(void)
{
	static bool watched STENO_SESSION_DATA;

	if (watched)
		return;
	CacheRegisterSyscacheCallback(AUTHOID, role_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHNAME, role_changed, (Datum) 0);
	watched = true;
}

static void
set_unknown(char *to, Oid role)
{
	snprintf(to, NAMEDATALEN, "pg_unknown (OID=%u)", role);
}

/* Where to keep the name of another role. */
static KnownRole *
replaced_role(void)
{
	KnownRole  *r;

	do
	{
		r = &roles[next_role];
		next_role = (next_role + 1) % MOST_ROLES;
	} while (OidIsValid(r->role) && (r->role == kept_role || r->role == kept_session_user));
	/* no invalidation message would be about it any more */
	if (r->role == steno_role_learned)
		steno_role_learned = InvalidOid;
	return r;
}

/* Whether this transaction, which has not ended, changes roles. */
static bool changing STENO_SESSION_DATA;

/*
 * Look a name up.  That of a role that was dropped stays for as long as nobody else has it: who was
 * fired may still have a session.
 */
static KnownRole *
look_up_role(Oid role)
{
	KnownRole  *r = find_role(role);
	uint64		changes = count_changes();
	uint32		dropped = count_dropped(role);
	uint32		given = r ? count_given(r->name) : 0;
	char	   *name;

	watch_names();
	name = GetUserNameFromId(role, true);
	if (name == NULL && (r == NULL || OidIsValid(get_role_oid(r->name, true))))
	{
		if (r)
			r->role = InvalidOid;
		return NULL;
	}
	if (r == NULL)
		r = replaced_role();
	if (name)
	{
		/* nobody else has got its name, unless it has been dropped meanwhile */
		given = count_given(name) - (count_dropped(role) == dropped ? 0 : 1);
		strlcpy(r->name, name, NAMEDATALEN);
		pfree(name);
	}
	r->given = given;
	r->dropped = dropped;
	r->role_hash = GetSysCacheHashValue1(AUTHOID, ObjectIdGetDatum(role));
	r->name_hash = GetSysCacheHashValue1(AUTHNAME, CStringGetDatum(r->name));
	r->changes = changes;
	r->uncommitted = changing;
	r->stale = false;
	r->role = role;
	return r;
}

/* In a parallel worker: the name of a role that its leader has, which may have been dropped. */
void
steno_role_inherit(Oid role, const char *name)
{
	KnownRole  *r;

	if (!OidIsValid(role) || name[0] == '\0' || find_role(role))
		return;
	r = replaced_role();
	strlcpy(r->name, name, NAMEDATALEN);
	r->role = role;
	r->changes = count_changes();
	r->given = count_given(name);
	r->dropped = count_dropped(role);
	r->uncommitted = false;
	r->stale = true;			/* it is looked up before it is used, if that is possible */
}

/* The name of a role, while catalogs can be read. */
void
steno_role_name(char *to, Oid role)
{
	KnownRole  *r = find_role(role);

	if (r == NULL || r->stale)
		r = look_up_role(role);
	if (r)
		strlcpy(to, r->name, NAMEDATALEN);
	else
		set_unknown(to, role);
}

/*
 * The name of a role that the session has not had before, and that the application has set inside a
 * function: the setting has it, as it was then.  Code that sets a role in another way leaves the setting as it
 * was, so that may have the name of a role that is known by another number.
 */
static bool
take_from_setting(char *to, Oid role, const char *setting)
{
	const char *name = NULL;
	int			i;

	if (strcmp(setting, "role") != 0 ? role == GetSessionUserId() : role == GetCurrentRoleId())
		name = GetConfigOption(setting, true, false);
	if (name == NULL || name[0] == '\0' || strcmp(name, "none") == 0)
		return false;
	for (i = 0; i < MOST_ROLES; i++)
		if (OidIsValid(roles[i].role) && strcmp(roles[i].name, name) == 0)
			return false;
	strlcpy(to, name, NAMEDATALEN);
	return true;
}

/*
 * The name of a role that was never learned.  Whenever the setting got its value, the role must not have been
 * renamed or dropped since.
 */
static void
set_unlearned(char *to, Oid role, const char *setting)
{
	const KnownRole r = {.role = role};
	char		name[NAMEDATALEN];
	bool		changed;
	bool		whole = find_change(&r, &changed, name);

	if (changed && name[0] != '\0')
		strlcpy(to, name, NAMEDATALEN);
	else if (changed || !whole || count_dropped(role) != 0 || RecoveryInProgress() ||
			 !take_from_setting(to, role, setting))
		set_unknown(to, role);
}

/* The name of a role in a failure; setting: which one has it if a function has set the role. */
void
steno_role_name_failing(char *to, Oid role, const char *setting)
{
	const KnownRole *r = find_role(role);
	char		name[NAMEDATALEN];
	bool		changed;
	bool		whole;

	if (r == NULL)
	{
		any_stale = true;
		set_unlearned(to, role, setting);
		return;
	}
	whole = find_change(r, &changed, name);
	any_stale |= changed;
	if (changed && name[0] != '\0')
		strlcpy(to, name, NAMEDATALEN);
	else if (changed || is_taken(r) || (r->stale && (!whole || r->uncommitted || RecoveryInProgress())))
		set_unknown(to, role);
	else
		strlcpy(to, r->name, NAMEDATALEN);
}

/* Whether names may have changed since the last call.  They are looked up now, unless in a failure. */
bool
steno_role_names_changed(bool failing)
{
	bool		changed = any_stale;
	uint64		version;

	if (!failing)
	{
		any_stale = false;
		return changed;
	}
	version = atomic_load(&steno_control->roles.version);
	changed |= version != version_seen;
	version_seen = version;
	return changed;
}

/* Whether names must be looked up before the next record, if that is possible then. */
bool
steno_role_names_stale(void)
{
	return any_stale;
}

/* These are the roles that the session's records name now. */
void
steno_role_keep(Oid role, Oid session_user_id)
{
	kept_role = role;
	kept_session_user = session_user_id;
}

STENO_COLD void
steno_role_learn_anew(Oid role)
{
	KnownRole  *r;

	if (!OidIsValid(role) || !IsTransactionState() || steno_my.state == STENO_DEAD || !steno_active() ||
		IsAbortedTransactionBlockState())
		return;
	r = find_role(role);
	if (r == NULL || r->stale)
		(void) look_up_role(role);
	steno_role_learned = role;
}

/*
 * The server calls this, with the role set, for functions that run as their owner, or with settings
 * of their own, which may be a role.
 */
static void
function_event(FmgrHookEventType event, FmgrInfo *function, Datum *private)
{
	if (previous_fmgr)
		previous_fmgr(event, function, private);
	if (event == FHET_START && !steno_is_paused())
		steno_role_learn();
}

/* ---- changes of names, by this session ---- */

#define MOST_CHANGES 16

/* Roles that the present transaction renames. */
static struct
{
	Oid			role;
	char		name[NAMEDATALEN];	/* before */
}			changed[MOST_CHANGES];

static int	changed_count;
static bool changed_more;			/* than fit */

/* The counters of names that it gives to roles, and of roles that it drops. */
#define COUNTER_WORDS (STENO_ROLE_COUNTERS / 64)

static uint64 given_now[COUNTER_WORDS];
static uint64 dropped_now[COUNTER_WORDS];

static void
mark(uint64 *counters, uint32 i)
{
	counters[i / 64] |= UINT64CONST(1) << (i % 64);
}

static void
count_marked(_Atomic uint32_t *counters, const uint64 *marked)
{
	uint32		i;

	for (i = 0; i < STENO_ROLE_COUNTERS; i++)
		if (marked[i / 64] & (UINT64CONST(1) << (i % 64)))
			atomic_fetch_add(&counters[i], 1);
}

/* The transaction is about to commit: look the new names up.  Only those that differ count. */
static void
find_new_names(void)
{
	int			i;
	int			n = 0;

	CommandCounterIncrement();
	for (i = 0; i < changed_count; i++)
	{
		char	   *name = GetUserNameFromId(changed[i].role, true);

		/* one that was renamed and dropped is a dropped one */
		if (name == NULL || strcmp(name, changed[i].name) == 0)
			continue;
		changed[n].role = changed[i].role;
		strlcpy(changed[n++].name, name, NAMEDATALEN);
	}
	changed_count = n;
}

/* uncertain: the transaction was prepared, and may commit later. */
static void
publish(bool uncertain)
{
	StenoRoleChanges *c = &steno_control->roles;
	uint64		count;
	int			i;

	count_marked(c->dropped, dropped_now);
	count_marked(c->given, given_now);
	SpinLockAcquire(&c->mutex);
	count = atomic_load(&c->count);
	/* as if there had been more than are kept */
	if (changed_more)
	{
		memset(c->last, 0, sizeof(c->last));
		count += STENO_ROLE_CHANGES + 1;
	}
	for (i = 0; i < changed_count; i++, count++)
	{
		StenoRoleChange change = {.role = changed[i].role};

		if (!uncertain)
			strlcpy(change.name, changed[i].name, NAMEDATALEN);
		c->last[count % STENO_ROLE_CHANGES] = change;
	}
	atomic_store(&c->count, count);
	SpinLockRelease(&c->mutex);
	atomic_fetch_add(&c->version, 1);
}

static void
transaction_event(XactEvent event, void *arg)
{
	int			i;

	if (!changing)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			find_new_names();
			return;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			publish(event == XACT_EVENT_PREPARE);
			if (event == XACT_EVENT_COMMIT)
				for (i = 0; i < MOST_ROLES; i++)
					roles[i].uncommitted = false;
			break;
		case XACT_EVENT_ABORT:
			break;
		default:
			return;
	}
	changing = false;
	changed_count = 0;
	changed_more = false;
	memset(given_now, 0, sizeof(given_now));
	memset(dropped_now, 0, sizeof(dropped_now));
}

static void
begin_changing(void)
{
	static bool registered STENO_SESSION_DATA;

	if (!registered)
		RegisterXactCallback(transaction_event, NULL);
	registered = true;
	changing = true;
}

/* The name of a role as the current command has written it, which other catalog lookups do not see yet. */
static bool
name_just_written(Oid role, char *to)
{
	Relation	authid = table_open(AuthIdRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_authid_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(role));
	scan = systable_beginscan(authid, AuthIdOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		strlcpy(to, NameStr(((Form_pg_authid) GETSTRUCT(tuple))->rolname), NAMEDATALEN);
	systable_endscan(scan);
	table_close(authid, AccessShareLock);
	return HeapTupleIsValid(tuple);
}

static void
remember_renamed(Oid role, const char *before)
{
	int			i;

	for (i = 0; i < changed_count; i++)
		if (changed[i].role == role)
			return;
	if (changed_count == MOST_CHANGES)
	{
		changed_more = true;
		return;
	}
	strlcpy(changed[changed_count].name, before, NAMEDATALEN);
	changed[changed_count++].role = role;
}

/* The current statement has created a role, or has altered one. */
STENO_COLD void
steno_role_changes(Oid role)
{
	char		name[NAMEDATALEN];
	char	   *before;

	if (IsParallelWorker() || !steno_active() || !name_just_written(role, name))
		return;
	before = GetUserNameFromId(role, true);
	if (before == NULL || strcmp(before, name) != 0)
	{
		begin_changing();
		mark(given_now, name_counter(name));
		if (before)
			remember_renamed(role, before);
	}
	if (before)
		pfree(before);
}

/* It drops one. */
STENO_COLD void
steno_role_drops(Oid role)
{
	if (IsParallelWorker() || !steno_active())
		return;
	begin_changing();
	mark(dropped_now, role_counter(role));
}

void
steno_role_install(void)
{
	previous_fmgr = fmgr_hook;
	fmgr_hook = function_event;
}
