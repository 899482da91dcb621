/*
 * extension/describe/object_list.c
 *		Lists of objects: their memory, and how they are written into records.
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
 * raising errors, since the hook runs inside a statement that must not fail because of us.
 */
#include "base/steno.h"

#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/facts.h"
#include "describe/object.h"

/* Shorter lists are searched from one end to the other. */
#define MANY_OBJECTS 64

/* The arrays of a released list are freed if they are larger than this. */
#define KEPT_BYTES 16384

static MemoryContext context;
static StenoObjects *used;
static StenoObjects *unused;

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
	if (list->room * sizeof(StenoObjectEvent) > KEPT_BYTES)
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

void
steno_objects_release_used(void)
{
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
	StenoObjectEvent	   *item = &list->items[i];
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
	StenoObjectEvent	   *more;

	if (list->count < list->room)
		return true;
	if (list->count >= PG_INT32_MAX / 4)
		return false;
	more = MemoryContextAllocExtended(context, room * sizeof(StenoObjectEvent), MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (more == NULL)
		return false;
	if (list->items)
	{
		memcpy(more, list->items, list->count * sizeof(StenoObjectEvent));
		pfree(list->items);
	}
	list->items = more;
	list->room = room;
	if (room >= MANY_OBJECTS)
		make_heads(list);
	return true;
}

/* Copy a string into the list.  Returns its offset; 0, the empty string, if memory is exhausted. */
uint32
steno_objects_keep(StenoObjects *list, const char *s)
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

const char *
steno_objects_string(const StenoObjects *list, uint32 at)
{
	return at == 0 ? "" : list->bytes + at;
}

/* Append an entry; NULL if there is no space. */
StenoObjectEvent *
steno_objects_append(StenoObjects *list, Oid class, Oid oid, int sub, int action)
{
	StenoObjectEvent	   *item;

	if (!reserve_item(list))
		return NULL;
	item = &list->items[list->count++];
	*item = (StenoObjectEvent) {.class = class, .oid = oid, .sub = sub, .action = action};
	if (unlikely(list->heads != NULL))
		link_item(list, list->count - 1);
	return item;
}

/* The last entry of an object, or NULL. */
StenoObjectEvent *
steno_objects_find(StenoObjects *list, Oid class, Oid oid, int sub)
{
	bool		hashed = unlikely(list->heads != NULL);
	int			i = hashed ? *head_of(list, class, oid, sub) : list->count;

	while (i > 0)
	{
		StenoObjectEvent	   *item = &list->items[i - 1];

		if (item->oid == oid && item->class == class && item->sub == sub && !item->dropped && !item->hidden)
			return item;
		i = hashed ? item->next : i - 1;
	}
	return NULL;
}

/* Remove the last entry. */
void
steno_objects_remove_last(StenoObjects *list)
{
	StenoObjectEvent	   *item = &list->items[--list->count];

	if (unlikely(list->heads != NULL))
		*head_of(list, item->class, item->oid, item->sub) = item->next;
}

/* ---- in the record ---- */

static uint32
item_size(const StenoObjects *list, const StenoObjectEvent *item)
{
	return 1 + 3 * STENO_VARINT_MAX + strlen(steno_objects_string(list, item->type)) +
		strlen(steno_objects_string(list, item->name)) + strlen(steno_objects_string(list, item->to));
}

static inline bool
is_put(const StenoObjectEvent *item)
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

/* The order of objects when there are too many: what somebody asks for comes before parts of it. */
typedef enum Rank
{
	RANK_DATA,
	RANK_OTHER,
	RANK_PART
} Rank;

static Rank
rank_of(const StenoObjects *list, const StenoObjectEvent *item)
{
	static const char *const first[] = {"table", "foreign table", "materialized view"};
	static const char *const last[] = {"index", "table constraint", "default value", "trigger", "rule", "policy", "type"};
	const char *type = steno_objects_string(list, item->type);
	int			i;

	for (i = 0; i < lengthof(first); i++)
		if (strcmp(type, first[i]) == 0)
			return RANK_DATA;
	for (i = 0; i < lengthof(last); i++)
		if (strcmp(type, last[i]) == 0)
			return RANK_PART;
	return RANK_OTHER;
}

/* The shape has no space for all of them: put tables first.  If there is no memory for that, the order remains. */
STENO_COLD static void
put_tables_first(StenoObjects *list)
{
	StenoObjectEvent	   *ordered = MemoryContextAllocExtended(context, list->room * sizeof(StenoObjectEvent),
													 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	int			n = 0;
	Rank		rank;
	int			i;

	if (ordered == NULL)
		return;
	for (rank = RANK_DATA; rank <= RANK_PART; rank++)
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
put_item(uint8 *p, const StenoObjects *list, const StenoObjectEvent *item)
{
	*p++ = item->action;
	p = steno_put_string(p, steno_objects_string(list, item->type));
	p = steno_put_string(p, steno_objects_string(list, item->name));
	return steno_put_string(p, steno_objects_string(list, item->to));
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
