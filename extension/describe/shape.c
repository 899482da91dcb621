/*
 * extension/describe/shape.c
 *		Encodes shapes: class, query identifier, command tag, relations, parameter
 *		types, objects and further lists of a statement, in this order (format/FORMAT.md).
 *
 * A shape of at most SHAPE_ROOM bytes is encoded into a static array, which the
 * next shape overwrites; a larger one into the memory for one record.
 */
#include "base/steno.h"

#include "mb/pg_wchar.h"
#include "common/keywords.h"
#include "utils/memutils.h"

#include "describe/shape.h"

/* Enough for most shapes. */
#define SHAPE_ROOM 640

/* The most bytes of relations and objects behind the values; what is longer is omitted. */
#define MOST_FURTHER (512 * 1024 * 1024)

static uint8 usual_shape[SHAPE_ROOM] STENO_SESSION_DATA;

/* Add a name and a value to a record.  If there is no memory for them, the record does not have them. */
STENO_COLD void
steno_record_add_extra(StenoRecord *record, const char *name, const char *value)
{
	uint32		value_len = strlen(value);
	uint32		name_len = strlen(name);
	uint8	   *extra = steno_scratch(record->extra_len + name_len + value_len + 2 * STENO_VARINT_MAX);
	uint8	   *p = extra;

	if (extra == NULL)
		return;
	if (record->extra_len > 0)
		memcpy(p, record->extra, record->extra_len);
	p = steno_put_varint(p + record->extra_len, name_len);
	memcpy(p, name, name_len);
	p = steno_put_varint(p + name_len, value_len);
	memcpy(p, value, value_len);
	record->extra = extra;
	record->extra_len = p + value_len - extra;
	record->extra_count++;
}

/* Note in a record that count items are omitted because they do not fit. */
STENO_COLD void
steno_record_add_omitted(StenoRecord *record, const char *name, int count)
{
	char		number[16];

	snprintf(number, sizeof(number), "%d", count);
	steno_record_add_extra(record, name, number);
}

/*
 * Bytes that names as they are written take at most.  There are so few that a message has space for them, in the
 * smallest of rings, too.
 */
STENO_COLD static uint32
written_size(StenoRecord *record, const StenoWritten *written)
{
	if (written->omitted > 0)
		steno_record_add_omitted(record, "relations_omitted", written->omitted);
	return written->count * (4 * NAMEDATALEN + 16);
}

/* Put an identifier, in quotes where SQL needs them; quotes are decided here, without the server's memory. */
STENO_COLD uint8 *
steno_put_identifier(uint8 *p, const char *s)
{
	const char *c = s;
	bool		plain = (*s >= 'a' && *s <= 'z') || *s == '_';
	int			word;

	for (; plain && *c; c++)
		plain = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_';
	word = plain ? ScanKeywordLookup(s, &ScanKeywords) : -1;
	if (plain && (word < 0 || ScanKeywordCategories[word] == UNRESERVED_KEYWORD))
		return (uint8 *) memcpy(p, s, strlen(s)) + strlen(s);
	*p++ = '"';
	for (c = s; *c; c++)
	{
		if (*c == '"')
			*p++ = '"';
		*p++ = *c;
	}
	*p++ = '"';
	return p;
}

/* How names as they are written are used that may have columns. */
static uint32
columns_of_written(const StenoWrittenName *n)
{
	return n->access & (STENO_ACCESS_SELECT | STENO_ACCESS_INSERT | STENO_ACCESS_UPDATE);
}

/* Bytes that they take in a list of columns. */
STENO_COLD static uint32
written_columns_size(const StenoWritten *written)
{
	uint32		size = 2 * written->count;
	int			i;

	for (i = 0; i < written->count; i++)
		if (columns_of_written(&written->names[i]) != 0)
			size += 2;
	return size;
}

/* In a list of columns, theirs are not known: no view, and one entry without a name. */
STENO_COLD static uint8 *
put_written_columns(uint8 *p, const StenoWritten *written)
{
	int			i;

	for (i = 0; i < written->count; i++)
	{
		uint32		access = columns_of_written(&written->names[i]);

		*p++ = 0;
		*p++ = access != 0;
		if (access != 0)
		{
			*p++ = access;
			*p++ = 0;
		}
	}
	return p;
}

/* Put relations of a shape, the first ones of which count are shown, and after them names as they are written. */
STENO_COLD static uint8 *
put_written(uint8 *p, const StenoShape *what, int count, int shown)
{
	const StenoWritten *written = what->written;
	int			i;

	p = steno_put_varint(p, shown + written->count);
	for (i = 0; i < count; i++)
		if (steno_relation_is_shown(what->relations, i))
			p = steno_relation_put(p, what->relations[i].relid, what->relations[i].access);
	for (i = 0; i < written->count; i++)
	{
		const StenoWrittenName *n = &written->names[i];
		uint8		name[4 * NAMEDATALEN + 8];
		uint8	   *end = name;

		if (n->schema[0] != '\0')
		{
			end = steno_put_identifier(end, n->schema);
			*end++ = '.';
		}
		end = steno_put_identifier(end, n->name);
		*p++ = STENO_RELTYPE_OTHER;
		p = steno_put_varint(p, n->access);
		p = steno_put_varint(p, end - name);
		memcpy(p, name, end - name);
		p += end - name;
	}
	return p;
}

/*
 * Put class, query identifier and command tag.  A NULL tag is SELECT, which the
 * compiler puts into the code: reading a constant could miss another page.
 */
static inline uint8 *
put_head(uint8 *p, const StenoShape *what, uint32 command_len)
{
	p = steno_put_varint(p, what->class);
	p = steno_put_varint(p, what->query_id);
	p = steno_put_varint(p, command_len);
	if (likely(what->command == NULL))
		memcpy(p, "SELECT", strlen("SELECT"));
	else
		memcpy(p, what->command, command_len);
	return p + command_len;
}

/* Columns of a shape that is being encoded. */
typedef struct ColumnList
{
	int			count;			/* of relations that fit into the shape */
	uint32		limit;			/* for steno_columns_put */
	uint32		size;			/* bytes; 0: the shape has no columns */
	int			omitted;
} ColumnList;

/* How many relations are left out, from index count on. */
STENO_COLD static int
count_omitted(const StenoShape *what, int count)
{
	int			omitted = what->missing;
	int			i;

	for (i = count; i < what->count; i++)
		if (steno_relation_is_shown(what->relations, i))
			omitted++;
	return omitted;
}

/*
 * Encode a shape without relations, parameters and objects, because there is no memory for them.
 * The record counts them.
 */
STENO_COLD static void
encode_head_alone(StenoRecord *record, const StenoShape *what, uint32 command_len, bool has_params)
{
	uint8	   *p = put_head(usual_shape, what, command_len);
	int			omitted;

	memset(p, 0, 2);			/* no relations, parameters */
	record->shape = usual_shape;
	record->shape_len = p + 2 - usual_shape;
	omitted = count_omitted(what, 0) + (what->written ? what->written->count : 0);
	if (omitted > 0)
		steno_record_add_omitted(record, "relations_omitted", omitted);
	if (what->objects != NULL)
	{
		int			further;

		(void) steno_objects_size(what->objects, 0, &further, &omitted);
		if (further + omitted > 0)
			steno_record_add_omitted(record, "objects_omitted", further + omitted);
	}
	if (has_params)
		steno_record_add_omitted(record, "parameters_omitted", what->params->numParams);
}

/*
 * The shape lacks the relations from index count on, and objects: put them behind the values.  True if
 * that was possible, or there are none.
 */
STENO_COLD bool
steno_record_put_further(StenoRecord *record, const StenoAccess *relations, int from, int count,
						 const StenoObjects *objects)
{
	uint64		size = record->further_len;
	uint8	   *further;
	uint8	   *p;

	if (count > from)
		size += steno_relations_further_size(relations, from, count);
	if (objects)
		size += steno_objects_further_size(objects);
	if (size == record->further_len)
		return true;
	if (size > MOST_FURTHER || record->extra_count == PG_UINT8_MAX)
		return false;
	further = steno_scratch(size);
	if (further == NULL)
		return false;
	p = further;
	if (record->further_len > 0)
	{
		memcpy(p, record->further, record->further_len);
		p += record->further_len;
	}
	if (count > from)
		p = steno_relations_put_further(p, relations, from, count);
	if (objects)
		p = steno_objects_put_further(p, objects);
	record->further = further;
	record->further_len = p - further;
	return true;
}

/*
 * The shape does not have all relations and objects.  further: objects that there is no space for; omitted:
 * others that are not known.
 */
STENO_COLD static void
go_on_behind_values(StenoRecord *record, const StenoShape *what, int count, int further, int omitted)
{
	int			relations_omitted = what->missing;

	if (!steno_record_put_further(record, what->relations, count, what->count,
								  further > 0 ? what->objects : NULL))
	{
		relations_omitted = count_omitted(what, count);
		omitted += further;
	}
	if (relations_omitted > 0)
		steno_record_add_omitted(record, "relations_omitted", relations_omitted);
	if (omitted > 0)
		steno_record_add_omitted(record, "objects_omitted", omitted);
}

/* Space for tables is the first to be used; *what has them first then, if there is memory for that. */
STENO_COLD static bool
order_relations(StenoShape *ordered, const StenoShape *what)
{
	StenoAccess *relations = steno_scratch(what->count * sizeof(StenoAccess));
	int		   *moved = steno_scratch(what->count * sizeof(int));

	if (relations == NULL || moved == NULL)
		return false;
	steno_relations_put_tables_first(relations, moved, what->relations, what->count);
	*ordered = *what;
	ordered->relations = relations;
	return true;
}

/* Find out how many bytes the columns take, of room; count: relations in the shape. */
static void
size_columns(const StenoShape *what, int count, uint32 room, ColumnList *columns)
{
	bool		any = false;	/* any columns or views */
	int			i;

	*columns = (ColumnList) {count, room, 0, 0};
	for (i = 0; i < count && !any; i++)
		any = steno_relation_is_shown(what->relations, i) &&
			((what->relations[i].access & (STENO_ACCESS_SELECT | STENO_ACCESS_INSERT | STENO_ACCESS_UPDATE)) ||
			 OidIsValid(what->relations[i].via));
	if (!any)
		return;
	columns->size = steno_columns_put(NULL, what->relations, count, room, &columns->omitted);
	if (unlikely(columns->size > room))
	{
		(void) steno_columns_put(NULL, what->relations, count, 0, &columns->omitted);
		columns->size = 0;
	}
}

/* Put the columns as a list of the shape. */
static uint8 *
put_columns(uint8 *p, const StenoShape *what, const ColumnList *columns)
{
	int			omitted;

	*p++ = STENO_LIST_COLUMNS;
	p = steno_put_varint(p, columns->size);
	p += steno_columns_put(p, what->relations, columns->count, columns->limit, &omitted);
	return unlikely(what->written != NULL) ? put_written_columns(p, what->written) : p;
}

/* The length of a name that clients choose.  The server knows no more of it than this, either. */
static uint32
name_len(const char *name)
{
	uint32		len = strlen(name);

	return likely(len < NAMEDATALEN) ? len : pg_mbcliplen(name, len, NAMEDATALEN - 1);
}

/* Bytes of a list that has a name, and nothing else. */
static inline uint32
name_list_size(const char *name)
{
	uint32		len;

	if (likely(name == NULL))
		return 0;
	len = name_len(name);
	return 1 + steno_varint_size(len) + len;
}

/* Put such a list of the shape. */
static uint8 *
put_name_list(uint8 *p, uint8 list, const char *name)
{
	uint32		len = name_len(name);

	*p++ = list;
	p = steno_put_varint(p, len);
	memcpy(p, name, len);
	return p + len;
}

/*
 * Put the part of the shape before the parameters, which take params_size bytes, and find out how
 * many the columns take.  NULL if out of memory.
 */
static inline uint8 *
put_before_params(StenoRecord *record, const StenoShape **shape, StenoShape *ordered, bool has_params,
				  uint32 params_size, ColumnList *columns)
{
	const StenoShape *what = *shape;
	uint32		command_len = what->command ? strlen(what->command) : strlen("SELECT");
	uint32		room = 5 * STENO_VARINT_MAX + command_len + params_size +
		name_list_size(what->query_command) + name_list_size(what->prepared);
	uint32		limit = STENO_SHAPE_LIMIT;
	uint8	   *p = usual_shape;
	int			count = what->count;
	int			shown = 0;
	int			further = 0;
	int			omitted = 0;
	uint32		left = limit > room ? limit - room : 0;
	uint32		size = 0;
	bool		cut;

	if (count > 0)
		size = steno_relations_size(what->relations, &count, &shown, left);
	cut = count < what->count;
	if (unlikely(cut) && order_relations(ordered, what))
	{
		/* what is behind the values counts the relations of the shape, and names as they are written are none */
		ordered->written = NULL;
		if (what->written)
			ordered->missing += what->written->count + what->written->omitted;
		*shape = what = ordered;
		count = what->count;
		size = steno_relations_size(what->relations, &count, &shown, left);
	}
	room += size;
	if (unlikely(what->objects != NULL))
	{
		uint32		used = room + shown * STENO_COLUMNS_LEAST;

		/* after relations that do not fit, objects do not fit either */
		room += steno_objects_size(what->objects, !cut && limit > used ? limit - used : 0, &further, &omitted);
	}
	if (shown > 0)
	{
		size_columns(what, count, limit > room ? limit - room : 0, columns);
		if (unlikely(what->written != NULL) && columns->size > 0)
			columns->size += written_columns_size(what->written);
		room += columns->size;
	}
	if (unlikely(what->written != NULL))
		room += written_size(record, what->written);
	if (unlikely(room > SHAPE_ROOM))
	{
		p = steno_scratch(room);
		if (p == NULL)
		{
			encode_head_alone(record, what, command_len, has_params);
			return NULL;
		}
	}
	if (unlikely(cut || what->missing > 0 || further > 0 || omitted > 0))
		go_on_behind_values(record, what, count, further, omitted);
	if (unlikely(columns->omitted > 0))
		steno_record_add_omitted(record, "columns_omitted", columns->omitted);
	record->shape = p;
	p = put_head(p, what, command_len);
	if (unlikely(what->written != NULL))
		return put_written(p, what, count, shown);
	if (shown > 0)
		return steno_relations_put(p, what->relations, count, shown);
	*p++ = 0;
	return p;
}

/*
 * Put the types of parameters into the shape, and their values into the record.
 * many: the types do not fit into the shape.  Returns the end of the shape; NULL if
 * there is no memory for the values.
 */
static inline uint8 *
put_params(StenoRecord *record, const StenoShape *what, bool many, uint8 *shape, StenoParams *values)
{
	MemoryContext old = MemoryContextSwitchTo(steno_private.scratch);
	uint8	   *end;

	if (likely(!many))
		end = steno_params_collect(what->params, what->failing, shape, values);
	else
		end = steno_params_collect_list(what->params, what->failing, shape, values);
	MemoryContextSwitchTo(old);
	if (end != NULL)
		record->params = values;
	else if (many)
		steno_record_add_omitted(record, "parameters_omitted", what->params->numParams);
	return end;
}

void
steno_encode_shape(StenoRecord *record, const StenoShape *what, StenoParams *values)
{
	bool		has_params = what->params && what->params->numParams > 0 && steno_logs_parameters();
	uint32		params_size = has_params ? steno_params_shape_size(what->params) : 0;
	bool		many = unlikely(params_size > STENO_SHAPE_LIMIT / 8 * 7);
	ColumnList	columns = {0};
	StenoShape	ordered;
	uint8	   *end = put_before_params(record, &what, &ordered, has_params, many ? STENO_LIST_SHAPE : params_size,
										&columns);
	uint8	   *after = NULL;

	if (end == NULL)
		return;
	if (has_params)
		after = put_params(record, what, many, end, values);
	if (after == NULL)
		after = steno_put_varint(end, 0);
	if (unlikely(what->objects != NULL))
		after = steno_objects_put(after, what->objects);
	else if (columns.size > 0 || what->query_command || what->prepared)
		*after++ = 0;			/* no objects */
	if (columns.size > 0)
		after = put_columns(after, what, &columns);
	if (unlikely(what->query_command != NULL))
		after = put_name_list(after, STENO_LIST_QUERY, what->query_command);
	/* the last one: is_kept_name in capture/query.c */
	if (unlikely(what->prepared != NULL))
		after = put_name_list(after, STENO_LIST_PREPARED, what->prepared);
	record->shape_len = after - record->shape;
}

/*
 * Find the objects of a shape: *from is where they begin, and *to is where what follows them
 * begins.  Both are the end of a shape without objects.  False if it is not a shape.
 */
bool
steno_shape_find_objects(const uint8 *shape, uint32 len, uint32 *from, uint32 *to)
{
	StenoBytes	in = {shape, len};
	StenoBytes	s;
	uint64_t	number;
	uint64_t	n;
	uint8_t		byte;

	if (!steno_take_shape_head(&in, &number, &number, &s, &n))
		return false;
	while (n-- > 0)
		if (!steno_take_relation(&in, &byte, &number, &s))
			return false;
	if (!steno_take_varint(&in, &n))
		return false;
	while (n-- > 0)
		if (!steno_take_param(&in, &number, &byte))
			return false;
	*from = in.p - shape;
	if (in.len > 0)
	{
		if (!steno_take_varint(&in, &n))
			return false;
		while (n-- > 0)
			if (!steno_take_object(&in, &byte, &s, &s, &s))
				return false;
	}
	*to = in.p - shape;
	return true;
}
