/*
 * extension/base/compat.h
 *		Everything that differs between PostgreSQL versions, as wrappers with the
 *		newest signature.
 */
#ifndef STENO_COMPAT_H
#define STENO_COMPAT_H

#include "access/xact.h"
#include "executor/executor.h"
#include "libpq/libpq-be.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/sinvaladt.h"
#include "utils/guc_tables.h"
#include "utils/wait_event.h"

/* PostgreSQL 16 moved the hooks of settings to a file of their own (0a20ff54f5e). */
#if PG_VERSION_NUM >= 160000
#include "utils/guc_hooks.h"
#else
#include "utils/guc.h"
#include "utils/pg_locale.h"
#endif

/* PostgreSQL 19 does not let the hook change it. */
#if PG_VERSION_NUM >= 190000
struct JumbleState;
typedef const struct JumbleState StenoJumble;
#else
struct JumbleState;
typedef struct JumbleState StenoJumble;
#endif

#ifdef EXEC_BACKEND
#error "pg_steno needs the ring file to be inherited by fork"
#endif

#if PG_VERSION_NUM < 150000
#error "pg_steno needs PostgreSQL 15 or newer"
#endif

/* A newer server may change what is not declared: what it records, and when its hooks are called. */
#if PG_VERSION_NUM >= 200000
#error "pg_steno supports PostgreSQL 15 to 19"
#endif

/* PostgreSQL 18 shows name and version of a module in pg_get_loaded_modules() (9324c8c5806). */
#ifdef PG_MODULE_MAGIC_EXT
#define STENO_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "pg_steno", .version = STENO_VERSION)
#else
#define STENO_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* PostgreSQL 18 has it before the declaration (3691edfab97). */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* PostgreSQL 19 tells the planner for which EXPLAIN it plans (c83ac02ec73). */
#if PG_VERSION_NUM >= 190000
#define STENO_PLAN_ARGS Query *query, const char *source, int options, ParamListInfo params, \
	struct ExplainState *explain
#define STENO_PLAN_PASS query, source, options, params, explain
#else
#define STENO_PLAN_ARGS Query *query, const char *source, int options, ParamListInfo params
#define STENO_PLAN_PASS query, source, options, params
#endif

/*
 * PostgreSQL 18 dropped execute_once (3eea7a0c97e).  Only a function in SQL runs a query outside of a portal for some
 * of its rows, and then again.
 */
#if PG_VERSION_NUM >= 180000
#define STENO_RUN_ARGS QueryDesc *query, ScanDirection direction, uint64 count
#define STENO_RUN_PASS query, direction, count
#define STENO_RUNS_AGAIN(query) ((query)->dest->mydest == DestSQLFunction)
#else
#define STENO_RUN_ARGS QueryDesc *query, ScanDirection direction, uint64 count, \
	bool execute_once
#define STENO_RUN_PASS query, direction, count, execute_once
#define STENO_RUNS_AGAIN(query) (!execute_once)
#endif

/* The same commit removed an argument of PortalRun; a portal runs to its end, as if the main loop ran it. */
#if PG_VERSION_NUM >= 180000
#define STENO_PORTAL_RUN(portal, dest, completion) PortalRun(portal, FETCH_ALL, true, dest, dest, completion)
#else
#define STENO_PORTAL_RUN(portal, dest, completion) PortalRun(portal, FETCH_ALL, true, true, dest, dest, completion)
#endif

/*
 * The class of CREATE and ALTER USER MAPPING is that of the pgaudit for the server's version:
 * role since pgaudit 16.0 (bc628c5 of pgaudit), before that ddl.  DROP USER MAPPING is ddl in
 * all of them.
 */
#if PG_VERSION_NUM >= 160000
#define STENO_CLASS_USER_MAPPING STENO_CLASS_ROLE
#else
#define STENO_CLASS_USER_MAPPING STENO_CLASS_DDL
#endif

/*
 * CLUSTER is a form of REPACK in PostgreSQL 19 (ac58465e061).  A statement without a relation
 * is about all that the user may repack.
 */
#if PG_VERSION_NUM >= 190000
#define STENO_T_REPACK T_RepackStmt
#define STENO_REPACKED(statement) (castNode(RepackStmt, statement)->relation ? \
	castNode(RepackStmt, statement)->relation->relation : NULL)
#else
#define STENO_T_REPACK T_ClusterStmt
#define STENO_REPACKED(statement) (castNode(ClusterStmt, statement)->relation)
#endif

/* In PostgreSQL 19, standard_conforming_strings is always on (45762084545). */
#if PG_VERSION_NUM >= 190000
#define STENO_STANDARD_STRINGS true
#else
#include "parser/parser.h"
#define STENO_STANDARD_STRINGS standard_conforming_strings
#endif

/* PostgreSQL 19 has log_min_messages for each type of process (38e0190ced7). */
#if PG_VERSION_NUM >= 190000
#define STENO_LOG_MIN_MESSAGES(type) (log_min_messages[type])
#else
#define STENO_LOG_MIN_MESSAGES(type) (log_min_messages)
#endif

/*
 * So the setting is a list of levels, and not one of them.  The same version has the types of settings in a union
 * (a13833c35f9).  The level that a value has for this process is known in an assign hook once the server's own has run.
 */
#if PG_VERSION_NUM >= 190000
typedef GucStringAssignHook StenoLogLevelHook;
#define STENO_LOG_LEVEL_TYPE const char *
#define STENO_LOG_LEVEL_HOOK(setting) ((setting)->_string.assign_hook)
#define STENO_LOG_LEVEL_OF(value) ((void) (value), STENO_LOG_MIN_MESSAGES(MyBackendType))
#define STENO_LOG_LEVEL_TEXT(setting, value) (value)
#else
typedef GucEnumAssignHook StenoLogLevelHook;
#define STENO_LOG_LEVEL_TYPE int
#define STENO_LOG_LEVEL_HOOK(setting) (((struct config_enum *) (setting))->assign_hook)
#define STENO_LOG_LEVEL_OF(value) (value)
#define STENO_LOG_LEVEL_TEXT(setting, value) config_enum_lookup_by_value((struct config_enum *) (setting), value)
#endif

/* PostgreSQL 19 moved get_database_name (325fc0ab14d). */
#if PG_VERSION_NUM >= 190000
#include "utils/lsyscache.h"
#else
#include "commands/dbcommands.h"
#endif

/* The handlers of PostgreSQL 19 have an argument more, so SIG_IGN is none of them (3e2a1496bae). */
#if PG_VERSION_NUM < 190000
#define PG_SIG_IGN SIG_IGN
#endif

/*
 * Since PostgreSQL 18, a statement that follows another one of a pipeline is in an implicit
 * block, as are those of a string of several (d0eb4297cc5).
 */
#if PG_VERSION_NUM >= 180000
#define STENO_IN_PIPELINE() ((MyXactFlags & XACT_FLAGS_PIPELINING) != 0)
#else
#define STENO_IN_PIPELINE() false
#endif

/*
 * Since PostgreSQL 18, the location of a statement is that of its first token; the comments
 * before it are not part of it any more (14e5680eee1).
 */
#define STENO_LOCATION_IS_TOKEN (PG_VERSION_NUM >= 180000)

/* PostgreSQL 16 moved permissions out of range table entries (a61b1f74823). */
#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
#define STENO_CHECK_PERMS_ARGS List *range_table, List *perminfos, bool ereport_on_violation
#define STENO_CHECK_PERMS_PASS range_table, perminfos, ereport_on_violation
#define STENO_PERMISSIONS_LIST perminfos
#define STENO_PLAN_PERMISSIONS(plan) ((plan)->permInfos)
#define STENO_QUERY_PERMISSIONS(query) ((query)->rteperminfos)
typedef RTEPermissionInfo StenoPermission;
#define STENO_IS_PERMISSION(p) ((p)->requiredPerms != 0)
#else
#define STENO_CHECK_PERMS_ARGS List *range_table, bool ereport_on_violation
#define STENO_CHECK_PERMS_PASS range_table, ereport_on_violation
#define STENO_PERMISSIONS_LIST range_table
#define STENO_PLAN_PERMISSIONS(plan) ((plan)->rtable)
#define STENO_QUERY_PERMISSIONS(query) ((query)->rtable)
typedef RangeTblEntry StenoPermission;
#define STENO_IS_PERMISSION(p) ((p)->rtekind == RTE_RELATION && (p)->requiredPerms != 0)
#endif

/*
 * PostgreSQL 19 looks for the row that a foreign key refers to without a query (2da86c1ef96).  It checks the
 * permissions for that as part of whichever statement runs the trigger.
 */
#define STENO_KEY_WITHOUT_QUERY (PG_VERSION_NUM >= 190000)

/*
 * Whether this process holds a lightweight lock.  PostgreSQL 19 does not say it of any lock: it may then, if interrupts
 * were held when its error was raised.
 */
#if PG_VERSION_NUM >= 190000
#define steno_holds_lwlock(were_held) (were_held)
#else
#include "storage/lwlock.h"

static inline void
steno_see_lwlock(LWLock *lock, LWLockMode mode, void *any)
{
	*(bool *) any = true;
}

static inline bool
steno_holds_lwlock(bool were_held)
{
	bool		any = false;

	ForEachLWLockHeldByMe(steno_see_lwlock, &any);
	return any;
}
#endif

/* PostgreSQL 17 calls a process's slot its number (024c5211175). */
#if PG_VERSION_NUM >= 170000
#define STENO_MY_RING MyProcNumber
#define STENO_RING_OF(process) GetNumberFromPGProc(process)
#else
#define STENO_MY_RING (MyProc->pgprocno)
#define STENO_RING_OF(process) ((process)->pgprocno)
#endif

/* PostgreSQL 16 moved the authenticated identity to MyClientConnectionInfo (d951052a9e0). */
#if PG_VERSION_NUM >= 160000
#define STENO_IDENTITY(port) (MyClientConnectionInfo.authn_id)
#else
#define STENO_IDENTITY(port) ((port)->authn_id)
#endif

/* What a check hook makes: PostgreSQL 16 frees it with guc_free (407b50f2d42). */
#if PG_VERSION_NUM >= 160000
#define steno_guc_malloc(size) guc_malloc(LOG, size)
#else
#define steno_guc_malloc(size) malloc(size)
#endif

/* PostgreSQL 16 exports the search for a setting (0a20ff54f5e), and keeps settings in a hash table (3057465acfb). */
#if PG_VERSION_NUM >= 160000
#define steno_find_setting(name) find_option(name, false, true, LOG)
#define steno_all_settings(count) get_guc_variables(count)
#else
static inline struct config_generic **
steno_all_settings(int *count)
{
	*count = GetNumConfigOptions();
	return get_guc_variables();
}

static inline struct config_generic *
steno_find_setting(const char *name)
{
	struct config_generic **all = get_guc_variables();
	int			i;

	for (i = 0; i < GetNumConfigOptions(); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}
#endif

/* PostgreSQL 18 keeps registered workers in a dlist (b43100fa71d). */
#if PG_VERSION_NUM >= 180000
typedef dlist_iter StenoWorkerIter;
#define STENO_FOREACH_WORKER(iter) dlist_foreach(iter, &BackgroundWorkerList)
#define STENO_ITER_WORKER(iter) dlist_container(RegisteredBgWorker, rw_lnode, (iter).cur)
#else
typedef slist_iter StenoWorkerIter;
#define STENO_FOREACH_WORKER(iter) slist_foreach(iter, &BackgroundWorkerList)
#define STENO_ITER_WORKER(iter) slist_container(RegisteredBgWorker, rw_lnode, (iter).cur)
#endif

/*
 * Enter the array of processes, so that pg_stat_activity shows our waits.  Before
 * PostgreSQL 17, the number of an entry in pg_stat_activity comes from the array of
 * those who receive invalidations (024c5211175); ours only sends.
 */
#if PG_VERSION_NUM >= 170000
#define STENO_ENTER_PROC_ARRAY() InitProcessPhase2()
#else
#define STENO_ENTER_PROC_ARRAY() (InitProcessPhase2(), SharedInvalBackendInit(true))
#endif

/* PostgreSQL 18 divided this in three (c76db55c908). */
#if PG_VERSION_NUM >= 180000
#define STENO_PGSTAT_BESTART() (pgstat_bestart_initial(), pgstat_bestart_final())
#else
#define STENO_PGSTAT_BESTART() pgstat_bestart()
#endif

/*
 * Wait events with names of our own.  PostgreSQL 17 has them (c9af0546530).  Before, an
 * extension can name nothing but its tranches of lightweight locks, so the waits are
 * shown under such names, with type LWLock.
 */
#if PG_VERSION_NUM >= 170000
#define steno_new_wait_event(name) WaitEventExtensionNew(name)
#else
static inline uint32
steno_new_wait_event(const char *name)
{
	int			tranche = LWLockNewTrancheId();

	LWLockRegisterTranche(tranche, name);
	return PG_WAIT_LWLOCK | (uint32) tranche;
}
#endif

/* PostgreSQL 16 named this after what its argument is (d7e39d72ca1). */
#if PG_VERSION_NUM < 160000
#define pgstat_get_local_beentry_by_index(i) pgstat_fetch_stat_local_beentry(i)
#endif

#endif							/* STENO_COMPAT_H */
