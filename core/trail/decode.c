/*
 * core/trail/decode.c
 *		The decoder of decode.h.
 *
 * A block is read in three steps: steno_block_open checks and decompresses it;
 * steno_decoder_next takes one item after the other, keeps definitions and returns
 * records; the functions of codec.h parse shapes and values when the caller needs
 * them.  All bounds are checked by the functions of codec.h, not here.
 */
#include <stdlib.h>

#include <lz4.h>

#include "trail/decode.h"

/* What the definitions of any block may take of memory. */
#define DEFINITIONS_LEAST (8 * 1024 * 1024)

/* ---- definitions ---- */

/*
 * Make room for one more in a list of n.  Returns the list; NULL, and the old one remains, if a block
 * that a server wrote would not have as many, or out of memory.
 */
static void *
make_room(StenoDecoder *d, void *list, uint32_t n, uint32_t *room, size_t size)
{
	uint32_t	more = *room > 0 ? *room : 64;

	if (n < *room)
		return list;
	if ((uint64_t) more * size > d->memory)
		return NULL;
	list = realloc(list, ((size_t) *room + more) * size);
	if (list == NULL)
		return NULL;
	d->memory -= (uint64_t) more * size;
	*room += more;
	return list;
}

/* Add a definition; NULL if there is no room. */
static StenoDefinition *
new_definition(StenoDecoder *decoder, StenoDefinitions *d)
{
	StenoDefinition *list = make_room(decoder, d->list, d->n, &d->room, sizeof(StenoDefinition));

	if (list == NULL)
		return NULL;
	d->list = list;
	memset(&list[d->n], 0, sizeof(StenoDefinition));
	return &list[d->n++];
}

/* The same for a text: records of runs may each have one, so there can be many more of them. */
static StenoBytes *
new_text(StenoDecoder *d)
{
	StenoBytes *list = make_room(d, d->texts, d->ntexts, &d->texts_room, sizeof(StenoBytes));

	if (list == NULL)
		return NULL;
	d->texts = list;
	return &list[d->ntexts++];
}

static const StenoDefinition *
definition(const StenoDefinitions *d, uint64_t index)
{
	return index < d->n ? &d->list[index] : NULL;
}

static bool
check_facts(StenoBytes body)
{
	StenoBytes	skipped;
	uint8_t		key;

	if (!steno_take_bytes(&body, 12, &skipped))
		return false;
	while (body.len > 0)
		if (!steno_take_byte(&body, &key) || !steno_take_string(&body, &skipped))
			return false;
	return true;
}

static bool
take_session_definition(StenoDecoder *d, StenoBytes in)
{
	uint64_t	seq;
	uint64_t	statement;
	StenoDefinition *s;

	if (!steno_take_varint(&in, &seq) || !steno_take_varint(&in, &statement) ||
		!check_facts(in) || (s = new_definition(d, &d->sessions)) == NULL)
		return false;
	s->body = in;
	s->a = seq;
	s->b = statement;
	return true;
}

/* Whether this is a complete shape.  Bytes after its objects are fields of later formats. */
static bool
check_shape(StenoBytes shape, uint64_t *nparams)
{
	uint64_t	v;
	uint64_t	n;
	uint64_t	i;
	uint8_t		byte;
	StenoBytes	s;

	if (!steno_take_shape_head(&shape, &v, &v, &s, &n))
		return false;
	for (i = 0; i < n; i++)
		if (!steno_take_relation(&shape, &byte, &v, &s))
			return false;
	if (!steno_take_varint(&shape, nparams))
		return false;
	for (i = 0; i < *nparams; i++)
		if (!steno_take_param(&shape, &v, &byte))
			return false;
	if (shape.len == 0)
		return true;
	if (!steno_take_varint(&shape, &n))
		return false;
	for (i = 0; i < n; i++)
		if (!steno_take_object(&shape, &byte, &s, &s, &s))
			return false;
	return true;
}

static bool
take_shape_definition(StenoDecoder *d, StenoBytes in)
{
	uint64_t	nparams;
	StenoDefinition *s;

	if (!check_shape(in, &nparams) || (s = new_definition(d, &d->shapes)) == NULL)
		return false;
	s->body = in;
	s->a = nparams;
	return true;
}

static bool
take_text(StenoDecoder *d, StenoBytes in)
{
	StenoBytes *text = new_text(d);

	if (text == NULL)
		return false;
	*text = in;
	return true;
}

/* Memory for a text, until the decoder ends; NULL: none, or the block's variants are too long. */
static uint8_t *
variant_room(StenoDecoder *d, uint64_t len)
{
	StenoTexts *t = d->variants;
	size_t		room;

	if (len > STENO_VARIANTS_MAX - d->variants_bytes)
		return NULL;
	d->variants_bytes += len;
	if (t == NULL || t->room - t->used < len)
	{
		room = len > 16384 ? (size_t) len : 16384;
		t = malloc(sizeof(StenoTexts) + room);
		if (t == NULL)
			return NULL;
		t->before = d->variants;
		t->used = 0;
		t->room = room;
		d->variants = t;
	}
	t->used += (size_t) len;
	return t->bytes + t->used - len;
}

/* Put the text together that begins and ends as another one, and has something else between. */
static const StenoBytes *
put_text_together(StenoDecoder *d, StenoBytes base, uint64_t before, uint64_t after, StenoBytes different)
{
	StenoBytes *text;
	uint8_t    *p = variant_room(d, before + different.len + after);

	if (p == NULL || (text = new_text(d)) == NULL)
		return NULL;
	text->p = p;
	text->len = before + different.len + after;
	if (before > 0)
		memcpy(p, base.p, before);
	if (different.len > 0)
		memcpy(p + before, different.p, different.len);
	if (after > 0)
		memcpy(p + before + different.len, base.p + base.len - after, after);
	return text;
}

/* Take how much of the text with an index its variants have. */
static bool
take_common_parts(const StenoDecoder *d, StenoBytes *in, uint64_t index, uint64_t *before, uint64_t *after)
{
	uint64_t	len = d->texts[index].len;

	return steno_take_varint(in, before) && steno_take_varint(in, after) && *before <= len && *after <= len - *before;
}

static bool
take_variant(StenoDecoder *d, StenoBytes in)
{
	uint64_t	index;
	uint64_t	before;
	uint64_t	after;

	return steno_take_varint(&in, &index) && index < d->ntexts && take_common_parts(d, &in, index, &before, &after) &&
		put_text_together(d, d->texts[index], before, after, in) != NULL;
}

/* The fields that records of a form may have. */
#define FORM_FIELDS (STENO_FIELD_SHAPE | STENO_FIELD_TEXT | STENO_FIELD_ROWS | STENO_FIELD_TIME | \
					 STENO_FIELD_DURATION | STENO_FIELD_VALUES | STENO_FIELD_XID)

static bool
take_form(StenoDecoder *d, StenoBytes in)
{
	uint64_t	session;
	uint64_t	mask;
	StenoForm	form = {0};
	StenoForm  *forms;

	if (!steno_take_varint(&in, &session) || session >= d->sessions.n ||
		!steno_take_varint(&in, &mask) || mask & ~(uint64_t) FORM_FIELDS)
		return false;
	form.session = (uint32_t) session;
	form.mask = (uint32_t) mask;
	if ((mask & STENO_FIELD_SHAPE && (!steno_take_varint(&in, &form.shape) || form.shape >= d->shapes.n)) ||
		(mask & STENO_FIELD_TEXT && (!steno_take_varint(&in, &form.text) || form.text >= d->ntexts)) ||
		(mask & STENO_FIELD_ROWS && !steno_take_varint(&in, &form.rows)) ||
		(mask & STENO_FIELD_VALUES && !steno_take_varint(&in, &form.values_len)))
		return false;
	form.varies = in.len > 0;
	if (form.varies && (!(mask & STENO_FIELD_TEXT) || !take_common_parts(d, &in, form.text, &form.before, &form.after)))
		return false;
	forms = make_room(d, d->forms, d->nforms, &d->forms_room, sizeof(StenoForm));
	if (forms == NULL)
		return false;
	d->forms = forms;
	forms[d->nforms++] = form;
	return true;
}

/* ---- records ---- */

static bool
take_references(const StenoDecoder *d, StenoBytes *in, StenoTrailRecord *r)
{
	const StenoDefinition *def;
	uint64_t	index;

	if (r->mask & STENO_FIELD_SHAPE)
	{
		if (!steno_take_varint(in, &index) || (def = definition(&d->shapes, index)) == NULL)
			return false;
		r->shape = def->body;
		r->nparams = def->a;
	}
	if (r->mask & STENO_FIELD_TEXT)
	{
		if (!steno_take_varint(in, &index) || index >= d->ntexts)
			return false;
		r->text = d->texts[index];
	}
	return true;
}

static bool
take_common(StenoBytes *in, StenoTrailRecord *r, int64_t *elapsed, int64_t *seq, int64_t *statement)
{
	uint32_t	mask = r->mask;

	return (!(mask & STENO_FIELD_ROWS) || steno_take_varint(in, &r->rows)) &&
		(!(mask & STENO_FIELD_TIME) || steno_take_signed(in, elapsed)) &&
		(!(mask & STENO_FIELD_DURATION) || steno_take_varint(in, &r->duration)) &&
		(!(mask & STENO_FIELD_NULLS) || steno_take_bytes(in, (r->nparams + 7) / 8, &r->nulls)) &&
		(!(mask & STENO_FIELD_VALUES) || steno_take_string(in, &r->values)) &&
		(!(mask & STENO_FIELD_SEQ) || steno_take_signed(in, seq)) &&
		(!(mask & STENO_FIELD_STATEMENT) || steno_take_signed(in, statement));
}

static bool
take_extra(StenoBytes *in, StenoTrailRecord *r)
{
	StenoBytes	skipped;
	uint64_t	i;

	if (!steno_take_varint(in, &r->extra_count))
		return false;
	r->extra.p = in->p;
	for (i = 0; i < r->extra_count; i++)
		if (!steno_take_string(in, &skipped) || !steno_take_string(in, &skipped))
			return false;
	r->extra.len = (uint64_t) (in->p - r->extra.p);
	return true;
}

static bool
take_rare(StenoBytes *in, StenoTrailRecord *r)
{
	uint32_t	mask = r->mask;

	if ((mask & STENO_FIELD_NESTING) &&
		(!steno_take_varint(in, &r->depth) || !steno_take_varint(in, &r->substatement)))
		return false;
	if ((mask & STENO_FIELD_OUTCOME) && !steno_take_byte(in, &r->outcome))
		return false;
	if ((mask & STENO_FIELD_ERROR) &&
		(!steno_take_bytes(in, 5, &r->sqlstate) || !steno_take_string(in, &r->message)))
		return false;
	if ((mask & STENO_FIELD_XID) && !steno_take_varint(in, &r->xid))
		return false;
	if ((mask & STENO_FIELD_CUT) &&
		(!steno_take_varint(in, &r->cut_len) ||
		 !steno_take_bytes(in, STENO_HASH_SIZE, &r->cut_hash)))
		return false;
	if ((mask & STENO_FIELD_PARTS) &&
		(!steno_take_varint(in, &r->parts[0]) || !steno_take_varint(in, &r->parts[1]) ||
		 !steno_take_varint(in, &r->parts[2])))
		return false;
	if ((mask & STENO_FIELD_EXTRA) && !take_extra(in, r))
		return false;
	return !(mask & STENO_FIELD_AUDITED) || steno_take_byte(in, &r->audited);
}

/* Take the end of a transaction.  lsn: where the last commit in the block ended. */
static bool
take_ending(StenoBytes *in, StenoTrailRecord *r, uint64_t lsn)
{
	uint32_t	mask = r->mask;
	int64_t		distance;
	uint64_t	len;

	if ((mask & STENO_FIELD_EVENT) && !steno_take_byte(in, &r->event))
		return false;
	if ((mask & STENO_FIELD_STATEMENTS) && !steno_take_varint(in, &r->statements))
		return false;
	if (!(mask & STENO_FIELD_COMMIT))
		return true;
	if (!steno_take_signed(in, &distance) || !steno_take_varint(in, &len) || !steno_take_varint(in, &r->timeline))
		return false;
	r->lsn = lsn + (uint64_t) distance;
	r->lsn_end = r->lsn + len;
	return true;
}

/* Take what the next record says of times.  What later formats add is ignored. */
static void
take_times(StenoDecoder *d, StenoBytes in)
{
	StenoTimes	t = {.elapsed = STENO_NONE64};
	uint64_t	mask;

	if (steno_take_varint(&in, &mask) &&
		(!(mask & 1) || steno_take_varint(&in, &t.analysis)) &&
		(!(mask & 2) || steno_take_varint(&in, &t.plan)) &&
		(!(mask & 4) || steno_take_varint(&in, &t.commit)) &&
		(!(mask & 8) || steno_take_varint(&in, &t.elapsed)))
	{
		d->times = t;
		d->timed = true;
	}
}

/*
 * Take a record.  The decoder changes only once the whole record has been taken, so
 * a malformed item has no effect on what was decoded before it.  Remaining bytes of
 * the item are fields of later formats.
 */
static bool
take_record(StenoDecoder *d, StenoBytes in, StenoTrailRecord *r)
{
	uint64_t	session;
	uint64_t	mask;
	int64_t		elapsed = 0;
	int64_t		seq = 0;
	int64_t		statement = 0;
	StenoDefinition *s;

	if (!steno_take_varint(&in, &session) || session >= d->sessions.n ||
		!steno_take_varint(&in, &mask))
		return false;
	s = &d->sessions.list[session];
	r->mask = (uint32_t) mask & (2 * STENO_FIELD_COMMIT - 1);
	if (!take_references(d, &in, r) ||
		!take_common(&in, r, &elapsed, &seq, &statement) || !take_rare(&in, r) ||
		!take_ending(&in, r, d->lsn))
		return false;
	if (r->mask & STENO_FIELD_COMMIT)
		d->lsn = r->lsn_end;
	if (r->mask & STENO_FIELD_XID)
		s->c = r->xid;
	r->session_index = (uint32_t) session;
	r->session = s->body;
	d->time = (int64_t) ((uint64_t) d->time + (uint64_t) elapsed);
	r->time = d->time;
	r->seq = s->a + 1 + (uint64_t) seq;
	if (r->seq != 0)
		s->a = r->seq;
	if (r->kind == STENO_KIND_STATEMENT || r->kind == STENO_KIND_START)
	{
		r->statement = s->b + 1 + (uint64_t) statement;
		s->b = r->statement;
		if (r->kind != STENO_KIND_STATEMENT || r->depth != 0)
			s->b--;
	}
	return true;
}

static bool
take_run(StenoDecoder *d, StenoBytes in)
{
	uint64_t	n;

	if (!steno_take_varint(&in, &n) || n == 0 || n > in.len)
		return false;
	d->run = in;
	d->run_left = n;
	d->run_start = d->p;
	return true;
}

/* Take the next record of the run.  As in take_record, a malformed one changes nothing. */
static bool
take_from_run(StenoDecoder *d, StenoTrailRecord *r)
{
	StenoBytes	in = d->run;
	const StenoForm *form;
	StenoDefinition *s;
	uint64_t	index;
	int64_t		elapsed = 0;
	int64_t		distance = 0;
	StenoBytes	different = {0};

	memset(r, 0, sizeof(*r));
	if (!steno_take_varint(&in, &index) || index >= d->nforms)
		return false;
	form = &d->forms[index];
	s = &d->sessions.list[form->session];
	r->kind = STENO_KIND_STATEMENT;
	r->times.elapsed = STENO_NONE64;
	r->mask = form->mask;
	r->rows = form->rows - 1;
	if ((form->varies && !steno_take_string(&in, &different)) ||
		(form->mask & STENO_FIELD_ROWS && form->rows == 0 && !steno_take_varint(&in, &r->rows)) ||
		(form->mask & STENO_FIELD_TIME && !steno_take_signed(&in, &elapsed)) ||
		(form->mask & STENO_FIELD_DURATION && !steno_take_varint(&in, &r->duration)) ||
		(form->mask & STENO_FIELD_VALUES && !steno_take_bytes(&in, form->values_len, &r->values)) ||
		(form->mask & STENO_FIELD_XID && !steno_take_signed(&in, &distance)) ||
		(d->run_left == 1 && in.len > 0))
		return false;
	if (!(form->mask & STENO_FIELD_ROWS))
		r->rows = 0;
	if (form->mask & STENO_FIELD_SHAPE)
	{
		r->shape = d->shapes.list[form->shape].body;
		r->nparams = d->shapes.list[form->shape].a;
	}
	if (form->varies)
	{
		StenoBytes	base = d->texts[form->text];
		const StenoBytes *text = put_text_together(d, base, form->before, form->after, different);

		if (text == NULL)
			return false;
		r->text = *text;
	}
	else if (form->mask & STENO_FIELD_TEXT)
		r->text = d->texts[form->text];
	if (form->mask & STENO_FIELD_XID)
		r->xid = s->c += (uint64_t) distance;
	r->session_index = form->session;
	r->session = s->body;
	d->time = (int64_t) ((uint64_t) d->time + (uint64_t) elapsed);
	r->time = d->time;
	r->seq = s->a + 1;
	if (r->seq != 0)
		s->a = r->seq;
	r->statement = ++s->b;
	d->run = in;
	d->run_left--;
	return true;
}

static bool
take_part(const StenoDecoder *d, StenoBytes in, StenoTrailRecord *r)
{
	uint64_t	session;

	if (!steno_take_varint(&in, &session) || session >= d->sessions.n ||
		!steno_take_varint(&in, &r->seq) || !steno_take_byte(&in, &r->part))
		return false;
	r->session_index = (uint32_t) session;
	r->session = d->sessions.list[session].body;
	r->values = in;
	return true;
}

/* ---- items ---- */

void
steno_decoder_begin(StenoDecoder *d, const uint8_t *payload, size_t len, int64_t first_time)
{
	memset(d, 0, sizeof(*d));
	d->start = payload;
	d->p = payload;
	d->end = payload + len;
	d->time = first_time;
	d->lsn = 0;
	d->memory = DEFINITIONS_LEAST + 2 * (uint64_t) len;
}

void
steno_decoder_end(StenoDecoder *d)
{
	free(d->sessions.list);
	free(d->shapes.list);
	free(d->texts);
	free(d->forms);
	while (d->variants != NULL)
	{
		StenoTexts *before = d->variants->before;

		free(d->variants);
		d->variants = before;
	}
	memset(d, 0, sizeof(*d));
}

StenoDecoded
steno_decoder_next(StenoDecoder *d, StenoTrailRecord *record)
{
	while (d->p < d->end || d->run_left > 0)
	{
		StenoBytes	rest = {d->p, (uint64_t) (d->end - d->p)};
		StenoBytes	item;
		uint8_t		kind;
		bool		ok = true;
		bool		found = false;

		if (d->run_left > 0)
		{
			if (take_from_run(d, record))
				return STENO_DECODED_RECORD;
			d->p = d->run_start;
			return STENO_DECODED_BAD;
		}
		if (!steno_take_string(&rest, &item) || !steno_take_byte(&item, &kind))
			return STENO_DECODED_BAD;
		if (kind == STENO_KIND_DEF_SESSION)
			ok = take_session_definition(d, item);
		else if (kind == STENO_KIND_DEF_SHAPE)
			ok = take_shape_definition(d, item);
		else if (kind == STENO_KIND_DEF_TEXT)
			ok = take_text(d, item);
		else if (kind == STENO_KIND_DEF_VARIANT)
			ok = take_variant(d, item);
		else if (kind == STENO_KIND_DEF_FORM)
			ok = take_form(d, item);
		else if (kind == STENO_KIND_RUN)
			ok = take_run(d, item);
		else if (kind == STENO_KIND_TIMES)
			take_times(d, item);
		else if (kind > 0 && kind <= STENO_KIND_DATA)
		{
			memset(record, 0, sizeof(*record));
			record->kind = kind;
			record->times.elapsed = STENO_NONE64;
			if (d->timed && kind != STENO_KIND_DATA)
			{
				record->times = d->times;
				d->timed = false;
			}
			ok = kind == STENO_KIND_DATA ? take_part(d, item, record) : take_record(d, item, record);
			found = true;
		}
		if (!ok)
			return STENO_DECODED_BAD;
		d->p = rest.p;
		if (found)
			return STENO_DECODED_RECORD;
	}
	return STENO_DECODED_END;
}

/* ---- blocks ---- */

/*
 * Decompress.  LZ4 makes at most 255 bytes of one, so a larger raw is false, and is
 * refused before it costs memory.
 */
static bool
unpack(StenoBytes stored, uint32_t raw, StenoBytes *payload, uint8_t **buffer)
{
	if (raw > stored.len * 255)
		return false;
	*buffer = malloc((size_t) raw + 1);
	if (*buffer == NULL)
		return false;
	payload->p = *buffer;
	payload->len = raw;
	return LZ4_decompress_safe((const char *) stored.p, (char *) *buffer,
							   (int) stored.len, (int) raw) == (int) raw;
}

static bool
decompress(const StenoBlockHeader *header, StenoBytes stored, StenoBytes *payload, uint8_t **buffer)
{
	if (header->codec == STENO_CODEC_NONE)
	{
		*payload = stored;
		return header->raw == stored.len;
	}
	return header->codec == STENO_CODEC_LZ4 && unpack(stored, header->raw, payload, buffer);
}

/*
 * Decrypt and decompress.  *buffer is what decompression allocated, or else the
 * decrypted payload.
 */
static bool
open_encrypted(const uint8_t *bytes, const uint8_t *data_key, const StenoBlockHeader *header,
			   StenoBytes stored, StenoBytes *payload, uint8_t **buffer)
{
	uint8_t    *plain;
	bool		ok;

	if (data_key == NULL || stored.len < STENO_PAYLOAD_EXTRA)
		return false;
	plain = malloc(stored.len);
	if (plain == NULL)
		return false;
	ok = steno_payload_decrypt(data_key, bytes, stored.p, stored.len, plain);
	stored.p = plain;
	stored.len -= STENO_PAYLOAD_EXTRA;
	ok = ok && decompress(header, stored, payload, buffer);
	if (*buffer == NULL)
		*buffer = plain;
	else
		free(plain);
	return ok;
}

bool
steno_block_decrypt(const uint8_t *bytes, size_t len, const uint8_t *data_key,
					StenoBlockHeader *header, StenoBytes *payload, uint8_t **buffer)
{
	StenoBytes	stored;
	bool		ok;

	*buffer = NULL;
	if (len < STENO_BLOCK_HEADER || !steno_block_header_read(bytes, header) ||
		(header->flags & ~STENO_BLOCK_ENCRYPTED) || header->stored != len - STENO_BLOCK_HEADER ||
		header->stored > STENO_MAX_RAW + STENO_PAYLOAD_EXTRA)
		return false;
	/* all blocks of a segment are encrypted, or none is */
	if ((data_key != NULL) != (header->flags == STENO_BLOCK_ENCRYPTED))
		return false;
	stored.p = bytes + STENO_BLOCK_HEADER;
	stored.len = header->stored;
	if (XXH64(stored.p, stored.len, 0) != header->payload_sum)
		return false;
	if (header->flags & STENO_BLOCK_ENCRYPTED)
		ok = open_encrypted(bytes, data_key, header, stored, payload, buffer);
	else
		ok = decompress(header, stored, payload, buffer);
	if (ok)
		return true;
	free(*buffer);
	*buffer = NULL;
	return false;
}

bool
steno_block_open(const uint8_t *bytes, size_t len, StenoBlockHeader *header,
				 StenoBytes *payload, uint8_t **buffer)
{
	return steno_block_decrypt(bytes, len, NULL, header, payload, buffer);
}
