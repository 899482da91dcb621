/*
 * extension/describe/object.c
 *		Lists of the objects that statements create, alter, rename, drop and call.
 *
 * The object access hook (capture/object_access.c) adds to a list while its statement
 * runs.  The name of an object that is dropped, or may be renamed, is looked up at once,
 * while it still has its old name.  The name of a new object is looked up when the
 * statement has succeeded: before that, its catalog row is not visible.  If the statement
 * fails, the list is recorded as it is.
 *
 * A list belongs to a statement (StenoStatement.objects) and is released with it.
 * Released lists are reused, so that a query that calls functions usually allocates
 * nothing.
 *
 * A list may be long: DROP SCHEMA ... CASCADE drops whatever is in the schema.  The shape has the
 * first of its objects, and what follows goes on behind the values of the record (shape.c).  If
 * there are more than fit into the shape, tables come first.
 *
 * All memory is in a context that lives as long as the process.  It is allocated without
 * raising errors, since the hook runs inside a statement that must not fail because of us:
 * if memory is exhausted, an object is only counted, or has no name.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/facts.h"
#include "describe/object.h"

/* Shorter lists are searched from one end to the other. */
#define MANY_OBJECTS 64

/* The arrays of a released list are freed if they are larger than this. */
#define KEPT_BYTES 16384

/* What has happened to an object. */
typedef struct Event
{
	Oid			class;			/* the catalog that contains it */
	Oid			oid;
	int32		sub;			/* number of a column; 0: the object itself */
	uint8		action;			/* STENO_ACTION_* */
	bool		named;			/* type and name are known */
	bool		dropped;		/* not to be shown: it is part of another object */
	bool		hidden;			/* likewise, and only what it belongs to is of interest */
	int			next;			/* number of the item before with the same hash, plus 1; 0: none */
	uint32		type;			/* offsets into the list's bytes */
	uint32		name;
	uint32		to;				/* the new name of a renamed object */
} Event;

struct StenoObjects
{
	struct StenoObjects *next;	/* in the list of lists in use, or of released ones */
	Event	   *items;
	int			count;
	int			room;
	int		   *heads;			/* by hash: number of the last item, plus 1; NULL: not many, or no memory */
	int			heads_room;		/* a power of two */
	int			fitting;		/* the number of those that steno_objects_put writes */
	int			after;			/* number of the first item after these */
	int			omitted;		/* objects for which there was no memory */
	bool		unfinished;		/* some have no name yet, or may be renamed */
	char	   *bytes;			/* strings, NUL-terminated; the first is empty */
	uint32		bytes_count;
	uint32		bytes_room;
};

static MemoryContext context;
static StenoObjects *used;
static StenoObjects *unused;

/*
 * Functions that were called while no statement was running: by the planner, which
 * evaluates constant expressions before the query begins.  The query takes them over.
 */
static StenoObjects *pending;

/* ---- lists ---- */

StenoObjects *
steno_objects_new(void)
{
	StenoObjects *list = unused;

	if (list)
		unused = list->next;
	else
	{
		list = MemoryContextAllocExtended(context, sizeof(StenoObjects),
										  MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
		if (list == NULL)
			return NULL;
	}
	list->count = 0;
	list->omitted = 0;
	list->unfinished = false;
	list->bytes_count = 1;
	list->next = used;
	used = list;
	return list;
}

static void
forget_heads(StenoObjects *list)
{
	if (list->heads)
		pfree(list->heads);
	list->heads = NULL;
}

/* Free the arrays of a list that has become long. */
static void
shrink_list(StenoObjects *list)
{
	if (list->bytes_room > KEPT_BYTES)
	{
		pfree(list->bytes);
		list->bytes = NULL;
		list->bytes_room = 0;
	}
	if (list->room * sizeof(Event) > KEPT_BYTES)
	{
		pfree(list->items);
		list->items = NULL;
		list->room = 0;
	}
}

void
steno_objects_release(StenoObjects **mine)
{
	StenoObjects *list = *mine;
	StenoObjects **p;

	*mine = NULL;
	for (p = &used; *p != NULL; p = &(*p)->next)
	{
		if (*p != list)
			continue;
		*p = list->next;
		forget_heads(list);
		shrink_list(list);
		list->next = unused;
		unused = list;
		break;
	}
}

/* At the end of a transaction: discard the planner's calls that no query has taken over. */
void
steno_objects_forget_pending(void)
{
	if (pending)
		steno_objects_release(&pending);
	steno_my.objects_pending = false;
}

/* At the end of a transaction, when no statement runs or is open. */
void
steno_objects_release_all(void)
{
	steno_objects_forget_pending();
	while (used)
	{
		StenoObjects *list = used;

		steno_objects_release(&list);
	}
}

static inline int *
head_of(const StenoObjects *list, Oid class, Oid oid, int sub)
{
	return &list->heads[hash_combine(murmurhash32(oid), class * 31 + sub) & (list->heads_room - 1)];
}

static void
link_item(StenoObjects *list, int i)
{
	Event	   *item = &list->items[i];
	int		   *head = head_of(list, item->class, item->oid, item->sub);

	item->next = *head;
	*head = i + 1;
}

/* The list has become long, or longer: find its items by their hashes from now on. */
static void
make_heads(StenoObjects *list)
{
	int			i;

	forget_heads(list);
	list->heads_room = pg_nextpower2_32(list->room);
	list->heads = MemoryContextAllocExtended(context, list->heads_room * sizeof(int),
											 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (i = 0; list->heads && i < list->count; i++)
		link_item(list, i);
}

/* Make space for one more entry; false: memory is exhausted. */
static bool
reserve_item(StenoObjects *list)
{
	int			room = Max(list->room * 2, 8);
	Event	   *more;

	if (list->count < list->room)
		return true;
	if (list->count >= PG_INT32_MAX / 4)
		return false;
	more = MemoryContextAllocExtended(context, room * sizeof(Event), MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (more == NULL)
		return false;
	if (list->items)
	{
		memcpy(more, list->items, list->count * sizeof(Event));
		pfree(list->items);
	}
	list->items = more;
	list->room = room;
	if (room >= MANY_OBJECTS)
		make_heads(list);
	return true;
}

/* Copy a string into the list.  Returns its offset; 0, the empty string, if memory is exhausted. */
static uint32
keep_string(StenoObjects *list, const char *s)
{
	uint32		len = strlen(s) + 1;
	uint32		at = list->bytes_count;

	if (at + len > list->bytes_room)
	{
		uint64		room = Max(list->bytes_room * (uint64) 2, Max(512, at + (uint64) len));
		char	   *more = room > PG_INT32_MAX ? NULL :
			MemoryContextAllocExtended(context, room, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

		if (more == NULL)
			return 0;
		more[0] = '\0';
		if (list->bytes)
		{
			memcpy(more, list->bytes, at);
			pfree(list->bytes);
		}
		list->bytes = more;
		list->bytes_room = room;
	}
	memcpy(list->bytes + at, s, len);
	list->bytes_count += len;
	return at;
}

static const char *
string_at(const StenoObjects *list, uint32 at)
{
	return at == 0 ? "" : list->bytes + at;
}

/* Append an entry; NULL if there is no space. */
static Event *
append_item(StenoObjects *list, Oid class, Oid oid, int sub, int action)
{
	Event	   *item;

	if (!reserve_item(list))
		return NULL;
	item = &list->items[list->count++];
	*item = (Event) {.class = class, .oid = oid, .sub = sub, .action = action};
	if (unlikely(list->heads != NULL))
		link_item(list, list->count - 1);
	return item;
}

/* The last entry of an object, or NULL. */
static Event *
find_item(StenoObjects *list, Oid class, Oid oid, int sub)
{
	bool		hashed = unlikely(list->heads != NULL);
	int			i = hashed ? *head_of(list, class, oid, sub) : list->count;

	while (i > 0)
	{
		Event	   *item = &list->items[i - 1];

		if (item->oid == oid && item->class == class && item->sub == sub && !item->dropped && !item->hidden)
			return item;
		i = hashed ? item->next : i - 1;
	}
	return NULL;
}

/* Remove the last entry. */
static void
remove_last(StenoObjects *list)
{
	Event	   *item = &list->items[--list->count];

	if (unlikely(list->heads != NULL))
		*head_of(list, item->class, item->oid, item->sub) = item->next;
}

/* ---- names ---- */

typedef struct Naming
{
	StenoObjects *list;
	Event	   *item;
} Naming;

/* Look up an object's name; internal objects, which users do not name, are hidden. */
static void
name_item(void *arg)
{
	Naming	   *n = arg;
	ObjectAddress object;
	char	   *type;
	char	   *name;

	ObjectAddressSubSet(object, n->item->class, n->item->oid, n->item->sub);
	if (steno_object_identify(&object, &type, &name))
	{
		n->item->type = keep_string(n->list, type);
		n->item->name = keep_string(n->list, name);
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
static void
number_item(Naming *n)
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
	n->item->type = keep_string(n->list, type);
	n->item->name = keep_string(n->list, name);
	n->item->named = true;
}

/*
 * There is no space for an entry: count the object if it is one that users refer to by
 * name.  A new one cannot be looked up yet, so this is decided by its catalog alone.
 */
static void
count_item(void *arg)
{
	Naming	   *n = arg;
	ObjectAddress object;
	char	   *type;
	char	   *name;

	ObjectAddressSubSet(object, n->item->class, n->item->oid, n->item->sub);
	if (n->item->action == STENO_ACTION_CREATE ? object.classId != TypeRelationId :
		steno_object_identify(&object, &type, &name))
		n->list->omitted++;
}

/* ---- adding ---- */

/* Argument of add_related. */
typedef struct Related
{
	StenoObjects *list;
	int			action;
	Oid			except;			/* a table that the record has as a relation */
} Related;

static void
add_related(const ObjectAddress *object, void *arg)
{
	const Related *r = arg;

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
	const Naming *n = arg;
	const Event event = *n->item;
	Related		r = {n->list, STENO_ACTION_USE, InvalidOid};
	ObjectAddress part;

	ObjectAddressSet(part, event.class, event.oid);
	if (event.class == AttrDefaultRelationId)
		r.action = STENO_ACTION_ALTER;
	steno_object_wholes(&part, add_related, &r);

	/* while it is being dropped, what it depends on is still there */
	if (event.action == STENO_ACTION_DROP && event.sub == 0)
		steno_object_references(&part, NULL, add_related, &r);
}

/*
 * A column is dropped, altered or renamed: that alters its table or composite type, which a renaming of the column only
 * uses.  The end of the statement tells these apart.
 */
static void
add_table_of_column(StenoObjects *list, const Event *event, int action)
{
	ObjectAddress table;

	ObjectAddressSet(table, event->class, event->oid);
	steno_object_redirect(&table);
	steno_objects_add(list, table.classId, table.objectId, 0, action);
}

static void
begin_column(void *arg)
{
	const Naming *n = arg;

	add_table_of_column(n->list, n->item, n->item->action == STENO_ACTION_DROP ? STENO_ACTION_ALTER : STENO_ACTION_USE);
}

/*
 * An event of an object that is not to be shown, because the server makes it on behalf of another one: only what it
 * belongs to is added.  created: its row is not visible yet, so this is done at the end of the statement.
 */
void
steno_objects_add_part(StenoObjects *list, Oid class, Oid oid, int sub, bool created)
{
	Event		event = {.class = class, .oid = oid, .sub = sub, .action = STENO_ACTION_DROP};
	Naming		n = {list, &event};
	Event	   *item;

	if (list == NULL)
		return;
	if (!created)
	{
		(void) steno_object_guarded(add_whole, &n);
		return;
	}
	item = append_item(list, class, oid, sub, STENO_ACTION_CREATE);
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
	const Naming *n = arg;

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
	Event		event = {.oid = index};
	Naming		n = {list, &event};

	if (list != NULL)
		(void) steno_object_guarded(add_index_if_changed, &n);
}

/* Append an entry whose name is known. */
static void
append_named(StenoObjects *list, const Event *event, const char *type, const char *name)
{
	Event	   *item = append_item(list, event->class, event->oid, event->sub, event->action);

	if (item == NULL)
	{
		list->omitted++;
		return;
	}
	item->type = keep_string(list, type);
	item->name = keep_string(list, name);
	item->named = true;
}

/* An object that has no row, by the name that the statement has for it. */
void
steno_objects_add_written(StenoObjects *list, const char *type, const char *name, int action)
{
	Event		event = {.sub = list->count, .action = action};

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
	Naming		n;
	Event	   *item;
	Event		event = {.class = class, .oid = oid, .sub = sub, .action = action};

	if (list == NULL)
		return;
	n = (Naming) {list, &event};
	if (sub != 0)
		(void) steno_object_guarded(begin_column, &n);
	item = find_item(list, class, oid, sub);
	if (item && (item->action == action ||
				 (action != STENO_ACTION_DROP && item->action != STENO_ACTION_USE)))
		return;
	if (item && action == STENO_ACTION_DROP && item->action == STENO_ACTION_CREATE && !item->named)
	{
		n = (Naming) {list, item};
		(void) steno_object_guarded(name_item, &n);
	}
	else if (item && (item->action == STENO_ACTION_ALTER || item->action == STENO_ACTION_USE))
		item->dropped = true;
	item = append_item(list, class, oid, sub, action);
	if (item == NULL)
	{
		n = (Naming) {list, &event};
		(void) steno_object_guarded(count_item, &n);
		return;
	}
	if (action == STENO_ACTION_CREATE || action == STENO_ACTION_ALTER)
		list->unfinished = true;
	if (action == STENO_ACTION_CREATE)
		return;
	n = (Naming) {list, item};
	if (!steno_object_guarded(name_item, &n))
		number_item(&n);
	if (item->dropped)
		remove_last(list);
	n = (Naming) {list, &event};
	(void) steno_object_guarded(add_whole, &n);
}

/*
 * An object that the statement, which begins, alters or uses if it succeeds.  It has no name before that, and a list
 * does not show what has none.
 */
void
steno_objects_expect(StenoObjects *list, Oid class, Oid oid, int action)
{
	if (find_item(list, class, oid, 0) == NULL && append_item(list, class, oid, 0, action) == NULL)
		list->omitted++;
}

/* It has succeeded: name what was expected, unless it has been dropped. */
static void
name_expected(StenoObjects *list)
{
	int			i;

	for (i = 0; i < list->count; i++)
	{
		Naming		n = {list, &list->items[i]};

		if ((n.item->action == STENO_ACTION_ALTER || n.item->action == STENO_ACTION_USE) && !n.item->named &&
			!n.item->dropped && !steno_object_guarded(name_item, &n))
			number_item(&n);
	}
}

/* Whether the list contains the call of a function. */
bool
steno_objects_have_call(StenoObjects *list, Oid function)
{
	return find_item(list, ProcedureRelationId, function, 0) != NULL;
}

/* Add the call of a function, once. */
void
steno_objects_add_call(StenoObjects *list, Oid function, const char *kind, const char *name)
{
	Event		event = {.class = ProcedureRelationId, .oid = function, .action = STENO_ACTION_EXECUTE};

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
	steno_my.objects_pending = pending != NULL;
	steno_objects_add_call(pending, function, kind, name);
}

/* A query begins: the functions that the planner has called for it belong to it. */
void
steno_objects_adopt(StenoStatement *s)
{
	s->recorded = true;			/* even if only because of the functions */
	s->objects = pending;
	pending = NULL;
	steno_my.objects_pending = false;
}

/* ---- at the end of a statement ---- */

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
finish_constraint(Finishing *f, Event *item)
{
	Oid			table;
	Oid			references;
	Event	   *other;

	if (!steno_object_constraint(item->oid, &table, &references))
		return;
	if (OidIsValid(references))
		f->add_relation(references, STENO_ACCESS_REFERENCES);
	f->referenced = references;
	other = find_item(f->list, RelationRelationId, table, 0);
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
	Event	   *item = &f->list->items[i];
	Naming		n = {f->list, item};
	Related		r = {f->list, STENO_ACTION_USE, InvalidOid};
	ObjectAddress object;

	ObjectAddressSet(object, item->class, item->oid);
	if (item->class == AttrDefaultRelationId)
		object.objectId = GetAttrDefaultOid(item->oid, item->sub);
	if (item->hidden)
		item->dropped = true;
	else if (item->class == ConstraintRelationId)
		finish_constraint(f, item);
	if (!item->dropped)
		name_item(&n);
	if (item->class == ConstraintRelationId || item->class == TriggerRelationId)
		r.except = f->referenced;	/* which its triggers are on, too */

	/* the array of items may be another one after this */
	steno_object_wholes(&object, add_related, &r);
	steno_object_references(&object, NULL, add_related, &r);
}

/* Whether the statement has done more to the object of an item, which may be NULL, than use it. */
static bool
is_changed(const Event *item)
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
	Event	   *item = &list->items[i];
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
		is_changed(find_item(list, RelationRelationId, table, 0)))
		item->dropped = true;	/* part of its table */
	else if (strcmp(string_at(list, item->name), name) != 0)
	{
		item->action = STENO_ACTION_RENAME;
		item->to = keep_string(list, name);
	}
	else if (item->sub != 0)
	{
		const Event column = *item; /* the array of items may be another one after this */

		item->dropped = true;
		add_table_of_column(list, &column, STENO_ACTION_ALTER);
	}
}

/* What an altered object depends on since the statement, or no longer, is used. */
static void
finish_references(const Finishing *f, const Event *item)
{
	const CommandId since = f->since;
	Related		r = {f->list, STENO_ACTION_USE, InvalidOid};
	ObjectAddress object;

	if (item->sub != 0 || !OidIsValid(item->oid))
		return;
	ObjectAddressSet(object, item->class, item->oid);
	steno_object_references(&object, &since, add_related, &r);
}

static void
finish_list(void *arg)
{
	Finishing  *f = arg;
	StenoObjects *list = f->list;
	int			i;

	for (i = 0; i < list->count; i++)
	{
		Event	   *item = &list->items[i];

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
		Naming		n = {s->objects, &s->objects->items[i]};

		if (!n.item->named && !n.item->dropped && !n.item->hidden)
			number_item(&n);
	}
}

/* ---- in the record ---- */

static uint32
item_size(const StenoObjects *list, const Event *item)
{
	return 1 + 3 * STENO_VARINT_MAX + strlen(string_at(list, item->type)) +
		strlen(string_at(list, item->name)) + strlen(string_at(list, item->to));
}

static inline bool
is_put(const Event *item)
{
	return item->named && !item->dropped;
}

/* How many items from one on are put, as long as they fit into room; *end is the first one that does not. */
static int
count_fitting(StenoObjects *list, uint32 *size, uint32 room, int *end)
{
	int			n = 0;
	int			i;

	for (i = 0; i < list->count; i++)
	{
		uint32		more;

		if (!is_put(&list->items[i]))
			continue;
		more = item_size(list, &list->items[i]);
		if (*size + more > room)
			break;
		*size += more;
		n++;
	}
	*end = i;
	return n;
}

/* Objects that somebody asks for come before those that are parts of others. */
static int
rank_of(const StenoObjects *list, const Event *item)
{
	static const char *const first[] = {"table", "foreign table", "materialized view"};
	static const char *const last[] = {"index", "table constraint", "default value", "trigger", "rule", "policy", "type"};
	const char *type = string_at(list, item->type);
	int			i;

	for (i = 0; i < lengthof(first); i++)
		if (strcmp(type, first[i]) == 0)
			return 0;
	for (i = 0; i < lengthof(last); i++)
		if (strcmp(type, last[i]) == 0)
			return 2;
	return 1;
}

/* The shape has no space for all of them: put tables first.  If there is no memory for that, the order remains. */
STENO_COLD static void
put_tables_first(StenoObjects *list)
{
	Event	   *ordered = MemoryContextAllocExtended(context, list->room * sizeof(Event),
													 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	int			n = 0;
	int			rank;
	int			i;

	if (ordered == NULL)
		return;
	for (rank = 0; rank <= 2; rank++)
		for (i = 0; i < list->count; i++)
			if (rank_of(list, &list->items[i]) == rank)
				ordered[n++] = list->items[i];
	pfree(list->items);
	list->items = ordered;
	if (list->heads)
		make_heads(list);
}

/*
 * The maximum size of the list in a shape with this much space; *further is how many objects do not fit,
 * and go on behind the values of the record, *omitted how many are not known.
 */
uint32
steno_objects_size(StenoObjects *list, uint32 room, int *further, int *omitted)
{
	uint32		size = STENO_VARINT_MAX;
	int			i;

	*further = 0;
	*omitted = list->omitted;
	list->fitting = count_fitting(list, &size, room, &list->after);
	if (likely(list->after == list->count))
		return size;
	put_tables_first(list);
	size = STENO_VARINT_MAX;
	list->fitting = count_fitting(list, &size, room, &list->after);
	for (i = list->after; i < list->count; i++)
		if (is_put(&list->items[i]))
			++*further;
	return size;
}

static uint8 *
put_item(uint8 *p, const StenoObjects *list, const Event *item)
{
	*p++ = item->action;
	p = steno_put_string(p, string_at(list, item->type));
	p = steno_put_string(p, string_at(list, item->name));
	return steno_put_string(p, string_at(list, item->to));
}

/* Write those that fit, in the format of a shape. */
uint8 *
steno_objects_put(uint8 *p, const StenoObjects *list)
{
	int			i;

	p = steno_put_varint(p, list->fitting);
	for (i = 0; i < list->after; i++)
		if (is_put(&list->items[i]))
			p = put_item(p, list, &list->items[i]);
	return p;
}

/* The maximum size of those that do not fit, as they follow the values of the record. */
uint64
steno_objects_further_size(const StenoObjects *list)
{
	uint64		size = 0;
	int			i;

	for (i = list->after; i < list->count; i++)
		if (is_put(&list->items[i]))
			size += STENO_FURTHER_HEAD + item_size(list, &list->items[i]);
	return size;
}

uint8 *
steno_objects_put_further(uint8 *p, const StenoObjects *list)
{
	int			i;

	for (i = list->after; i < list->count; i++)
		if (is_put(&list->items[i]))
			p = steno_further_end(p, STENO_FURTHER_OBJECT, put_item(p + STENO_FURTHER_HEAD, list, &list->items[i]));
	return p;
}

void
steno_objects_install(void)
{
	context = AllocSetContextCreate(TopMemoryContext, "pg_steno objects",
									ALLOCSET_DEFAULT_SIZES);
}
