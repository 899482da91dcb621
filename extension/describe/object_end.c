/*
 * extension/describe/object_end.c
 *		What has become of the objects of a statement at its end.
 *
 * When a statement has succeeded, new objects have names, altered ones may have other names than
 * before, and what both depend on is used.  Objects for which the server calls no hook are looked up
 * by the names in the statement (object_named.c).
 */
#include "base/steno.h"

#include "access/xact.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_trigger.h"

#include "describe/object.h"

/* The statement has succeeded: name what was expected, unless it has been dropped. */
static void
name_expected(StenoObjects *list)
{
	int			i;

	for (i = 0; i < list->count; i++)
	{
		StenoNaming n = {list, &list->items[i]};

		if ((n.item->action == STENO_ACTION_ALTER || n.item->action == STENO_ACTION_USE) && !n.item->named &&
			!n.item->dropped && !steno_object_guarded(steno_object_name_item, &n))
			steno_object_number_item(&n);
	}
}

/* What finish_list needs. */
typedef struct Finishing
{
	StenoObjects *list;
	StenoAddRelation add_relation;
	bool		utility;
	CommandId	since;			/* the first command of a utility statement */
	Oid			referenced;		/* by the last new foreign key */
} Finishing;

/*
 * A new constraint: the table that a foreign key references is a relation of the
 * statement, and a constraint of a table that is also new is part of that table.
 */
static void
finish_constraint(Finishing *f, StenoObjectEvent *item)
{
	Oid			table;
	Oid			references;
	StenoObjectEvent *other;

	if (!steno_object_constraint(item->oid, &table, &references))
		return;
	if (OidIsValid(references))
		f->add_relation(references, STENO_ACCESS_REFERENCES);
	f->referenced = references;
	other = steno_objects_find(f->list, RelationRelationId, table, 0);
	if (other && other->action == STENO_ACTION_CREATE)
		item->dropped = true;
}

/*
 * A new object: it has its name now, and what it is part of, or depends on, is used.  What is hidden has no name, and
 * for the hook, a default value is a column of a table.
 */
static void
finish_created(Finishing *f, int i)
{
	StenoObjectEvent *item = &f->list->items[i];
	StenoNaming n = {f->list, item};
	StenoRelated r = {f->list, STENO_ACTION_USE, InvalidOid};
	ObjectAddress object;

	ObjectAddressSet(object, item->class, item->oid);
	if (item->class == AttrDefaultRelationId)
		object.objectId = GetAttrDefaultOid(item->oid, item->sub);
	if (item->hidden)
		item->dropped = true;
	else if (item->class == ConstraintRelationId)
		finish_constraint(f, item);
	if (!item->dropped)
		steno_object_name_item(&n);
	if (item->class == ConstraintRelationId || item->class == TriggerRelationId)
		r.except = f->referenced;	/* which its triggers are on, too */

	/* the array of items may be another one after this */
	steno_object_wholes(&object, steno_objects_add_related, &r);
	steno_object_references(&object, NULL, steno_objects_add_related, &r);
}

/* Whether the statement has done more to the object of an item, which may be NULL, than use it. */
static bool
is_changed(const StenoObjectEvent *item)
{
	return item != NULL && item->action != STENO_ACTION_USE;
}

/*
 * An altered object: if its name has changed, it was renamed.  A constraint is part of its table, if that is changed,
 * too; a column, whose table is listed, is shown only if it was renamed.
 */
static void
finish_altered(StenoObjects *list, int i)
{
	StenoObjectEvent *item = &list->items[i];
	ObjectAddress object;
	char	   *type;
	char	   *name;
	Oid			table;
	Oid			references;

	ObjectAddressSubSet(object, item->class, item->oid, item->sub);
	if (!steno_object_identify(&object, &type, &name))
	{
		item->dropped = item->dropped || item->sub != 0;
		return;
	}
	if (item->class == ConstraintRelationId && steno_object_constraint(item->oid, &table, &references) &&
		is_changed(steno_objects_find(list, RelationRelationId, table, 0)))
		item->dropped = true;	/* part of its table */
	else if (strcmp(steno_objects_string(list, item->name), name) != 0)
	{
		item->action = STENO_ACTION_RENAME;
		item->to = steno_objects_keep(list, name);
	}
	else if (item->sub != 0)
	{
		const StenoObjectEvent column = *item; /* the array of items may be another one after this */

		item->dropped = true;
		steno_objects_add_table_of(list, &column, STENO_ACTION_ALTER);
	}
}

/* What an altered object depends on since the statement, or no longer, is used. */
static void
finish_references(const Finishing *f, const StenoObjectEvent *item)
{
	const CommandId since = f->since;
	StenoRelated r = {f->list, STENO_ACTION_USE, InvalidOid};
	ObjectAddress object;

	if (item->sub != 0 || !OidIsValid(item->oid))
		return;
	ObjectAddressSet(object, item->class, item->oid);
	steno_object_references(&object, &since, steno_objects_add_related, &r);
}

static void
finish_list(void *arg)
{
	Finishing  *f = arg;
	StenoObjects *list = f->list;
	int			i;

	for (i = 0; i < list->count; i++)
	{
		StenoObjectEvent *item = &list->items[i];

		if (item->dropped)
			continue;
		if (item->action == STENO_ACTION_CREATE && !item->named)
			finish_created(f, i);
		else if (item->action == STENO_ACTION_ALTER)
		{
			finish_altered(list, i);
			if (f->utility)
				finish_references(f, &list->items[i]);
		}
	}
}

static void
make_changes_visible(void *arg)
{
	CommandCounterIncrement();
}

/*
 * A statement has succeeded: set the current names of its objects, and add those that a
 * utility statement (NULL: it is a query) names but no hook is called for. add_relation is
 * called for each relation that a new constraint references.
 *
 * A failure in here does not affect the statement: objects are recorded by their OIDs
 * then.
 */
void
steno_objects_name(StenoStatement *s, Node *utility, StenoAddRelation add_relation)
{
	Finishing	f;
	int			i;

	if (!s->recorded || !IsTransactionState())
		return;
	if (utility && IsA(utility, ReindexStmt))
		steno_objects_release(&s->objects); /* indexes that REINDEX creates and swaps */
	if (utility && s->objects && s->objects->unfinished)
		(void) steno_object_guarded(make_changes_visible, NULL);
	if (utility && s->objects && steno_objects_are_expected(utility))
		name_expected(s->objects);
	if (utility && steno_objects_are_named(utility))
	{
		if (s->objects == NULL)
			s->objects = steno_objects_new();
		if (s->objects)
			steno_objects_add_named(s->objects, utility);
	}
	if (s->objects == NULL || !s->objects->unfinished)
		return;
	s->objects->unfinished = false;
	f = (Finishing) {s->objects, add_relation, utility != NULL && steno_my.level != NULL};
	if (f.utility)
		f.since = steno_my.level->since;
	if (steno_object_guarded(finish_list, &f))
		return;
	for (i = 0; i < s->objects->count; i++)
	{
		StenoNaming n = {s->objects, &s->objects->items[i]};

		if (!n.item->named && !n.item->dropped && !n.item->hidden)
			steno_object_number_item(&n);
	}
}
