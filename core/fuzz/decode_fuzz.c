/*
 * core/fuzz/decode_fuzz.c
 *		Any bytes, as a payload: the decoder must terminate, read nothing beyond the
 *		payload, and decode the part before malformed data the same when it is alone.
 *
 * The first eight bytes are the block's first time.  An input that begins with the magic
 * number of a block goes through the checks of a whole block first.
 */
#include <stdlib.h>

#include "trail/decode.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A digest of everything in a record; computing it also reads every byte. */
static uint64_t
digest(uint64_t sum, const StenoTrailRecord *r)
{
	const StenoBytes strings[] = {
		r->session, r->shape, r->text, r->nulls, r->values, r->sqlstate,
		r->message, r->cut_hash, r->extra
	};
	const uint64_t numbers[] = {
		r->kind, r->mask, r->session_index, r->seq, r->statement, (uint64_t) r->time,
		r->nparams, r->rows, r->duration, r->depth, r->substatement, r->outcome, r->xid,
		r->cut_len, r->parts[0], r->parts[1], r->parts[2], r->extra_count, r->part,
		r->audited
	};
	size_t		i;

	for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		sum = XXH64(strings[i].p, strings[i].len, sum + strings[i].len);
	return XXH64(numbers, sizeof(numbers), sum);
}

/* Decode a list of parameters as far as it can be read. */
static void
take_list(StenoBytes list)
{
	uint64_t	n;
	uint64_t	type;
	uint8_t		repr;
	bool		null;
	StenoBytes	value;

	if (!steno_take_list(&list, &n))
		return;
	while (n-- > 0 && steno_take_listed(&list, &type, &repr, &null) &&
		   (null || steno_take_value(&list, repr, &value)))
		;
}

/*
 * Decode the record's shape and values, the shape completely; the decoder has accepted the
 * shape.
 */
static void
take_values(const StenoTrailRecord *r)
{
	StenoBytes	shape = r->shape;
	StenoBytes	values = r->values;
	StenoBytes	s;
	uint64_t	v;
	uint64_t	i;
	uint64_t	n;
	uint8_t		byte;
	bool		left = true;

	if (!(r->mask & STENO_FIELD_SHAPE))
		return;
	if (!steno_take_shape_head(&shape, &v, &v, &s, &n))
		abort();
	for (i = 0; i < n; i++)
		if (!steno_take_relation(&shape, &byte, &v, &s))
			abort();
	if (!steno_take_varint(&shape, &n) || n != r->nparams)
		abort();
	for (i = 0; i < n; i++)
	{
		if (!steno_take_param(&shape, &v, &byte))
			abort();
		if (r->nulls.len > i / 8 && r->nulls.p[i / 8] & 1 << i % 8)
			continue;
		if (left && !steno_take_value(&values, byte, &s))
			left = false;
		else if (left && byte == STENO_REPR_LIST)
			take_list(s);
	}
	if (shape.len == 0)
		return;
	if (!steno_take_varint(&shape, &n))
		abort();
	for (i = 0; i < n; i++)
		if (!steno_take_object(&shape, &byte, &s, &s, &s))
			abort();
}

/*
 * Decode everything; returns the number of records, their digest, and where decoding ended.
 * Records of a malformed run are not counted.
 */
static StenoDecoded
decode(const uint8_t *payload, size_t len, int64_t first_time, uint64_t *records,
	   uint64_t *sum, size_t *end)
{
	StenoDecoder d;
	StenoTrailRecord r;
	StenoDecoded result;
	uint64_t	n = 0;
	uint64_t	digest_all = 0;

	*records = 0;
	*sum = 0;
	steno_decoder_begin(&d, payload, len, first_time);
	while ((result = steno_decoder_next(&d, &r)) == STENO_DECODED_RECORD)
	{
		n++;
		digest_all = digest(digest_all, &r);
		take_values(&r);
		if (d.run_left > 0)
			continue;
		*records = n;
		*sum = digest_all;
	}
	*end = (size_t) (d.p - d.start);
	if (*end > len || (result == STENO_DECODED_END && *end != len))
		abort();
	steno_decoder_end(&d);
	return result;
}

static void
check(const uint8_t *payload, size_t len, int64_t first_time)
{
	uint64_t	records;
	uint64_t	again;
	uint64_t	sum;
	uint64_t	sum_again;
	size_t		end;
	size_t		end_again;
	uint8_t    *prefix;

	decode(payload, len, first_time, &records, &sum, &end);
	/* a copy of exactly this size, so that a sanitizer detects reads beyond it */
	prefix = malloc(end > 0 ? end : 1);
	if (end > 0)
		memcpy(prefix, payload, end);
	if (decode(prefix, end, first_time, &again, &sum_again, &end_again) != STENO_DECODED_END ||
		records != again || sum != sum_again || end != end_again)
		abort();
	free(prefix);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	StenoBlockHeader h;
	StenoBytes	payload;
	uint8_t    *buffer;

	if (size >= 4 && memcmp(data, STENO_BLOCK_MAGIC, 4) == 0)
	{
		if (steno_block_open(data, size, &h, &payload, &buffer))
			check(payload.p, payload.len, h.first_time);
		free(buffer);
	}
	else if (size >= 8)
		check(data + 8, size - 8, (int64_t) steno_get_le(data, 8));
	return 0;
}
