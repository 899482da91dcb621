/*
 * extension/delivery/staged.c
 *		The staged record: that of a client's statement, written at the head of the ring when
 *		the statement starts, and published when it has ended.
 *
 * The in-flight entry of the ring points to it, so that a writer, and recovery after a
 * kill, find what runs.  There is one at most (steno_my.staged).  Whatever else needs the
 * ring meanwhile takes its place (steno_unstage): the statement's query gets a copy, and
 * the record is put at its end.  That of a prepared statement is brief: what is the same
 * each time is in a template of the ring.
 *
 * Nothing here waits, raises an error or takes a lock.
 */
#include "delivery/record.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "base/duration.h"
#include "delivery/encode.h"
#include "delivery/template.h"
#include "policy/policy.h"
#include "similar.h"

/* Room for it; NULL: it is too big, finds none, or must not be staged. */
static pg_attribute_always_inline void *
reserve_staged(uint64 total)
{
	StenoLocal *my = &steno_my;

	if (unlikely(!steno_is_described() || my->dropped > 0 || my->staged ||
				 total > my->producer.max_message))
		return NULL;
	return steno_ring_reserve(&my->producer, (uint32) total);
}

/* The same for a record that is not brief, also for the times that its end may append. */
static pg_attribute_always_inline StenoRecordMessage *
reserve_whole(uint64 total)
{
	StenoRecordMessage *m = reserve_staged(total + sizeof(StenoTimes));

	if (likely(m != NULL))
		m->m.len -= sizeof(StenoTimes);
	return m;
}

/* It is whole: show it in the in-flight entry. */
static pg_attribute_always_inline void
stage_message(StenoMessage *m, uint64 statement, TimestampTz time)
{
	StenoLocal *my = &steno_my;

	my->inflight_version =
		steno_inflight_stage(&my->producer.ring->inflight, my->inflight_version,
							 statement, time, my->producer.head);
	my->staged = m;
}

/* A record at the head of the ring, with room for so many bytes of values that are not there yet; NULL as before. */
static pg_attribute_always_inline StenoRecordMessage *
encode_staged(const StenoRecord *record, uint32 values_len)
{
	StenoRecordMessage *m = record->further_len > 0 ? NULL : reserve_whole(steno_record_size(record) + values_len);

	if (likely(m != NULL))
		steno_record_encode(m, record, 0, NULL, NULL);
	return m;
}

/*
 * At the start of a statement: write its record at the head of the ring, without
 * publishing it, and show it in the in-flight entry.  What is known at the end
 * only is filled in then.  False when it must be done the other way: what is
 * too big, or finds no room, waits at the end if it has to.
 */
bool
steno_stage_record(const StenoRecord *record)
{
	StenoRecordMessage *m = encode_staged(record, 0);

	if (unlikely(m == NULL))
		return false;
	stage_message(&m->m, record->statement, record->time);
	steno_record_reset_scratch();
	return true;
}

/*
 * The record of a usual query: a client's, with its shape at hand and its text as it is.  No such
 * struct is made: the compiler puts its members where they are used.
 */
static pg_attribute_always_inline StenoRecord
usual_record(const StenoStatement *s, const uint8 *shape, uint32 shape_len, const StenoParams *params, uint8 audited)
{
	const StenoRecord record = {
		.kind = STENO_KIND_STATEMENT, .time = s->time, .duration = STENO_NONE64, .rows = STENO_NONE64,
		.statement = s->statement, .outcome = STENO_OUTCOME_OK, .audited = audited, .shape = shape,
		.shape_len = shape_len, .text = s->text, .text_len = s->text_len, .params = params
	};

	/* a query has a text, which spares the encoder its tests */
	if (s->text == NULL)
		pg_unreachable();
	return record;
}

/* The same for the usual query. */
STENO_HOT bool
steno_stage_query(const StenoStatement *s, const uint8 *shape, uint32 shape_len,
						 const StenoParams *params)
{
	const StenoRecord record = usual_record(s, shape, shape_len, params, steno_audit_reason(s->class, 0));
	StenoRecordMessage *m = encode_staged(&record, 0);

	if (unlikely(m == NULL))
		return false;
	stage_message(&m->m, s->statement, s->time);
	steno_record_reset_scratch();
	return true;
}

/*
 * Have brief records of a prepared statement from now on, if no record in the ring
 * needs the template that they will refer to.
 */
STENO_COLD static void
define_template(const StenoStatement *s, StenoPrepared *prepared)
{
	int			i = prepared - steno_my.prepared;
	const StenoKept *k = &steno_my.kept[prepared->kept];
	const StenoTemplateParts parts = {
		.shape = steno_kept_shape(k), .shape_len = k->len, .text = s->text, .text_len = s->text_len
	};

	if (prepared->brief == STENO_BRIEF_NEVER)
		return;
	if (!steno_template_fits(&parts))
	{
		prepared->brief = STENO_BRIEF_NEVER;
		return;
	}
	if (!steno_template_is_free(i))
		return;
	steno_template_define(i, &parts);
	prepared->version = steno_my.producer.templates[i].version;
	prepared->brief = STENO_BRIEF_YES;
}

/*
 * Room for a brief record, with all but its values and version; NULL: it must be done the
 * other way.  There is also room behind it for what end_brief may append.
 */
static pg_attribute_always_inline StenoBriefMessage *
begin_brief(const StenoStatement *s, uint8 template, uint8 values_len, bool values)
{
	uint32		len = steno_brief_len(values_len);
	StenoBriefMessage *b = reserve_staged(len + STENO_BRIEF_MORE);

	if (unlikely(b == NULL))
		return NULL;
	b->m.len = len;
	steno_brief_encode(b, values ? STENO_MESSAGE_VALUES : 0, s->time, template, values_len);
	return b;
}

/* Whether a text is that of a template, or one that its records can have. */
static pg_attribute_always_inline bool
is_text_of(const StenoTemplate *t, const char *text, uint64 len)
{
	const uint8 *common = t->bytes + t->shape_len;
	uint64		before = steno_template_varies(t) ? t->own_at - 1 : t->text_len;
	uint64		after = t->text_len - before;

	return (steno_template_varies(t) ? len >= t->text_len : len == t->text_len) &&
		steno_is_same(text, common, before) &&
		steno_is_same(text + len - after, common + before, after);
}

/*
 * Stage the record of a query as a brief one, if its shape, k, has a template for its text.  The query has
 * the same types of parameters as the shape.
 */
STENO_HOT bool
steno_stage_repeated(const StenoStatement *s, StenoKept *k, const StenoParams *params)
{
	const StenoTemplate *t = &steno_my.producer.templates[k->template];
	uint64		values_len = params ? params->values_len : 0;
	uint64		own;
	StenoBriefMessage *b;
	uint8	   *p;

	if (unlikely(steno_audit_reason(s->class, 0) != 0 || values_len > PG_UINT8_MAX ||
				 (params && params->nulls_len > 0)))
		return false;
	if (unlikely(k->template == 0 || !is_text_of(t, s->text, s->text_len)))
	{
		steno_template_adapt(s, k);
		return false;
	}
	own = s->text_len - t->text_len;
	if (steno_template_varies(t))
		values_len += own + 1;
	if (unlikely(values_len > PG_UINT8_MAX))
		return false;
	b = begin_brief(s, k->template, (uint8) values_len, params != NULL);
	if (unlikely(b == NULL))
		return false;
	b->version = t->version;
	p = b->values;
	if (steno_template_varies(t))
	{
		*p++ = (uint8) own;
		steno_copy_short(p, s->text + (t->own_at - 1), own);
		p += own;
	}
	if (params)
		(void) steno_put_params(p, params, true);
	steno_template_use(k->template);
	stage_message(&b->m, s->statement, s->time);
	steno_record_reset_scratch();
	return true;
}

/* The same for BEGIN or COMMIT, whose shape is known by its number; its text is at most UINT8_MAX long. */
STENO_HOT bool
steno_stage_control(const StenoStatement *s, uint8 control)
{
	StenoBriefMessage *b = begin_brief(s, control, (uint8) s->text_len, false);

	if (unlikely(b == NULL))
		return false;
	b->version = 0;
	steno_copy_short(b->values, s->text, s->text_len);
	stage_message(&b->m, s->statement, s->time);
	return true;
}

/* The same for one whose template is to come, whole: where its values go. */
STENO_COLD static StenoRecordMessage *
begin_whole(const StenoStatement *s, const StenoPrepared *prepared, uint8 **values)
{
	const StenoKept *k = &steno_my.kept[prepared->kept];
	const StenoRecord record = usual_record(s, steno_kept_shape(k), k->len, NULL, 0);
	StenoRecordMessage *m = encode_staged(&record, prepared->values_len);

	if (m == NULL)
		return NULL;
	if (prepared->count > 0)
		m->m.flags |= STENO_MESSAGE_VALUES;
	m->values_len = prepared->values_len;
	*values = (uint8 *) (m + 1) + k->len + s->text_len;
	return m;
}

/*
 * And for one that is prepared, whose parameters are of the widths that its plan
 * says.  False, too, when one of them is NULL.
 */
STENO_HOT bool
steno_stage_prepared(const StenoStatement *s, StenoPrepared *prepared, ParamListInfo params)
{
	uint32		widths = prepared->widths;
	int			count = prepared->count;
	StenoMessage *m;
	uint8	   *p;
	int			i;

	for (i = 0; i < count; i++)
		if (unlikely(params->params[i].isnull))
			return false;
	if (unlikely(prepared->brief != STENO_BRIEF_YES))
		define_template(s, prepared);
	if (likely(prepared->brief == STENO_BRIEF_YES))
	{
		StenoBriefMessage *b = begin_brief(s, prepared - steno_my.prepared, prepared->values_len, count > 0);

		if (likely(b != NULL))
			b->version = prepared->version;
		m = (StenoMessage *) b;
		p = b ? b->values : NULL;
	}
	else
		m = (StenoMessage *) begin_whole(s, prepared, &p);
	if (unlikely(m == NULL))
		return false;
	for (i = 0; i < count; i++, widths >>= 2)
	{
		/* a datum by value is a number of the whole word */
		uint64		value = params->params[i].value;

		if (likely((widths & 3) == 2))
			memcpy(p, &value, 4);
		else if ((widths & 3) == 3)
			memcpy(p, &value, 8);
		else
		{
			p[0] = (uint8) value;
			if (widths & 3)
				p[1] = (uint8) (value >> 8);
		}
		p += 1 << (widths & 3);
	}
	Assert(p <= (uint8 *) m + m->len);
	stage_message(m, s->statement, s->time);
	return true;
}

/* The staged record, which may be brief, in its full form. */
static const StenoRecordMessage *
staged_whole(StenoWhole *room)
{
	const StenoProducer *p = &steno_my.producer;

	return steno_message_whole(steno_my.staged, p->templates, 0, p->ring->inflight.statement, room);
}

/* Put the beginning of the statement's text into the in-flight entry, without a character that is cut. */
void
steno_inflight_text(uint64 statement, int64 time, const char *text, uint32 len)
{
	uint32		kept = len;

	if (unlikely(len > STENO_INFLIGHT_TEXT))
		kept = pg_mbcliplen(text, (int) Min(len, (uint32) PG_INT32_MAX), STENO_INFLIGHT_TEXT);
	steno_my.inflight_version =
		steno_inflight_begin_cut(&steno_my.producer.ring->inflight, steno_my.inflight_version,
								 statement, time, text, len, kept);
}

/*
 * Something else needs the ring: the staged record is given up.  Its query keeps a
 * copy, and the in-flight entry gets the beginning of the text.  A portal that waits for its client
 * still does.
 */
STENO_COLD void
steno_unstage(void)
{
	StenoLocal *my = &steno_my;
	StenoWhole	room;
	const StenoRecordMessage *m = staged_whole(&room);
	const char *text = (const char *) (m + 1) + m->shape_len;
	StenoInFlight *f = &my->producer.ring->inflight;
	bool		waits = f->active >= STENO_INFLIGHT_WAITS;
	int			i;

	my->staged = NULL;
	/* the next one that is staged is another query's */
	for (i = 0; i < my->open_count; i++)
	{
		StenoStatement *s = &my->open[i];

		if (s->state != STENO_STAGED && s->state != STENO_COMMITS_STAGED)
			continue;
		s->copy = steno_copy_message(m);
		if (s->state == STENO_STAGED)
			s->state = s->copy ? STENO_COPIED : STENO_NOT_MADE;
		else
			s->state = s->copy ? STENO_COMMITS_COPIED : STENO_COMMITS_LOST;
	}
	if (my->top_utility.state == STENO_STAGED)
		my->top_utility.state = STENO_NOT_MADE;
	steno_inflight_text(m->statement, m->time, text, m->text_len == STENO_NONE32 ? 0 : m->text_len);
	if (waits)
		steno_inflight_wait(f, false);
	/* the next message overwrites the record: recovery must then see that it is staged no more */
	atomic_thread_fence(memory_order_release);
}

/* A word of a message, whatever its fields there are. */
typedef uint64 __attribute__((may_alias)) StenoWord;

/* What a message's first word grows by when bytes are appended to it that a flag announces; the flag is not set yet. */
static inline StenoWord
appended(uint32 len, uint16 flag)
{
	const StenoMessage m = {.len = len, .flags = flag};
	StenoWord	word;

	memcpy(&word, &m, sizeof(word));
	return word;
}

/*
 * The end of a brief record has numbers that the record does not imply, or has no space for:
 * append them.
 */
STENO_COLD static StenoWord
append_numbers(uint8 *end, uint64 duration, uint64 rows)
{
	StenoBriefNumbers n = {steno_my.producer.ring->inflight.statement, duration, rows};

	memcpy(end, &n, sizeof(n));
	return appended(sizeof(n), STENO_MESSAGE_NUMBERS);
}

/*
 * The statement of a brief record has ended.  Length and flags change in one store, after what
 * they announce: a writer that copies the record meanwhile finds it whole, and so does recovery.
 */
static pg_attribute_always_inline void
end_brief(StenoBriefMessage *b, uint64 duration, uint64 rows, uint64 xid)
{
	StenoWord	more = 0;
	uint8	   *end = (uint8 *) b + b->m.len;

	b->duration = (uint32) duration;
	b->rows = (uint32) rows;
	if (xid != 0)
	{
		memcpy(end, &xid, sizeof(xid));
		end += sizeof(xid);
		more = appended(sizeof(xid), STENO_MESSAGE_XID);
	}
	/* STENO_NONE64 becomes STENO_NONE32 */
	if (unlikely((((duration + 1) | (rows + 1)) >> 32) != 0 ||
				 steno_my.producer.ring->inflight.statement != steno_my.ring_statement + 1))
		more += append_numbers(end, duration, rows);
	if (more != 0)
		__atomic_store_n((StenoWord *) b, *(StenoWord *) b + more, __ATOMIC_RELEASE);
}

static pg_attribute_always_inline void
set_end(StenoMessage *staged, uint64 duration, uint64 rows, uint64 xid)
{
	StenoRecordMessage *m = (StenoRecordMessage *) staged;

	if (staged->flags & STENO_MESSAGE_BRIEF)
	{
		end_brief((StenoBriefMessage *) staged, duration, rows, xid);
		return;
	}
	m->duration = duration;
	m->rows = rows;
	m->xid = (uint32) xid;
	m->xid_epoch = (uint32) (xid >> 32);
}

/* Publish the staged record, which has its numbers. */
static pg_attribute_always_inline void
publish_staged(void)
{
	StenoLocal *my = &steno_my;
	StenoMessage *m = my->staged;

	my->staged = NULL;
	my->seq++;
	if (m->flags & STENO_MESSAGE_BRIEF)
		my->ring_statement = my->producer.ring->inflight.statement;
	else
	{
		StenoRecordMessage *r = (StenoRecordMessage *) m;

		r->seq = my->seq;
		/* as steno_message_advance, which GCC calls, in a page that nothing else here needs */
		my->ring_statement = likely(r->depth == 0) ? r->statement : r->statement - 1;
	}
	steno_publish_message(m, true);
	steno_inflight_end(&my->producer.ring->inflight);
	steno_record_wake_writer();
}

STENO_HOT void
steno_staged_publish(void)
{
	publish_staged();
}

/* Let the record end with times; those that it has already are replaced. */
STENO_COLD static void
put_times(StenoMessage *m, const StenoTimes *times)
{
	if (m->flags & STENO_MESSAGE_TIMES)
	{
		memcpy((uint8 *) m + m->len - sizeof(*times), times, sizeof(*times));
		return;
	}
	memcpy((uint8 *) m + m->len, times, sizeof(*times));
	/* as in end_brief */
	__atomic_store_n((StenoWord *) m, *(StenoWord *) m + appended(sizeof(*times), STENO_MESSAGE_TIMES),
					 __ATOMIC_RELEASE);
}

/* What is told apart of the statement's duration, if anything. */
STENO_COLD static void
put_times_of(const StenoStatement *s, uint64 duration)
{
	StenoTimes	times;

	if (steno_times_of(s, duration, &times))
		put_times(steno_my.staged, &times);
}

/* The statement of the staged record has ended: its numbers. */
static pg_attribute_always_inline void
end_staged(const StenoStatement *s, uint64 rows, uint64 xid)
{
	uint64		duration = steno_duration(s);

	set_end(steno_my.staged, duration, rows, xid);
	if (unlikely(steno_may_have_times(s)))
		put_times_of(s, duration);
}

STENO_HOT void
steno_staged_end(const StenoStatement *s, uint64 rows, uint64 xid)
{
	end_staged(s, rows, xid);
}

/* Publish the staged record. */
STENO_HOT void
steno_staged_finish(const StenoStatement *s, uint64 rows, uint64 xid)
{
	end_staged(s, rows, xid);
	publish_staged();
}

/* Publish the staged record, which has its numbers, of a statement whose commit took some time. */
STENO_COLD void
steno_staged_commit(const StenoStatement *s)
{
	StenoTimes	times = steno_message_times(steno_my.staged);

	times.commit = s->commit;
	put_times(steno_my.staged, &times);
	publish_staged();
}

/*
 * The portal of the staged record's query waits for its client, or will be run: the query does not run.
 * Should the process die now, the record says what it has delivered.
 */
STENO_COLD void
steno_staged_wait(const StenoStatement *s, uint64 rows)
{
	StenoMessage *m = steno_my.staged;
	uint64		duration = steno_duration(s);

	if (!(m->flags & STENO_MESSAGE_BRIEF))
	{
		((StenoRecordMessage *) m)->duration = duration;
		((StenoRecordMessage *) m)->rows = rows;
	}
	else if ((((duration + 1) | (rows + 1)) >> 32) == 0)
	{
		((StenoBriefMessage *) m)->duration = (uint32) duration;
		((StenoBriefMessage *) m)->rows = (uint32) rows;
	}
	else
	{
		steno_inflight_wait(&steno_my.producer.ring->inflight, false);
		return;
	}
	steno_inflight_wait(&steno_my.producer.ring->inflight, true);
}

/*
 * Publish the staged record as that of a statement that has failed.  False when
 * there is no room behind it for the message, or no error: then it is still staged.
 */
STENO_COLD bool
steno_staged_fail(const StenoStatement *s, uint64 rows, uint64 xid, int sqlerrcode, const char *message)
{
	StenoLocal *my = &steno_my;
	StenoProducer *p = &my->producer;
	StenoRecordMessage *m = (StenoRecordMessage *) my->staged;
	StenoWhole	room;
	const StenoRecordMessage *whole = staged_whole(&room);
	uint64		body = sizeof(StenoRecordMessage) + whole->shape_len +
	(whole->text_len == STENO_NONE32 ? 0 : whole->text_len) + whole->nulls_len + whole->values_len;
	uint64		total = (body + strlen(message) + 7) & ~UINT64CONST(7);
	uint64		most = total + sizeof(StenoTimes);

	if (sqlerrcode == 0 || whole->extra_len > 0 || most > p->max_message ||
		(uint8 *) m + most > p->data + p->size ||
		p->head + most - atomic_load_explicit(&p->ring->tail, memory_order_acquire) > p->limit)
		return false;
	if (whole != m)
	{
		/* recovery must not take it for staged while it changes */
		steno_unstage();
		memcpy(m, whole, body);
		my->staged = &m->m;
	}
	m->m.flags &= ~STENO_MESSAGE_TIMES;
	m->m.len = (uint32) total;
	memcpy((uint8 *) m + body, message, strlen(message));
	/* should we die here, recovery reads the record as it is: bytes before their length */
	atomic_thread_fence(memory_order_release);
	m->message_len = strlen(message);
	m->outcome = STENO_OUTCOME_ERROR;
	memcpy(m->sqlstate, unpack_sql_state(sqlerrcode), 6);
	steno_staged_finish(s, rows, xid);
	return true;
}
