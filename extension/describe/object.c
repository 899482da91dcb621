/*
 * extension/describe/object.c
 *		The objects that statements create, alter, rename, drop and call.
 *
 * The object access hook (capture/object_access.c) adds to a list (object_list.c) while its
 * statement runs.  The name of an object that is dropped, or may be renamed, is looked up at once,
 * while it still has its old name.  The name of a new object is looked up when the
 * statement has succeeded (object_end.c): before that, its catalog row is not visible.  If the statement
 * fails, the list is recorded as it is.
 *
 * If memory is exhausted, an object is only counted, or has no name.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"

#include "describe/object.h"

/*
 * Functions that were called while no statement was running: by the planner, which
 * evaluates constant expressions before the query begins.  The query takes them over.
 */
static StenoObjects *pending;

/* ---- names ---- */

/* Look up an object's name; internal objects, which users do not name, are hidden. */
void
steno_object_name_item(void *arg)
{
	StenoNaming *n = arg;
	ObjectAddress object;
	char	   *type;
	char	   *name;

	ObjectAddressSubSet(object, n->item->class, n->item->oid, n->item->sub);
	if (steno_object_identify(&object, &type, &name))
	{
		n->item->type = steno_objects_keep(n->list, type);
		n->item->name = steno_objects_keep(n->list, name);
		n->item->named = true;
		/* there may be very many of them before the context is reset */
		pfree(type);
		pfree(name);
	}
	else
		n->item->dropped = true;
}

/*
 * An object that could not be described is recorded by its OID.  A function is recorded
 * without its arguments, because their types may have been dropped already.
 */
void
steno_object_number_item(StenoNaming *n)
{
	char		number[16];
	const char *type = "object";
	const char *name = NULL;

	if (n->item->class == ProcedureRelationId)
		name = steno_function_name(n->item->oid, false, &type);
	if (name == NULL)
	{
		snprintf(number, sizeof(number), "%u", n->item->oid);
		name = number;
	}
	n->item->type = steno_objects_keep(n->list, type);
	n->item->name = steno_objects_keep(n->list, name);
	n->item->named = true;
}

/*
 * There is no space for an entry: count the object if it is one that users refer to by
 * name.  A new one cannot be looked up yet, so this is decided by its catalog alone.
 */
static void
count_item(void *arg)
{
	StenoNaming *n = arg;
	ObjectAddress object;
	char	   *type;
	char	   *name;

	ObjectAddressSubSet(object, n->item->class, n->item->oid, n->item->sub);
	if (n->item->action == STENO_ACTION_CREATE ? object.classId != TypeRelationId :
		steno_object_identify(&object, &type, &name))
		n->list->omitted++;
}

/* ---- adding ---- */

void
steno_objects_add_related(const ObjectAddress *object, void *arg)
{
	const StenoRelated *r = arg;

	if (object->objectId != r->except)
		steno_objects_add(r->list, object->classId, object->objectId, 0, r->action);
}

/*
 * An object that may be a part of another one, such as an index of a table: the statement uses that one, unless it
 * does more with it.  A default value is shown as a change of its table.
 */
static void
add_whole(void *arg)
{
	const StenoNaming *n = arg;
	const StenoObjectEvent event = *n->item;
	StenoRelated r = {n->list, STENO_ACTION_USE, InvalidOid};
	ObjectAddress part;

	ObjectAddressSet(part, event.class, event.oid);
	if (event.class == AttrDefaultRelationId)
		r.action = STENO_ACTION_ALTER;
	steno_object_wholes(&part, steno_objects_add_related, &r);

	/* while it is being dropped, what it depends on is still there */
	if (event.action == STENO_ACTION_DROP && event.sub == 0)
		steno_object_references(&part, NULL, steno_objects_add_related, &r);
}

/*
 * A column is dropped, altered or renamed: that alters its table or composite type, which a renaming of the column only
 * uses.  The end of the statement tells these apart.
 */
void
steno_objects_add_table_of(StenoObjects *list, const StenoObjectEvent *event, int action)
{
	ObjectAddress table;

	ObjectAddressSet(table, event->class, event->oid);
	steno_object_redirect(&table);
	steno_objects_add(list, table.classId, table.objectId, 0, action);
}

static void
begin_column(void *arg)
{
	const StenoNaming *n = arg;

	steno_objects_add_table_of(n->list, n->item,
							   n->item->action == STENO_ACTION_DROP ? STENO_ACTION_ALTER : STENO_ACTION_USE);
}

/*
 * An event of an object that is not to be shown, because the server makes it on behalf of another one: only what it
 * belongs to is added.  created: its row is not visible yet, so this is done at the end of the statement.
 */
void
steno_objects_add_part(StenoObjects *list, Oid class, Oid oid, int sub, bool created)
{
	StenoObjectEvent event = {.class = class, .oid = oid, .sub = sub, .action = STENO_ACTION_DROP};
	StenoNaming n = {list, &event};
	StenoObjectEvent *item;

	if (list == NULL)
		return;
	if (!created)
	{
		(void) steno_object_guarded(add_whole, &n);
		return;
	}
	item = steno_objects_append(list, class, oid, sub, STENO_ACTION_CREATE);
	if (item == NULL)
		list->omitted++;
	else
	{
		item->hidden = true;
		list->unfinished = true;
	}
}

static void
add_index_if_changed(void *arg)
{
	const StenoNaming *n = arg;

	if (steno_object_index_changes(n->item->oid))
		steno_objects_add(n->list, RelationRelationId, n->item->oid, 0, STENO_ACTION_USE);
}

/*
 * The server may have changed what a table uses one of its indexes for, such as that by which it is clustered: it calls
 * the hook for all of them.
 */
void
steno_objects_add_index(StenoObjects *list, Oid index)
{
	StenoObjectEvent event = {.oid = index};
	StenoNaming n = {list, &event};

	if (list != NULL)
		(void) steno_object_guarded(add_index_if_changed, &n);
}

/* Append an entry whose name is known. */
static void
append_named(StenoObjects *list, const StenoObjectEvent *event, const char *type, const char *name)
{
	StenoObjectEvent *item = steno_objects_append(list, event->class, event->oid, event->sub, event->action);

	if (item == NULL)
	{
		list->omitted++;
		return;
	}
	item->type = steno_objects_keep(list, type);
	item->name = steno_objects_keep(list, name);
	item->named = true;
}

/* An object that has no row, by the name that the statement has for it. */
void
steno_objects_add_written(StenoObjects *list, const char *type, const char *name, int action)
{
	StenoObjectEvent event = {.sub = list->count, .action = action};

	append_named(list, &event, type, name);
}

/*
 * Add an event of an object.  An object has one entry: a change of an object that the
 * statement has created is part of its creation, further changes add nothing, and a drop
 * replaces earlier changes.  Only an object that was created, or called, and then dropped
 * has two.
 */
void
steno_objects_add(StenoObjects *list, Oid class, Oid oid, int sub, int action)
{
	StenoNaming n;
	StenoObjectEvent *item;
	StenoObjectEvent event = {.class = class, .oid = oid, .sub = sub, .action = action};

	if (list == NULL)
		return;
	n = (StenoNaming) {list, &event};
	if (sub != 0)
		(void) steno_object_guarded(begin_column, &n);
	item = steno_objects_find(list, class, oid, sub);
	if (item && (item->action == action ||
				 (action != STENO_ACTION_DROP && item->action != STENO_ACTION_USE)))
		return;
	if (item && action == STENO_ACTION_DROP && item->action == STENO_ACTION_CREATE && !item->named)
	{
		n = (StenoNaming) {list, item};
		(void) steno_object_guarded(steno_object_name_item, &n);
	}
	else if (item && (item->action == STENO_ACTION_ALTER || item->action == STENO_ACTION_USE))
		item->dropped = true;
	item = steno_objects_append(list, class, oid, sub, action);
	if (item == NULL)
	{
		n = (StenoNaming) {list, &event};
		(void) steno_object_guarded(count_item, &n);
		return;
	}
	if (action == STENO_ACTION_CREATE || action == STENO_ACTION_ALTER)
		list->unfinished = true;
	if (action == STENO_ACTION_CREATE)
		return;
	n = (StenoNaming) {list, item};
	if (!steno_object_guarded(steno_object_name_item, &n))
		steno_object_number_item(&n);
	if (item->dropped)
		steno_objects_remove_last(list);
	n = (StenoNaming) {list, &event};
	(void) steno_object_guarded(add_whole, &n);
}

/*
 * An object that the statement, which begins, alters or uses if it succeeds.  It has no name before that, and a list
 * does not show what has none.
 */
void
steno_objects_expect(StenoObjects *list, Oid class, Oid oid, int action)
{
	if (steno_objects_find(list, class, oid, 0) == NULL && steno_objects_append(list, class, oid, 0, action) == NULL)
		list->omitted++;
}

/* Whether the list contains the call of a function. */
bool
steno_objects_have_call(StenoObjects *list, Oid function)
{
	return steno_objects_find(list, ProcedureRelationId, function, 0) != NULL;
}

/* Add the call of a function, once. */
void
steno_objects_add_call(StenoObjects *list, Oid function, const char *kind, const char *name)
{
	StenoObjectEvent event = {.class = ProcedureRelationId, .oid = function, .action = STENO_ACTION_EXECUTE};

	if (list != NULL && !steno_objects_have_call(list, function))
		append_named(list, &event, kind, name);
}

/* The statement is a function call of the protocol; functions of pg_catalog count, too. */
void
steno_objects_called(StenoObjects *list, Oid function)
{
	const char *kind;
	const char *name = steno_function_name(function, true, &kind);

	steno_objects_add_call(list, function, kind, name);
}

/* A function is called while no statement runs. */
void
steno_objects_add_pending_call(Oid function, const char *kind, const char *name)
{
	if (pending == NULL)
		pending = steno_objects_new();
	steno_set_unusual(STENO_U_OBJECTS_PENDING, pending != NULL);
	steno_objects_add_call(pending, function, kind, name);
}

/* At the end of a transaction: discard the planner's calls that no query has taken over. */
void
steno_objects_forget_pending(void)
{
	if (pending)
		steno_objects_release(&pending);
	steno_set_unusual(STENO_U_OBJECTS_PENDING, false);
}

/* At the end of a transaction, when no statement runs or is open. */
void
steno_objects_release_all(void)
{
	steno_objects_forget_pending();
	steno_objects_release_used();
}

/* A query begins: the functions that the planner has called for it belong to it. */
void
steno_objects_adopt(StenoStatement *s)
{
	s->recorded = true;			/* even if only because of the functions */
	s->objects = pending;
	pending = NULL;
	steno_set_unusual(STENO_U_OBJECTS_PENDING, false);
}
