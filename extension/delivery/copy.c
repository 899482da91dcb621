/*
 * extension/delivery/copy.c
 *		Private copies of records: what is known of a query before it ends.
 *
 * An open query's record is in the ring, staged, or is made when the query ends.
 * Neither works for one that is suspended while other statements use the ring,
 * and whose plan, parameters and text the server may free without a word to the
 * executor: when its portal fails, or its transaction is rolled back.  Such a
 * query has a copy, which lacks the numbers of its end only (open_query.c says
 * when one is made).
 *
 * A copy is one chunk of memory.  The last one that was released is kept, so that
 * a loop of cursors takes memory once.
 */
#include "delivery/record.h"

#include "utils/memutils.h"

#include "describe/shape.h"
#include "delivery/encode.h"

/*
 * One chunk, in a context of its own that no transaction resets: it is its statement's from
 * steno_copy_record until steno_copy_release, which the end of the statement calls on each
 * way, failures and aborts included (steno_forget_open).
 */
struct StenoCopy
{
	Size		room;			/* of bytes */
	StenoRecord record;			/* points into bytes */
	StenoParams params;
	StenoParam	values;			/* all values, as they are encoded */
	uint8		bytes[FLEXIBLE_ARRAY_MEMBER];
};

/* Room of a copy of the usual size, which is kept. */
#define USUAL_ROOM 4096

static MemoryContext context;
static StenoCopy *spare;

static StenoCopy *
new_copy(Size len)
{
	StenoCopy  *c = spare;
	Size		room = Max(len, USUAL_ROOM);

	if (c && len <= c->room)
	{
		spare = NULL;
		return c;
	}
	c = MemoryContextAllocExtended(context, offsetof(StenoCopy, bytes) + room,
								   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (c)
		c->room = room;
	return c;
}

void
steno_copy_release(StenoCopy **mine)
{
	StenoCopy  *c = *mine;

	*mine = NULL;
	if (c == NULL)
		return;
	if (spare == NULL && c->room == USUAL_ROOM)
		spare = c;
	else
		pfree(c);
}

/* Move a string of the record to p. */
static uint8 *
move(uint8 *p, const void **bytes, Size len)
{
	if (*bytes == NULL)
		return p;
	memcpy(p, *bytes, len);
	*bytes = p;
	return p + len;
}

/* A copy of a record, which has no message yet; NULL: memory is short. */
StenoCopy *
steno_copy_record(const StenoRecord *record)
{
	const StenoParams *params = record->params;
	Size		params_len = params ? params->nulls_len + params->values_len : 0;
	StenoCopy  *c = new_copy(record->shape_len + (record->text ? record->text_len : 0) +
							 params_len + record->extra_len + record->further_len);
	StenoRecord *r;
	uint8	   *p;

	if (c == NULL)
		return NULL;
	r = &c->record;
	*r = *record;
	p = move(c->bytes, (const void **) &r->shape, r->shape_len);
	p = move(p, (const void **) &r->text, r->text_len);
	p = move(p, (const void **) &r->extra, r->extra_len);
	p = move(p, (const void **) &r->further, r->further_len);
	if (params)
	{
		c->params.count = 1;
		c->params.nulls_len = params->nulls_len;
		c->params.values_len = params->values_len;
		c->params.shape_len = params->shape_len;
		c->params.nulls = p;
		c->params.values = &c->values;
		c->values.data = p + params->nulls_len;
		c->values.len = (uint32) params->values_len;
		c->values.prefixed = false;
		r->params = &c->params;
		(void) steno_put_params(p, params, true);
	}
	return c;
}

/* A copy of a staged record, which is whole, not brief. */
StenoCopy *
steno_copy_message(const StenoRecordMessage *m)
{
	const uint8 *p = (const uint8 *) (m + 1);
	StenoParam	values;
	StenoParams params;
	StenoRecord record;

	steno_record_init(&record, m->m.kind);
	record.time = m->time;
	record.duration = m->duration;
	record.rows = m->rows;
	record.xid = steno_message_xid(m);
	record.statement = m->statement;
	record.substatement = m->substatement;
	record.depth = m->depth;
	record.audited = m->audited;
	record.extra_count = m->extra_count;
	record.shape = p;
	record.shape_len = m->shape_len;
	p += m->shape_len;
	if (m->text_len != STENO_NONE32)
	{
		record.text = (const char *) p;
		record.text_len = m->text_len;
		p += m->text_len;
	}
	if (m->m.flags & STENO_MESSAGE_VALUES)
	{
		params.count = 1;
		params.nulls_len = m->nulls_len;
		params.values_len = m->values_len;
		params.shape_len = 0;	/* it is in the shape */
		params.nulls = p;
		params.values = &values;
		values.data = p + m->nulls_len;
		values.len = m->values_len;
		values.prefixed = false;
		record.params = &params;
	}
	p += m->nulls_len + m->values_len;
	if (m->extra_len > 0)
		record.extra = p;
	record.extra_len = m->extra_len;
	return steno_copy_record(&record);
}

/*
 * Put the objects that there are at the end of the statement into the shape, instead of those that
 * it has, which were there when it was made.
 */
static void
replace_objects(StenoRecord *record, StenoObjects *objects)
{
	uint32		limit = STENO_SHAPE_LIMIT;
	uint32		from;
	uint32		to;
	uint32		others;
	int			further;
	int			omitted;
	uint32		size;
	uint8	   *shape;
	uint8	   *p;

	if (!steno_shape_find_objects(record->shape, record->shape_len, &from, &to))
		return;
	others = record->shape_len - (to - from);
	size = steno_objects_size(objects, limit > others ? limit - others : 0, &further, &omitted);
	shape = steno_scratch(others + size);
	if (shape == NULL)
		return;
	memcpy(shape, record->shape, from);
	p = steno_objects_put(shape + from, objects);
	memcpy(p, record->shape + to, record->shape_len - to);
	record->shape_len = p - shape + record->shape_len - to;
	record->shape = shape;
	if (further > 0 && !steno_record_put_further(record, NULL, 0, 0, objects))
		omitted += further;
	if (omitted > 0)
		steno_record_add_omitted(record, "objects_omitted", omitted);
}

/* The record that was copied, which points into the copy and into scratch memory. */
void
steno_copy_read(const StenoCopy *c, StenoObjects *objects, StenoRecord *record)
{
	*record = c->record;
	if (objects)
		replace_objects(record, objects);
}

void
steno_copy_install(void)
{
	context = AllocSetContextCreate(TopMemoryContext, "pg_steno copies",
									ALLOCSET_DEFAULT_SIZES);
}
