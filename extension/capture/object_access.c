/*
 * extension/capture/object_access.c
 *		The server's object access hook: adds changes of objects, and calls of
 *		functions, to the list of the running statement (describe/object.c), and finds
 *		the functions that clients call without a statement.
 */
#include "base/steno.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/refusal.h"

/* ---- functions that clients call ---- */

/*
 * A client can call a function by the protocol's FunctionCall message, as libpq's PQfn() does, and with
 * it all its functions for large objects.
 *
 * Such a call has no text, and calls neither the executor's nor the utility hook.
 * But the server checks the permission on the function's schema and then on the
 * function, and each check calls the object access hook.  There, the call becomes a
 * client's statement, which utility.c records like a utility statement.
 *
 * It ends with its transaction, or, in a transaction block, when the server's main
 * loop has processed the message and resets MessageContext, before it sends
 * ReadyForQuery.
 */

static bool called;				/* the current message has its statement, or must not get one */

/*
 * Whether the server is processing a FunctionCall message, by the activity that it
 * shows in pg_stat_activity.  With track_activities off, that is not known.
 */
bool
steno_fastpath_message(void)
{
	return debug_query_string == NULL && pgstat_track_activities &&
		MyBEEntry != NULL && MyBEEntry->st_state == STATE_FASTPATH;
}

/*
 * In the object access hook: whether this is the call itself, and not one inside
 * it.  With track_activities off, it is the call if the main loop makes it
 * directly, in MessageContext, for a message without text: other messages without
 * text call functions only through portals, triggers and the parser.
 */
static bool
is_fastpath_call(void)
{
	if (debug_query_string != NULL || called || steno_is_paused() || steno_my.state == STENO_DEAD ||
		MyBackendType != B_BACKEND)
		return false;
	return pgstat_track_activities ? steno_fastpath_message() :
		CurrentMemoryContext == MessageContext && error_context_stack == NULL && steno_my.level == NULL;
}

static void
message_ends(void *arg)
{
	StenoLevel *l = &steno_top_level;

	called = false;
	if (steno_my.level == l && l->ending)
	{
		steno_objects_finish(l->utility, NULL);
		steno_utility_ended(l);
	}
	/* it must be removed here, because the hook's caller does not know about it */
	if (error_context_stack == &l->callback)
		error_context_stack = l->callback.previous;
	if (steno_settings_are_dirty())
		steno_settings_record();
}

/* A client calls a function: begin its statement. */
static void
fastpath_call(Oid function)
{
	static MemoryContextCallback at_end = {.func = message_ends};

	called = true;
	MemoryContextRegisterResetCallback(MessageContext, &at_end);
	if (!steno_recording())
		return;
	steno_refusal_check(NULL);
	steno_utility_call(function);
}

/* ---- functions that statements call ---- */

static void
function_called(Oid function)
{
	StenoStatement *s = NULL;
	const char *kind;
	const char *name;

	/* the leader's record has the functions that a parallel worker's part of its query calls */
	if (steno_my.level == NULL && steno_is_worker())
		return;
	if (steno_my.level != NULL && (s = steno_statement_of_event(true)) == NULL)
		return;
	name = steno_function_name(function, false, &kind);
	if (name == NULL)
		return;
	if (s == NULL)
		steno_objects_add_pending_call(function, kind, name);
	else if (s->objects == NULL || !steno_objects_have_call(s->objects, function))
		steno_objects_add_call(steno_objects_of(s), function, kind, name);
}

/* ---- objects ---- */

/* Catalogs whose entries are parts of operator families, for which the hook is called, too. */
static bool
is_member(Oid class)
{
	return class == AccessMethodOperatorRelationId || class == AccessMethodProcedureRelationId;
}

/*
 * CREATE OR REPLACE FUNCTION: the catalog row of a new function is not visible yet,
 * that of a replaced one is.
 */
static bool
is_replaced(Oid class, Oid oid)
{
	return class == ProcedureRelationId && SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(oid));
}

/*
 * What the server makes or drops on behalf of another object is not shown, but the table that it is a part of is
 * used.  The server copies tables and indexes under other names, and these are of no interest.
 */
static bool
is_internal_part(Oid class)
{
	return class != RelationRelationId && class != IndexRelationId;
}

/* The sequence of an identity column goes by an internal deletion, although users have to do with it. */
static bool
is_internal_drop(Oid class, Oid oid, int flags)
{
	return (flags & PERFORM_DELETION_INTERNAL) &&
		!(class == RelationRelationId && get_rel_relkind(oid) == RELKIND_SEQUENCE);
}

static void
created(StenoObjects *list, Oid class, Oid oid, int sub, const ObjectAccessPostCreate *arg)
{
	/* of a default value, the hook gets table and column */
	if (class == AttrDefaultRelationId || (arg && arg->is_internal))
	{
		if (is_internal_part(class))
			steno_objects_add_part(list, class, oid, sub, true);
	}
	else
		/* a new column alters its table */
		steno_objects_add(list, class, oid, 0, sub != 0 || is_replaced(class, oid) ?
						  STENO_ACTION_ALTER : STENO_ACTION_CREATE);
}

static void
dropped(StenoObjects *list, Oid class, Oid oid, int sub, const ObjectAccessDrop *arg)
{
	if (class == AttrDefaultRelationId || (arg && is_internal_drop(class, oid, arg->dropflags)))
	{
		if (is_internal_part(class))
			steno_objects_add_part(list, class, oid, sub, false);
	}
	else
		steno_objects_add(list, class, oid, sub, STENO_ACTION_DROP);
}

static void
altered(StenoObjects *list, Oid class, Oid oid, int sub, const ObjectAccessPostAlter *arg)
{
	const Oid	auxiliary = arg ? arg->auxiliary_id : InvalidOid;

	if (arg && arg->is_internal)
		return;
	switch (class)
	{
		case DbRoleSettingRelationId:	/* ALTER ROLE ... SET, ALTER DATABASE ... SET */
			if (OidIsValid(auxiliary))
				steno_objects_add(list, AuthIdRelationId, auxiliary, 0, STENO_ACTION_ALTER);
			if (OidIsValid(oid))
				steno_objects_add(list, DatabaseRelationId, oid, 0, STENO_ACTION_ALTER);
			break;
		case InheritsRelationId:
			steno_objects_add(list, RelationRelationId, oid, 0, STENO_ACTION_ALTER);
			if (OidIsValid(auxiliary))
				steno_objects_add(list, RelationRelationId, auxiliary, 0, STENO_ACTION_USE);
			break;
		case IndexRelationId:
			steno_objects_add_index(list, oid);
			break;
		case ForeignTableRelationId:
			steno_objects_add(list, RelationRelationId, oid, 0, STENO_ACTION_ALTER);
			break;
		default:
			steno_objects_add(list, class, oid, sub, STENO_ACTION_ALTER);
			break;
	}
}

/*
 * REPACK (CONCURRENTLY) makes indexes of the copy of a table as users do.  What users know of is what it names.
 */
static bool
is_copying(const StenoStatement *s)
{
	const StenoLevel *l = steno_my.level;

	return l->utility == s && l->command != NULL && strcmp(l->command, "REPACK") == 0;
}

static void
object_event(ObjectAccessType event, Oid class, Oid oid, int sub, void *arg)
{
	StenoStatement *s;

	if (is_member(class) || IsBinaryUpgrade || (s = steno_statement_of_event(false)) == NULL || is_copying(s))
		return;
	switch (event)
	{
		case OAT_POST_CREATE:
			created(steno_objects_of(s), class, oid, sub, arg);
			break;
		case OAT_DROP:
			dropped(steno_objects_of(s), class, oid, sub, arg);
			break;
		case OAT_POST_ALTER:
			altered(steno_objects_of(s), class, oid, sub, arg);
			break;
		default:
			break;
	}
}

/* ---- the hook ---- */

STENO_COLD static void
object_accessed(ObjectAccessType event, Oid class, Oid oid, int sub, void *arg)
{
	steno_assert_phases();
	if (steno_private.previous_access)
		steno_private.previous_access(event, class, oid, sub, arg);
	if (event == OAT_NAMESPACE_SEARCH)
	{
		/* for a FunctionCall message, the server checks the schema right before the function */
		steno_my.watch_functions = steno_private.previous_access != NULL || is_fastpath_call();
		return;
	}
	if (event == OAT_FUNCTION_EXECUTE && steno_my.watch_functions)
	{
		steno_my.watch_functions = steno_private.previous_access != NULL;
		if (is_fastpath_call())
		{
			fastpath_call(oid);
			return;
		}
	}
	if (steno_is_paused())
		return;
	if (event == OAT_FUNCTION_EXECUTE && oid >= FirstUnpinnedObjectId)
	{
		/* it runs as the owner of a table, for example in an index; and may set another role */
		steno_role_learn();
		steno_session_may_change();
	}
	else if (class == AuthIdRelationId && (event == OAT_POST_CREATE || event == OAT_POST_ALTER))
		steno_role_changes(oid);
	else if (class == AuthIdRelationId && event == OAT_DROP)
		steno_role_drops(oid);
	if (steno_my.state != STENO_READY)
		return;
	if (event == OAT_FUNCTION_EXECUTE)
	{
		if (oid >= FirstUnpinnedObjectId && steno_class_logged(STENO_CLASS_FUNCTION))
			function_called(oid);
	}
	else if (event == OAT_TRUNCATE)
		steno_statement_add_relation(oid, STENO_ACCESS_TRUNCATE);
	else if (steno_my.level != NULL)
		object_event(event, class, oid, sub, arg);
}

STENO_HOT static void
object_access(ObjectAccessType event, Oid class, Oid oid, int sub, void *arg)
{
	/* functions of pg_catalog, mostly those of operators */
	if (likely(event == OAT_FUNCTION_EXECUTE && oid < FirstUnpinnedObjectId &&
			   !steno_my.watch_functions))
		return;
	object_accessed(event, class, oid, sub, arg);
}

void
steno_object_access_install(void)
{
	steno_private.previous_access = object_access_hook;
	steno_my.watch_functions = object_access_hook != NULL;
	object_access_hook = object_access;
}
