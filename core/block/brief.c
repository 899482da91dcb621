/*
 * core/block/brief.c
 *		Brief records, whose shape and text are in a template of their ring, or follow from a number.
 *
 * The block remembers for each template of a source where it has shape and text, and which form its records
 * have (StenoFormPlace): most of them are added to a run by comparing a few numbers (steno_block_add_brief).
 */
#include "block/record.h"

/* How far ahead of a message in a ring to prefetch, in bytes. */
#define AHEAD 512

/* The index of the text of a brief record that has this template. */
static uint32_t
intern_brief_text(StenoBlock *block, const StenoBriefMessage *b, const StenoTemplate *t)
{
	StenoBriefValues v = steno_brief_values(b, steno_template_varies(t));
	uint8_t		text[STENO_TEMPLATE_ROOM + UINT8_MAX];

	return steno_block_intern_text(block, text, (uint32_t) (steno_brief_text(t, &v, text) - text));
}

/*
 * Where the block has a brief record's shape and text.  NULL if the ring does not
 * have the template that the record refers to.  If the texts of the template vary, the text is that
 * of the first record that refers to it.
 */
static inline StenoFormPlace *
template_place(StenoBlock *block, StenoSource *source, const StenoBriefMessage *b)
{
	const StenoTemplate *t;
	StenoFormPlace *k;
	uint32_t	shape;

	if (b->template >= STENO_TEMPLATES)
		return NULL;
	k = &source->places[b->template];
	if (k->generation == block->generation && k->version == b->version)
		return !k->varies || steno_brief_has_text(b) ? k : NULL;
	t = steno_brief_template(b, source->templates);
	if (t == NULL)
		return NULL;
	shape = steno_block_intern_shape(block, t->bytes, t->shape_len);
	begin_place(k, block->generation, shape, intern_brief_text(block, b, t));
	k->version = b->version;
	k->varies = steno_template_varies(t);
	if (k->varies)
	{
		k->before = t->own_at - 1u;
		k->after = t->text_len - k->before;
	}
	return k;
}

/* The text of BEGIN or COMMIT as a number, if it is short, as it is in most records; else 0. */
static inline uint64_t
control_text(const StenoBriefMessage *b)
{
	uint32_t	first;
	uint32_t	rest = 0;
	uint64_t	text;

	if (b->values_len == 0 || b->values_len > sizeof(text))
		return 0;
	/* the message has as many bytes: its length is a multiple of 8 */
	memcpy(&first, b->values, sizeof(first));
	if (b->values_len > sizeof(first))
		memcpy(&rest, b->values + sizeof(first), sizeof(rest));
	text = (uint64_t) rest << 32 | first;
	return text & (UINT64_MAX >> (64 - 8 * b->values_len));
}
_Static_assert((STENO_BRIEF_FIXED + 4) % 8 == 0, "four bytes of values are in any message");

static inline StenoFormPlace *
place_of_control(StenoSource *source, const StenoBriefMessage *b)
{
	return &source->places[STENO_TEMPLATES + b->template - STENO_BRIEF_BEGIN];
}

/* The same for BEGIN and COMMIT, whose text is in the record. */
static inline StenoFormPlace *
control_place(StenoBlock *block, StenoSource *source, const StenoBriefMessage *b)
{
	StenoFormPlace *k = place_of_control(source, b);
	uint64_t	control = control_text(b);
	uint32_t	text;
	uint8_t		shape[STENO_CONTROL_SHAPE];

	if (k->generation == block->generation && control != 0 && k->control == control)
		return k;
	text = steno_block_intern_text(block, b->values, b->values_len);
	if (k->generation != block->generation || k->text != text)
		begin_place(k, block->generation,
					steno_block_intern_shape(block, shape, steno_control_shape(b->template, shape)), text);
	k->control = control;
	return k;
}

/* Whether a reader that keeps the texts of the block apart has room for that of a record in a run. */
static inline bool
has_room_for_text(const StenoBlock *block, const StenoFormPlace *k, const StenoBriefValues *v)
{
	return !k->varies || k->before + v->text_len + k->after <= STENO_VARIANTS_MAX - block->variants_bytes;
}

/* A brief record in a run defines a text. */
static void
add_own_text(StenoBlock *block, const StenoSource *source, const StenoBriefMessage *b, const StenoFormPlace *k,
			 const StenoBriefValues *v, StenoRunRecord *own)
{
	const StenoTemplate *t = &source->templates[b->template];
	const uint8_t *after = t->bytes + t->shape_len + k->before;
	uint32_t	edge = k->before < 2 ? k->before : 2;
	uint8_t		text[2 + UINT8_MAX + 2];
	uint8_t    *p;

	own->text = v->text;
	own->text_len = v->text_len;
	block->texts.defined++;
	block->variants_bytes += k->before + v->text_len + k->after;
	if (block->index == NULL)
		return;
	/* the trigrams that the text of the form does not have, as in steno_block_index_variant */
	p = append_bytes(text, after - edge, edge);
	p = append_bytes(p, v->text, v->text_len);
	p = append_bytes(p, after, k->after < 2 ? k->after : 2);
	steno_index_text(block->index, text, (uint32_t) (p - text));
}

/* The fields of a brief record with these numbers. */
static inline uint32_t
brief_mask(const StenoBriefMessage *b, uint64_t rows, uint64_t duration, uint64_t xid)
{
	return STENO_FIELD_SHAPE | STENO_FIELD_TEXT | STENO_FIELD_TIME |
		(rows != STENO_NONE64 ? STENO_FIELD_ROWS : 0) |
		(duration != STENO_NONE64 ? STENO_FIELD_DURATION : 0) |
		(b->m.flags & STENO_MESSAGE_VALUES ? STENO_FIELD_VALUES : 0) |
		(xid != 0 ? STENO_FIELD_XID : 0);
}

void
steno_block_add_one_brief(StenoBlock *block, StenoSource *source, const StenoBriefMessage *b)
{
	StenoFormPlace *k = NULL;
	uint32_t	mask;
	int64_t		elapsed = elapsed_since(block, b->time);
	uint32_t	session;
	int64_t		seq;
	int64_t		statement;
	StenoBriefNumbers n = steno_brief_numbers(b, source->statement + 1);
	uint64_t	xid = steno_brief_xid(b);
	StenoBriefValues v;
	bool		first;
	StenoExpected   *e;

	if (block->records > 0 && !(b->m.flags & (STENO_MESSAGE_NESTED | STENO_MESSAGE_TIMES)))
		k = b->template >= STENO_BRIEF_BEGIN ? control_place(block, source, b) : template_place(block, source, b);
	if (k == NULL)
	{
		StenoWhole	room;

		steno_block_add_record(block, source, steno_message_whole(&b->m, source->templates, source->seq + 1,
													  source->statement + 1, &room));
		return;
	}
	v = steno_brief_values(b, k->varies);
	first = !k->used;
	session = session_index(block, source);
	e = &block->expected[session];
	seq = advance_seq(e, source->seq + 1);
	statement = advance_statement(e, n.statement, true);
	mask = brief_mask(b, n.rows, n.duration, xid);
	if ((seq | statement) == 0 && has_room_for_text(block, k, &v) &&
		has_form(block, k, session, mask, n.rows, (uint8_t) v.values_len))
	{
		StenoRunRecord own = {.values = v.values, .elapsed = elapsed, .rows = n.rows, .duration = n.duration,
		.xid = xid};

		if (k->varies)
			add_own_text(block, source, b, k, &v, &own);
		add_to_run(block, k, &own);
	}
	else
	{
		uint32_t	guess = 24 + v.values_len;
		/* the record that the place began with has its text */
		bool		other = k->varies && !first;
		uint32_t	text = other ? intern_brief_text(block, b, &source->templates[b->template]) : k->text;
		uint8_t    *p = begin_item(block, STENO_KIND_STATEMENT, guess);

		k->used = true;
		if (seq != 0)
			mask |= STENO_FIELD_SEQ;
		if (statement != 0)
			mask |= STENO_FIELD_STATEMENT;
		p = steno_put_varint(p, session);
		p = steno_put_varint(p, mask);
		p = steno_put_varint(p, k->shape);
		p = steno_put_varint(p, text);
		if (mask & STENO_FIELD_ROWS)
			p = steno_put_varint(p, n.rows);
		p = steno_put_varint(p, steno_zigzag(elapsed));
		if (mask & STENO_FIELD_DURATION)
			p = steno_put_varint(p, n.duration);
		if (mask & STENO_FIELD_VALUES)
			p = append_string(p, v.values, v.values_len);
		if (mask & STENO_FIELD_SEQ)
			p = steno_put_varint(p, steno_zigzag(seq));
		if (mask & STENO_FIELD_STATEMENT)
			p = steno_put_varint(p, steno_zigzag(statement));
		if (mask & STENO_FIELD_XID)
		{
			p = steno_put_varint(p, xid);
			e->xid = xid;
		}
		end_item(block, guess, p);
	}
	widen_time_range(block, b->time, end_time(b->time, n.duration));
	source->seq = e->seq;
	source->statement = e->statement;
}

void
steno_block_add_brief_commit(StenoBlock *block, StenoSource *source, const StenoCommitMessage *c)
{
	uint32_t	session = session_index(block, source);
	StenoExpected   *e = &block->expected[session];
	int64_t		elapsed = elapsed_since(block, c->time);
	uint32_t	mask = STENO_FIELD_SHAPE | STENO_FIELD_DURATION | STENO_FIELD_EVENT | STENO_FIELD_STATEMENTS |
		(elapsed != 0 ? STENO_FIELD_TIME : 0) | (c->xid != 0 ? STENO_FIELD_XID : 0) |
		(c->lsn != 0 ? STENO_FIELD_COMMIT : 0);
	uint32_t	guess = 24;
	uint8_t    *p;

	if (block->commit_shape == 0 || e->seq != source->seq)
	{
		StenoWhole	room;

		steno_block_add_record(block, source, steno_message_whole(&c->m, NULL, source->seq + 1, 0, &room));
		block->commit_shape =
			steno_block_intern_shape(block, steno_bare_shapes[STENO_CLASS_TRANSACTION], STENO_BARE_SHAPE) + 1;
		return;
	}
	p = begin_item(block, STENO_KIND_TRANSACTION, guess);
	p = steno_put_varint(p, session);
	p = steno_put_varint(p, mask);
	p = steno_put_varint(p, block->commit_shape - 1);
	if (mask & STENO_FIELD_TIME)
		p = steno_put_varint(p, steno_zigzag(elapsed));
	p = steno_put_varint(p, c->duration);
	if (mask & STENO_FIELD_XID)
		p = steno_put_varint(p, e->xid = c->xid);
	*p++ = STENO_EVENT_COMMIT;
	p = steno_put_varint(p, c->statements);
	if (mask & STENO_FIELD_COMMIT)
		p = put_commit(block, p, c->lsn, c->lsn + c->lsn_len, c->timeline);
	end_item(block, guess, p);
	widen_time_range(block, c->time, c->time);
	source->seq = ++e->seq;
}

/* Where the block has shape, text and form of a brief record; NULL if it does not have all of them. */
static inline const StenoFormPlace *
form_place(const StenoBlock *block, StenoSource *source, const StenoBriefMessage *b)
{
	const StenoFormPlace *k;

	if (b->template < STENO_TEMPLATES)
	{
		k = &source->places[b->template];
		if (k->version != b->version || (k->varies && !steno_brief_has_text(b)))
			return NULL;
	}
	else if (b->template >= STENO_BRIEF_BEGIN)
	{
		k = place_of_control(source, b);
		if (k->control == 0 || k->control != control_text(b))
			return NULL;
	}
	else
		return NULL;
	return k->generation == block->generation && k->form != 0 && k->session == source->index ? k : NULL;
}

/* Add a brief record to a run, if it has this form; false if that does not fit.  complete_run must follow. */
static inline bool
add_with_form(StenoBlock *block, StenoSource *source, const StenoBriefMessage *b, const StenoFormPlace *k)
{
	StenoBriefValues v = steno_brief_values(b, k->varies);
	uint64_t	duration = b->duration != STENO_NONE32 ? b->duration : STENO_NONE64;
	StenoRunRecord	own = {
		.values = v.values, .elapsed = elapsed_since(block, b->time), .duration = duration,
		.rows = b->rows != STENO_NONE32 ? b->rows : STENO_NONE64, .xid = steno_brief_xid(b)
	};

	if (k->mask != brief_mask(b, own.rows, duration, own.xid) || k->values_len != (uint8_t) v.values_len ||
		!(k->own_rows || k->rows == own.rows) || !has_room_for_text(block, k, &v))
		return false;
	if (k->varies)
		add_own_text(block, source, b, k, &v, &own);
	extend_run(block, k, &own);
	widen_time_range(block, b->time, end_time(b->time, duration));
	return true;
}

uint64_t
steno_block_add_brief(StenoBlock *block, StenoSource *source, const uint8_t *data, uint32_t size, uint64_t position,
					  uint64_t end)
{
	StenoExpected   *e;

	if (source->generation != block->generation || block->records == 0)
		return position;
	e = &block->expected[source->index];
	if (e->seq != source->seq || e->statement != source->statement)
		return position;
	while (position != end)
	{
		const StenoBriefMessage *b = (const StenoBriefMessage *) (data + (position & (size - 1)));
		const StenoFormPlace *k;

		/* the producer has written it on another core, and it may be far away */
		__builtin_prefetch((const uint8_t *) b + AHEAD);
		if (b->m.kind != STENO_KIND_STATEMENT ||
			(b->m.flags & ~(STENO_MESSAGE_VALUES | STENO_MESSAGE_XID)) != STENO_MESSAGE_BRIEF ||
			!has_room(block, source, b->m.len + sizeof(StenoWhole)))
			break;
		k = form_place(block, source, b);
		if (k == NULL || !add_with_form(block, source, b, k))
			break;
		e->seq++;
		e->statement++;
		position += b->m.len;
	}
	if (source->seq != e->seq)
		complete_run(block);
	source->seq = e->seq;
	source->statement = e->statement;
	return position;
}
