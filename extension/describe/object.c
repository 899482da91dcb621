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
 * All memory is in a context that lives as long as the process.  It is allocated without
 * raising errors, since the hook runs inside a statement that must not fail because of us:
 * if memory is exhausted, an object is only counted, or has no name.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "describe/object.h"

/* How many objects of one statement are kept; any others are only counted. */
#define MOST_OBJECTS 1000

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
	bool		dropped;		/* not to be shown: it is part of another object, or
								 * does not fit into the shape */
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
	int			fitting;		/* the number of those that steno_objects_put writes */
	int			omitted;		/* objects beyond MOST_OBJECTS, or for lack of memory */
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

/* Make space for one more entry; false: the list is full, or memory is exhausted. */
static bool
reserve_item(StenoObjects *list)
{
	int			room = Max(list->room * 2, 8);
	Event	   *more;

	if (list->count < list->room)
		return true;
	if (list->count >= MOST_OBJECTS)
		return false;
	more = MemoryContextAllocExtended(context, room * sizeof(Event), MCXT_ALLOC_NO_OOM);
	if (more == NULL)
		return false;
	if (list->items)
	{
		memcpy(more, list->items, list->count * sizeof(Event));
		pfree(list->items);
	}
	list->items = more;
	list->room = room;
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
		uint32		room = Max(list->bytes_room * 2, Max(512, at + len));
		char	   *more = MemoryContextAllocExtended(context, room, MCXT_ALLOC_NO_OOM);

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
	return item;
}

/* The last entry of an object, or NULL. */
static Event *
find_item(StenoObjects *list, Oid class, Oid oid, int sub)
{
	int			i;

	for (i = list->count - 1; i >= 0; i--)
	{
		Event	   *item = &list->items[i];

		if (item->oid == oid && item->class == class && item->sub == sub && !item->dropped)
			return item;
	}
	return NULL;
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

	if (list == NULL)
		return;
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
		Event		one_more = {.class = class, .oid = oid, .sub = sub, .action = action};

		n = (Naming) {list, &one_more};
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
		list->count--;			/* it is the last one */
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
	Event	   *item;

	if (list == NULL || steno_objects_have_call(list, function))
		return;
	item = append_item(list, ProcedureRelationId, function, 0, STENO_ACTION_EXECUTE);
	if (item == NULL)
	{
		list->omitted++;
		return;
	}
	item->type = keep_string(list, kind);
	item->name = keep_string(list, name);
	item->named = true;
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
} Finishing;

/*
 * A new constraint: the table that a foreign key references is a relation of the
 * statement, and a constraint of a table that is also new is part of that table.
 */
static void
finish_constraint(const Finishing *f, Event *item)
{
	Oid			table;
	Oid			references;
	Event	   *other;

	if (!steno_object_constraint(item->oid, &table, &references))
		return;
	if (OidIsValid(references))
		f->add_relation(references, STENO_ACCESS_REFERENCES);
	other = find_item(f->list, RelationRelationId, table, 0);
	if (other && other->action == STENO_ACTION_CREATE)
		item->dropped = true;
}

/*
 * An altered object: if its name has changed, it was renamed.  A constraint or a column is
 * part of its table, if that is in the list; otherwise a column is replaced by its table.
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
		return;
	if (item->class == ConstraintRelationId && steno_object_constraint(item->oid, &table, &references) &&
		find_item(list, RelationRelationId, table, 0))
		item->dropped = true;	/* part of its table */
	else if (strcmp(string_at(list, item->name), name) != 0)
	{
		item->action = STENO_ACTION_RENAME;
		item->to = keep_string(list, name);
	}
	else if (item->sub != 0)
	{
		/* a change of a column is recorded as a change of its table */
		if (find_item(list, item->class, item->oid, 0))
			item->dropped = true;
		else
		{
			object.objectSubId = item->sub = 0;
			if (steno_object_identify(&object, &type, &name))
			{
				item->type = keep_string(list, type);
				item->name = keep_string(list, name);
			}
		}
	}
}

static void
finish_list(void *arg)
{
	const Finishing *f = arg;
	StenoObjects *list = f->list;
	int			i;

	for (i = 0; i < list->count; i++)
	{
		Event	   *item = &list->items[i];

		if (item->dropped)
			continue;
		if (item->action == STENO_ACTION_CREATE && !item->named)
		{
			Naming		n = {list, item};

			if (item->class == ConstraintRelationId)
				finish_constraint(f, item);
			if (!item->dropped)
				name_item(&n);
		}
		else if (item->action == STENO_ACTION_ALTER)
			finish_altered(list, i);
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
	f = (Finishing) {s->objects, add_relation};
	if (steno_object_guarded(finish_list, &f))
		return;
	for (i = 0; i < s->objects->count; i++)
	{
		Naming		n = {s->objects, &s->objects->items[i]};

		if (!n.item->named && !n.item->dropped)
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

/*
 * The maximum size of the list in a shape with this much space; sets how many objects do
 * not fit.  All objects after the first that does not fit are omitted, so that the
 * recorded list is the beginning of the complete one.
 */
uint32
steno_objects_size(StenoObjects *list, uint32 room, int *omitted)
{
	uint32		size = STENO_VARINT_MAX;
	int			i;

	list->fitting = 0;
	*omitted = list->omitted;
	for (i = 0; i < list->count; i++)
	{
		Event	   *item = &list->items[i];
		uint32		more = item_size(list, item);

		if (!item->named || item->dropped)
			item->dropped = true;
		else if (*omitted > list->omitted || size + more > room)
		{
			item->dropped = true;
			++*omitted;
		}
		else
		{
			size += more;
			list->fitting++;
		}
	}
	return size;
}

/* Write those that fit, in the format of a shape. */
uint8 *
steno_objects_put(uint8 *p, const StenoObjects *list)
{
	int			i;

	p = steno_put_varint(p, list->fitting);
	for (i = 0; i < list->count; i++)
	{
		const Event *item = &list->items[i];

		if (item->dropped)
			continue;
		*p++ = item->action;
		p = steno_put_string(p, string_at(list, item->type));
		p = steno_put_string(p, string_at(list, item->name));
		p = steno_put_string(p, string_at(list, item->to));
	}
	return p;
}

void
steno_objects_install(void)
{
	context = AllocSetContextCreate(TopMemoryContext, "pg_steno objects",
									ALLOCSET_DEFAULT_SIZES);
}
