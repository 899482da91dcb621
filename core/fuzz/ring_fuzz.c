/*
 * core/fuzz/ring_fuzz.c
 *		Any bytes, as a ring that a crashed server left: recovery must terminate, must
 *		not read beyond it, and the blocks that it writes must be decodable.
 *
 * An input consists of the beginning of the ring's header, up to its session, then the
 * number of templates, as a byte, and these, each without the bytes that it does not use, then
 * the ring's data from the tail on; missing bytes are zeros.  It is also used as a file's
 * header: one that is accepted must be identical to the one that was made.
 */
#include <stdlib.h>

#include "block/block.h"
#include "trail/decode.h"
#include "ring/check.h"

int			steno_fuzz_ring(const uint8_t *data, size_t size);

#define SIZE STENO_RING_MIN
#define HEADER offsetof(StenoRing, session)
#define BLOCK (64 * 1024)

static StenoRings rings;
static StenoBlock *block;

static void
must(bool right)
{
	if (!right)
		abort();
}

/* On the heap, where a sanitizer knows its bounds. */
static void
make_rings(void)
{
	size_t		total = (size_t) steno_rings_total(1, SIZE, 2);
	StenoRingFile *f = aligned_alloc(STENO_PAGE, total);

	must(f != NULL);
	memset(f, 0, total);
	steno_rings_describe(f, 1, SIZE, 2, 1, 11, 12);
	must(steno_rings_attach(&rings, f, total, f) == NULL);
	block = steno_block_create(BLOCK);
	must(block != NULL);
}

/* Copy as much as is available; the rest is zeros. */
static void
take(void *to, size_t len, const uint8_t **data, size_t *size)
{
	size_t		n = *size < len ? *size : len;

	memset(to, 0, len);
	if (n > 0)
		memcpy(to, *data, n);
	*data += n;
	*size -= n;
}

static void
check_header(const uint8_t *data, size_t size)
{
	StenoRingFile header = *rings.file;
	StenoRings	other = {0};
	size_t		most = offsetof(StenoRingFile, intents);

	if (size > 0)
		memcpy(&header, data, size < most ? size : most);
	if (steno_rings_attach(&other, rings.file, rings.mapped, &header) != NULL)
		return;
	must(other.nrings == 1 && other.size == SIZE && other.nwriters <= STENO_MAX_WRITERS);
	must(other.nchunks == rings.nchunks && other.chunks == rings.chunks);
	must(other.headers == rings.headers && other.templates == rings.templates && other.data == rings.data);
}

/* As many templates as a byte says; an input need not have all bytes of those that have little. */
static void
take_templates(StenoTemplate *templates, const uint8_t **data, size_t *size)
{
	uint8_t		n;
	int			i;

	memset(templates, 0, STENO_TEMPLATES * sizeof(StenoTemplate));
	take(&n, 1, data, size);
	for (i = 0; i < n % (STENO_TEMPLATES + 1); i++)
	{
		StenoTemplate *t = &templates[i];
		uint32_t	len;

		take(t, offsetof(StenoTemplate, bytes), data, size);
		len = (uint32_t) t->shape_len + t->text_len;
		take(t->bytes, len < STENO_TEMPLATE_ROOM ? len : STENO_TEMPLATE_ROOM, data, size);
	}
}

static void
fill(const uint8_t *data, size_t size)
{
	StenoRing  *ring = steno_ring_at(&rings, 0);
	uint8_t    *to = steno_ring_data(&rings, 0);
	uint64_t	tail;
	size_t		i;

	memset(ring, 0, sizeof(*ring));
	take(ring, HEADER, &data, &size);
	take_templates(steno_ring_templates(&rings, 0), &data, &size);
	memset(to, 0, SIZE);
	tail = atomic_load(&ring->tail);
	for (i = 0; i < size && i < SIZE; i++)
		to[(tail + i) & (SIZE - 1)] = data[i];
}

static void
decode(void)
{
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoDecoder d;
	StenoTrailRecord r;
	StenoDecoded found;
	uint8_t    *buffer;
	uint64_t	n = 0;
	size_t		len;
	const uint8_t *bytes = steno_block_finish(block, STENO_CODEC_NONE, 1, 1, 77, chain, &len);

	must(bytes != NULL && steno_block_open(bytes, len, &h, &payload, &buffer));
	steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
	while ((found = steno_decoder_next(&d, &r)) == STENO_DECODED_RECORD)
		n += r.kind != STENO_KIND_DATA;
	must(found == STENO_DECODED_END && n == h.records);
	steno_decoder_end(&d);
	free(buffer);
	steno_block_reset(block);
}

static void
add(StenoSource *source, const StenoMessage *m)
{
	if (steno_block_add(block, source, m))
		return;
	decode();
	must(steno_block_add(block, source, m));
}

/* Like extension/writer/recover.c. */
static void
recover(void)
{
	StenoRing  *ring = steno_ring_at(&rings, 0);
	StenoSource source = {.generation = UINT64_MAX, .templates = steno_ring_templates(&rings, 0),
		.chunks = rings.chunks};
	const StenoMessage *staged = steno_ring_check_staged(&rings, 0);
	uint64_t	head = atomic_load(&ring->head);
	uint64_t	position = atomic_load(&ring->tail);
	uint64_t	count = ring->gap;
	uint64_t	before = 0;

	source.seq = ring->session_seq;
	(void) steno_ring_check_gap(&count, ring->gap_first, ring->gap_last);
	while (steno_ring_check_positions(&rings, 0) && position != head)
	{
		const StenoMessage *m;
		StenoRingCheck found = steno_ring_check_message(&rings, 0, position, source.seq, &m);

		if (found == STENO_RING_DAMAGED)
			break;
		if (found == STENO_RING_UNREADABLE)
			steno_message_advance(m, &source.seq, &source.statement);
		else if (m->kind != 0)
			add(&source, m);
		position += m->len;
		before += m->len;
		must(m->len >= sizeof(StenoMessage) && before <= SIZE);
	}
	if (staged != NULL)
	{
		static StenoWhole room;

		add(&source, &steno_message_whole(staged, source.templates, source.seq + 1,
										  ring->inflight.statement, &room)->m);
	}
	decode();
}

int
steno_fuzz_ring(const uint8_t *data, size_t size)
{
	if (rings.file == NULL)
		make_rings();
	check_header(data, size);
	fill(data, size);
	recover();
	return 0;
}

#ifdef STENO_FUZZER
int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return steno_fuzz_ring(data, size);
}
#endif
