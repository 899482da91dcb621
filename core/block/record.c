/*
 * core/block/record.c
 *		Full records: a message is taken apart, its session, shape and text are interned, and the item
 *		follows, with their indexes and the values that differ from those that a reader expects.
 *
 * Records of statements that are executed repeatedly, and differ only in values and a part of the text, go into runs
 * instead (unprepared.c).
 */
#include "block/record.h"

_Static_assert(STENO_KIND_STATEMENT == 1 && STENO_KIND_START == 2,
			   "only statement and start records have a statement number");

static inline void
take_apart(StenoParsed *m, const StenoRecordMessage *r)
{
	const uint8_t *p = (const uint8_t *) (r + 1);

	m->r = r;
	m->parts = p;
	if (r->m.flags & STENO_MESSAGE_PARTS)
		p += sizeof(StenoParts);
	m->cut = p;
	if (r->m.flags & STENO_MESSAGE_CUT)
		p += sizeof(StenoCut);
	if (r->m.flags & STENO_MESSAGE_ENDING)
	{
		memcpy(&m->ending, p, sizeof(m->ending));
		p += sizeof(StenoEnding);
	}
	m->shape = p;
	p += r->shape_len;
	m->text = p;
	if (r->text_len != STENO_NONE32)
		p += r->text_len;
	m->nulls = p;
	p += r->nulls_len;
	m->values = p;
	p += r->values_len;
	m->message = p;
	p += r->message_len;
	m->extra = p;
	m->times = steno_message_times(&r->m);
}

/*
 * The fields that the record itself requires.  TIME, SEQ and STATEMENT depend on
 * the records before it.
 */
static inline uint32_t
record_mask(const StenoParsed *m)
{
	const StenoRecordMessage *r = m->r;
	uint32_t	mask = 0;

	if (r->shape_len > 0)
		mask |= STENO_FIELD_SHAPE;
	if (r->text_len != STENO_NONE32)
		mask |= STENO_FIELD_TEXT;
	if (r->rows != STENO_NONE64)
		mask |= STENO_FIELD_ROWS;
	if (r->duration != STENO_NONE64)
		mask |= STENO_FIELD_DURATION;
	if (r->nulls_len > 0)
		mask |= STENO_FIELD_NULLS;
	if (r->m.flags & STENO_MESSAGE_VALUES)
		mask |= STENO_FIELD_VALUES;
	if (r->depth != 0 || r->substatement != 0)
		mask |= STENO_FIELD_NESTING;
	if (r->outcome != STENO_OUTCOME_OK)
		mask |= STENO_FIELD_OUTCOME;
	if (r->sqlstate[0] != '\0')
		mask |= STENO_FIELD_ERROR;
	if (steno_message_xid(r) != 0)
		mask |= STENO_FIELD_XID;
	if (r->m.flags & STENO_MESSAGE_CUT)
		mask |= STENO_FIELD_CUT;
	if (r->m.flags & STENO_MESSAGE_PARTS)
		mask |= STENO_FIELD_PARTS;
	if (r->extra_count > 0)
		mask |= STENO_FIELD_EXTRA;
	if (r->audited != 0)
		mask |= STENO_FIELD_AUDITED;
	if (r->m.flags & STENO_MESSAGE_ENDING)
	{
		if (m->ending.event != 0)
			mask |= STENO_FIELD_EVENT;
		if (m->ending.statements != STENO_NONE64)
			mask |= STENO_FIELD_STATEMENTS;
		if (m->ending.lsn != 0)
			mask |= STENO_FIELD_COMMIT;
	}
	return mask;
}

/* Append the fields that few records have. */
static uint8_t *
append_rare_fields(StenoBlock *block, uint8_t *p, uint32_t mask, const StenoParsed *m)
{
	const StenoRecordMessage *r = m->r;

	if (mask & STENO_FIELD_NESTING)
	{
		p = steno_put_varint(p, r->depth);
		p = steno_put_varint(p, r->substatement);
	}
	if (mask & STENO_FIELD_OUTCOME)
		*p++ = r->outcome;
	if (mask & STENO_FIELD_ERROR)
	{
		p = append_bytes(p, (const uint8_t *) r->sqlstate, 5);
		p = append_string(p, m->message, r->message_len);
	}
	if (mask & STENO_FIELD_XID)
		p = steno_put_varint(p, steno_message_xid(r));
	if (mask & STENO_FIELD_CUT)
	{
		StenoCut	cut;

		memcpy(&cut, m->cut, sizeof(cut));
		p = steno_put_varint(p, cut.len);
		p = append_bytes(p, cut.hash, STENO_HASH_SIZE);
	}
	if (mask & STENO_FIELD_PARTS)
	{
		StenoParts	parts;
		int			i;

		memcpy(&parts, m->parts, sizeof(parts));
		for (i = 0; i < STENO_PARTS; i++)
			p = steno_put_varint(p, parts.bytes[i]);
	}
	if (mask & STENO_FIELD_EXTRA)
	{
		p = steno_put_varint(p, r->extra_count);
		p = append_bytes(p, m->extra, r->extra_len);
	}
	if (mask & STENO_FIELD_AUDITED)
		*p++ = r->audited;
	if (mask & STENO_FIELD_EVENT)
		*p++ = m->ending.event;
	if (mask & STENO_FIELD_STATEMENTS)
		p = steno_put_varint(p, m->ending.statements);
	if (mask & STENO_FIELD_COMMIT)
		p = put_commit(block, p, m->ending.lsn, m->ending.lsn_end, m->ending.timeline);
	return p;
}

/* Add a record as an item of its own.  remember: the next ones of its statement may have a form. */
static void
add_item(StenoBlock *block, uint32_t session, const StenoParsed *m, uint32_t mask, int64_t elapsed,
		 int64_t seq, int64_t statement, bool remember)
{
	const StenoRecordMessage *r = m->r;
	bool		first = block->records == 0;
	uint32_t	shape = 0;
	uint32_t	text = 0;
	uint32_t	time_at = 0;
	uint32_t	guess = 24 + r->nulls_len + r->values_len + r->message_len + r->extra_len;
	uint8_t    *p;
	int			moved;

	if (mask & STENO_FIELD_SHAPE)
		shape = steno_block_intern_shape(block, m->shape, r->shape_len);
	if (mask & STENO_FIELD_TEXT)
		text = steno_block_intern_text(block, m->text, r->text_len);
	if (remember)
		steno_block_remember_unprepared(block, session, m, shape, text);
	if (block->index &&
		(r->m.kind != STENO_KIND_STATEMENT || mask & (STENO_FIELD_OUTCOME | STENO_FIELD_ERROR | STENO_FIELD_CUT |
													  STENO_FIELD_PARTS | STENO_FIELD_EXTRA)))
		steno_index_record(block->index, r, m->message, m->extra);
	if (first || elapsed != 0)
		mask |= STENO_FIELD_TIME;
	if (seq != 0)
		mask |= STENO_FIELD_SEQ;
	if (statement != 0)
		mask |= STENO_FIELD_STATEMENT;

	p = begin_item(block, (uint8_t) r->m.kind, guess);
	p = steno_put_varint(p, session);
	p = steno_put_varint(p, mask);
	if (mask & STENO_FIELD_SHAPE)
		p = steno_put_varint(p, shape);
	if (mask & STENO_FIELD_TEXT)
		p = steno_put_varint(p, text);
	if (mask & STENO_FIELD_ROWS)
		p = steno_put_varint(p, r->rows);
	if (first)
	{
		time_at = (uint32_t) (p - block->payload);
		p += STENO_PADDED_TIME;
	}
	else if (mask & STENO_FIELD_TIME)
		p = steno_put_varint(p, steno_zigzag(elapsed));
	if (mask & STENO_FIELD_DURATION)
		p = steno_put_varint(p, r->duration);
	if (mask & STENO_FIELD_NULLS)
		p = append_bytes(p, m->nulls, r->nulls_len);
	if (mask & STENO_FIELD_VALUES)
		p = append_string(p, m->values, r->values_len);
	if (mask & STENO_FIELD_SEQ)
		p = steno_put_varint(p, steno_zigzag(seq));
	if (mask & STENO_FIELD_STATEMENT)
		p = steno_put_varint(p, steno_zigzag(statement));
	if (mask >= STENO_FIELD_NESTING)
		p = append_rare_fields(block, p, mask, m);
	if (mask & STENO_FIELD_XID)
		block->expected[session].xid = steno_message_xid(r);
	moved = end_item(block, guess, p);
	if (first)
		block->first_record_at = (uint32_t) ((int) time_at + moved);
}

/* Add what the next record says apart of the time that its statement took. */
static void
add_times(StenoBlock *block, const StenoTimes *times)
{
	const uint64_t values[] = {times->analysis, times->plan, times->commit, times->elapsed};
	const uint64_t absent[] = {0, 0, 0, STENO_NONE64};
	uint32_t	guess = 2 + sizeof(*times);
	uint8_t    *p = begin_item(block, STENO_KIND_TIMES, guess);
	uint8_t    *mask = p++;
	int			i;

	*mask = 0;
	for (i = 0; i < 4; i++)
		if (values[i] != absent[i])
		{
			*mask |= (uint8_t) (1 << i);
			p = steno_put_varint(p, values[i]);
		}
	end_item(block, guess, p);
}

void
steno_block_add_record(StenoBlock *block, StenoSource *source, const StenoRecordMessage *r)
{
	StenoParsed		m;
	uint32_t	session = session_index(block, source);
	StenoExpected   *e = &block->expected[session];
	int64_t		elapsed = elapsed_since(block, r->time);
	uint32_t	mask;
	int64_t		seq;
	int64_t		statement = 0;
	bool		may;

	take_apart(&m, r);
	mask = record_mask(&m);
	seq = advance_seq(e, r->seq);
	if (r->m.kind <= STENO_KIND_START)
		statement = advance_statement(e, r->statement, r->m.kind == STENO_KIND_STATEMENT && r->depth == 0);
	may = !(r->m.flags & STENO_MESSAGE_TIMES) && may_have_form(block, r, mask, seq, statement);
	if (r->m.flags & STENO_MESSAGE_TIMES)
		add_times(block, &m.times);
	if (!may || !steno_block_add_unprepared(block, session, &m, mask, elapsed))
		add_item(block, session, &m, mask, elapsed, seq, statement, may);

	widen_time_range(block, r->time, r->m.kind != STENO_KIND_STATEMENT ? r->time :
					 end_time(r->time, m.times.elapsed != STENO_NONE64 ? m.times.elapsed : r->duration));
	/* continue with the numbers expected for this definition, which may not be the source's */
	if (r->seq != 0)
		source->seq = e->seq;
	if (r->m.kind <= STENO_KIND_START)
		source->statement = e->statement;
}
