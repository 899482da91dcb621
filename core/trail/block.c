/*
 * core/trail/block.c
 *		The block builder: turns the messages of a writer's rings into the
 *		items of one block, then compresses, checksums and chains it.
 *
 * A message is added only if an upper bound of its items fits into the block, so a
 * message that does not fit changes nothing.  Its session, shape and text are
 * looked up in the block's dictionaries, and defined there if they are new.  The
 * item of the record follows, with their indexes and the values that differ from
 * those that a reader expects.
 *
 * What most servers execute most of the time are a few statements with different values.  For
 * those, items are shorter, and so is what is compressed and hashed, which costs more than
 * building it.  Records of a statement that its session executes more than once in the block refer to
 * a form and are put into runs (add_to_run); the texts of a form may differ in a part, such as a
 * constant.  Another text that is similar to one before is defined by the difference (define_variant).
 *
 * The payload is built behind space for the block
 * header, so that an uncompressed block is written from the buffer it was built in.
 */
#include <stdlib.h>

#include <lz4.h>
#include <openssl/evp.h>

#include "trail/block.h"
#include "header.h"
#include "similar.h"

/*
 * Upper bound of what a message needs beyond its own bytes and its session
 * definition: the heads of its items, a form, and a record whose varints all have their full
 * length.
 */
#define OVERHEAD 384

/* What an index takes in addition to its body: its length and kind. */
#define INDEX_HEAD 16

/* Samples that tell whether a block of large values can be compressed (is_compressible). */
#define SAMPLES 4
#define SAMPLE_BYTES 4096
#define MIN_SAMPLED (4 * SAMPLES * SAMPLE_BYTES)

/*
 * After a block that compression has made smaller by less than a sixteenth, or by less than an eighth if most
 * of it are large values, eight times as many bytes are not compressed: trying costs the more of the writer's
 * time, the less there is to gain.
 */
#define MIN_SAVED(used, of_values) ((used) / ((of_values) ? 8 : 16))
#define NOT_TRIED(used) (8 * (uint64_t) (used))

/*
 * LZ4 looks at fewer places, the greater its acceleration.  If it saves little, most of what it saves is found
 * with few: of blocks of pgbench's transactions, 22 % with an acceleration of 1, and 15 % in 57 % of the time with 4;
 * of texts of random words, 24 %, and 12 % in 41 % of the time.  Blocks of large values are looked at by themselves.
 */
#define MIN_ACCELERATED (16 * 1024)
#define ACCELERATION(used, saved) ((saved) >= (used) / 2 ? 1 : (saved) >= (used) / 4 ? 2 : 4)

/* The first record's time is known only when the block is finished. */
#define PADDED_TIME STENO_VARINT_MAX

/*
 * A run begins with its length, its kind, and the number of its records.  Length and number grow with each
 * record, so they are varints of two bytes.
 */
#define RUN_HEAD 5
#define RUN_MAX ((1 << 14) - 1)

/* How far ahead of a message in a ring to prefetch, in bytes. */
#define AHEAD 512

/* A record in a run without its values and its part of a text: six varints. */
#define RUN_RECORD_MAX (6 * STENO_VARINT_MAX)

/*
 * Texts are compared with one that began with the same VARIANT_BEGINS bytes, if it is among
 * the last ones.  A variant is defined if that saves at least half of the text.
 */
#define VARIANT_BASES 64
#define VARIANT_BEGINS 16
#define VARIANT_DIFFERENT 256	/* longest part of a text that differs */

/* Statements whose records may have a form although they are not prepared: the last ones, by a hash. */
#define STATEMENTS 512

/*
 * A definition in the payload.  The key of a variant is divided: "before" bytes of the text that ends at
 * base_end and begins at base, the key's own bytes at offset, and the last "after" bytes of that text.
 */
typedef struct DictionaryEntry
{
	uint32_t	hash;
	uint32_t	offset;			/* of the key in the payload */
	uint32_t	len;
	uint32_t	index;
	uint32_t	base;
	uint32_t	base_end;		/* 0: the key is not divided */
	uint32_t	before;
	uint32_t	after;
} DictionaryEntry;

/*
 * A hash table.  Texts are often unique, so most lookups find nothing: for these, only a
 * slot is read, and the slots in use are few enough to stay in the processor's caches.  They
 * begin as FEW_SLOTS in each block, and are more only when there are more definitions.
 */
typedef struct Dictionary
{
	DictionaryEntry *entries;	/* in the order of their definition */
	uint32_t   *slots;			/* number of an entry, plus 1; 0: empty */
	uint32_t	room;			/* for entries; there is space for twice as many slots */
	uint32_t	mask;			/* number of slots in use, minus 1 */
	uint32_t	used;			/* entries */
	uint32_t	defined;		/* definitions in this block */
} Dictionary;

#define FEW_SLOTS 64

/* The last numbers that a reader has seen for a session definition, after the items so far. */
typedef struct Expected
{
	uint64_t	seq;
	uint64_t	statement;
	uint64_t	xid;			/* the last one */
} Expected;

/* A text that others may be variants of; it is whole in the payload. */
typedef struct VariantBase
{
	uint64_t	generation;
	uint32_t	offset;
	uint32_t	len;
	uint32_t	index;
} VariantBase;

/*
 * A statement of a session that is not prepared, so that its records come with shape and
 * text.  Both are compared where they are in the payload, without a dictionary.
 */
typedef struct Statement
{
	StenoFormPlace	place;
	uint32_t	session;
	uint32_t	shape;			/* offset in the payload, and length */
	uint32_t	shape_len;
	uint32_t	text;			/* likewise; the one that others are compared with */
	uint32_t	text_len;
} Statement;

struct StenoBlock
{
	uint8_t    *buffer;			/* header, then payload */
	uint8_t    *payload;
	uint32_t	capacity;
	uint32_t	room;			/* bytes of payload that are allocated: for an index, more than capacity */
	uint32_t	used;
	uint32_t	data_bytes;		/* of used, in data parts */
	bool		incompressible;	/* this block has turned out to be */

	/* of blocks of large values (1: is_of_values), and of others (0) */
	uint64_t	not_tried[2];	/* bytes that are not to be compressed, from this block on */
	int			acceleration[2];	/* of this block's compression ... */
	int			next_acceleration[2];	/* ... and of the next one's, from how much smaller the last has become */
	uint32_t	records;
	uint64_t	generation;
	int64_t		previous_time;
	uint64_t	previous_lsn;	/* where the last commit's WAL record ended */
	int64_t		first_record_time;
	uint32_t	first_record_at;	/* offset of its time in the payload */
	int64_t		first_time;
	int64_t		first_end;
	int64_t		last_end;
	Dictionary	sessions;
	Dictionary	shapes;
	Dictionary	texts;
	uint32_t	forms;			/* definitions in this block */
	uint32_t	max_forms;
	uint32_t	commit_shape;	/* that of brief commits, plus 1; 0: none yet */
	uint32_t	run_start;		/* of the run that was begun last */
	uint32_t	run_end;
	uint32_t	run_records;
	VariantBase bases[VARIANT_BASES];
	Statement  *statements;		/* STATEMENTS of them */
	uint32_t	variants_bytes; /* bytes of all variants in this block, as a reader has them */
	Expected   *expected;		/* by session definition */
	uint32_t	max_sessions;
	uint8_t    *packed;			/* header, then compressed or encrypted payload */
	StenoCrypt *crypt;
	StenoIndex *index;			/* NULL: none */
	void	   *lz4;
	EVP_MD_CTX *sha;
};

/* A record message taken apart. */
typedef struct Parsed
{
	const StenoRecordMessage *r;
	const uint8_t *parts;
	const uint8_t *cut;
	StenoEnding ending;			/* zeros: none */
	StenoTimes	times;
	const uint8_t *shape;
	const uint8_t *text;
	const uint8_t *nulls;
	const uint8_t *values;
	const uint8_t *message;
	const uint8_t *extra;
} Parsed;

/* ---- creation ---- */

static uint32_t
power_of_two(uint32_t n)
{
	uint32_t	p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static bool
dictionary_create(Dictionary *d, uint32_t room)
{
	d->room = room;
	d->entries = malloc(room * sizeof(DictionaryEntry));
	d->slots = malloc(2 * (size_t) room * sizeof(uint32_t));
	return d->entries != NULL && d->slots != NULL;
}

static void
dictionary_destroy(Dictionary *d)
{
	free(d->entries);
	free(d->slots);
}

static void
dictionary_reset(Dictionary *d)
{
	d->used = 0;
	d->defined = 0;
	d->mask = FEW_SLOTS - 1;
	memset(d->slots, 0, FEW_SLOTS * sizeof(uint32_t));
}

static bool
allocate_builder(StenoBlock *block, uint32_t capacity)
{
	uint32_t	room = capacity > STENO_INDEX_MAX + INDEX_HEAD ? capacity : STENO_INDEX_MAX + INDEX_HEAD;
	size_t		packed = (size_t) LZ4_compressBound((int) room);

	block->capacity = capacity;
	block->room = room;
	block->buffer = malloc(STENO_BLOCK_HEADER + (size_t) room);
	block->packed = malloc(STENO_BLOCK_HEADER + packed + STENO_PAYLOAD_EXTRA);
	block->lz4 = malloc((size_t) LZ4_sizeofState());
	block->sha = EVP_MD_CTX_new();
	block->max_sessions = capacity / 64;
	block->max_forms = capacity / 64;
	block->expected = malloc(block->max_sessions * sizeof(Expected));
	block->statements = calloc(STATEMENTS, sizeof(Statement));
	/* all texts and shapes of at least 64 bytes fit; for shorter ones, see add_definition() */
	return dictionary_create(&block->sessions, power_of_two(capacity / 64)) &&
		dictionary_create(&block->shapes, power_of_two(capacity / 128)) &&
		dictionary_create(&block->texts, power_of_two(capacity / 64)) &&
		block->buffer != NULL && block->packed != NULL &&
		block->lz4 != NULL && block->expected != NULL && block->statements != NULL && block->sha != NULL &&
		EVP_DigestInit_ex(block->sha, EVP_sha256(), NULL) == 1;
}

StenoBlock *
steno_block_create(uint32_t capacity)
{
	StenoBlock *block;

	if (capacity < 64 * 1024)
		capacity = 64 * 1024;
	if (capacity > STENO_MAX_RAW)
		capacity = STENO_MAX_RAW;
	block = calloc(1, sizeof(StenoBlock));
	if (block == NULL)
		return NULL;
	if (!allocate_builder(block, capacity))
	{
		steno_block_destroy(block);
		return NULL;
	}
	block->payload = block->buffer + STENO_BLOCK_HEADER;
	block->next_acceleration[false] = block->next_acceleration[true] = 1;
	steno_block_reset(block);
	return block;
}

void
steno_block_destroy(StenoBlock *block)
{
	if (block == NULL)
		return;
	dictionary_destroy(&block->sessions);
	dictionary_destroy(&block->shapes);
	dictionary_destroy(&block->texts);
	free(block->expected);
	free(block->statements);
	free(block->buffer);
	free(block->packed);
	free(block->lz4);
	EVP_MD_CTX_free(block->sha);
	free(block);
}

/* Whether most of the block are parts of large values. */
static bool
is_of_values(const StenoBlock *block)
{
	return block->data_bytes > 0 && block->data_bytes >= block->used / 2;
}

void
steno_block_reset(StenoBlock *block)
{
	uint64_t   *not_tried = &block->not_tried[is_of_values(block)];

	if (block->index)
		steno_index_discard(block->index);
	if (block->incompressible)
		*not_tried = NOT_TRIED(block->used);
	else
		*not_tried -= *not_tried < block->used ? *not_tried : block->used;
	block->incompressible = false;
	memcpy(block->acceleration, block->next_acceleration, sizeof(block->acceleration));
	block->used = 0;
	block->data_bytes = 0;
	block->records = 0;
	block->previous_lsn = 0;
	block->forms = 0;
	block->commit_shape = 0;
	block->run_end = UINT32_MAX;
	block->variants_bytes = 0;
	block->generation++;
	dictionary_reset(&block->sessions);
	dictionary_reset(&block->shapes);
	dictionary_reset(&block->texts);
}

void
steno_block_set_crypt(StenoBlock *block, StenoCrypt *crypt)
{
	block->crypt = crypt;
}

void
steno_block_set_index(StenoBlock *block, StenoIndex *index)
{
	block->index = index;
}

bool
steno_block_replace(StenoBlock *block, const void *from, const void *to, size_t len)
{
	size_t		at;

	for (at = 0; at + len <= block->used; at++)
		if (memcmp(block->payload + at, from, len) == 0)
		{
			memcpy(block->payload + at, to, len);
			return true;
		}
	return false;
}

uint32_t
steno_block_records(const StenoBlock *block)
{
	return block->records;
}

uint32_t
steno_block_bytes(const StenoBlock *block)
{
	return block->used;
}

uint32_t
steno_block_data_bytes(const StenoBlock *block)
{
	return block->data_bytes;
}

/* ---- items ---- */

/*
 * An item's length precedes its body, but is known only once the body is written.
 * begin_item leaves space for the length of a body of about guess bytes; end_item
 * moves the body if its length has another size than that of the guess, and returns
 * by how many bytes.
 */
static uint8_t *
begin_item(StenoBlock *block, uint8_t kind, uint32_t guess)
{
	uint8_t    *p = block->payload + block->used + steno_varint_size(guess);

	*p++ = kind;
	return p;
}

static int
end_item(StenoBlock *block, uint32_t guess, uint8_t *end)
{
	uint8_t    *start = block->payload + block->used;
	uint8_t    *body = start + steno_varint_size(guess);
	uint32_t	len = (uint32_t) (end - body);
	int			moved = (int) steno_varint_size(len) - (int) steno_varint_size(guess);

	if (moved != 0)
		memmove(body + moved, body, len);
	steno_put_varint(start, len);
	block->used += (uint32_t) (end + moved - start);
	return moved;
}

static inline uint8_t *
append_bytes(uint8_t *p, const uint8_t *bytes, uint32_t len)
{
	memcpy(p, bytes, len);
	return p + len;
}

static inline uint8_t *
append_string(uint8_t *p, const uint8_t *bytes, uint32_t len)
{
	return append_bytes(steno_put_varint(p, len), bytes, len);
}

/* ---- dictionaries ---- */

static bool
has_key(const StenoBlock *block, const DictionaryEntry *e, const uint8_t *key)
{
	const uint8_t *payload = block->payload;

	if (e->base_end == 0)
		return memcmp(payload + e->offset, key, e->len) == 0;
	return memcmp(payload + e->base, key, e->before) == 0 &&
		memcmp(payload + e->offset, key + e->before, e->len - e->before - e->after) == 0 &&
		memcmp(payload + e->base_end - e->after, key + e->len - e->after, e->after) == 0;
}

/*
 * The entry that has the key; NULL if there is none.  At most half of the slots are taken,
 * so the loops here end.
 */
static inline const DictionaryEntry *
find_entry(const StenoBlock *block, const Dictionary *d, uint32_t hash,
		   const uint8_t *key, uint32_t len)
{
	uint32_t	i;

	for (i = hash & d->mask; d->slots[i] != 0; i = (i + 1) & d->mask)
	{
		const DictionaryEntry *e = &d->entries[d->slots[i] - 1];

		if (e->hash == hash && e->len == len && has_key(block, e, key))
			return e;
	}
	return NULL;
}

/* Let an empty slot lead to an entry. */
static inline void
take_slot(Dictionary *d, uint32_t entry)
{
	uint32_t	i = d->entries[entry].hash & d->mask;

	while (d->slots[i] != 0)
		i = (i + 1) & d->mask;
	d->slots[i] = entry + 1;
}

/* Use four times as many slots, or as many as there are. */
static void
use_more_slots(Dictionary *d)
{
	uint32_t	n = (d->mask + 1) * 4;
	uint32_t	i;

	if (n > 2 * d->room)
		n = 2 * d->room;
	d->mask = n - 1;
	memset(d->slots, 0, n * sizeof(uint32_t));
	for (i = 0; i < d->used; i++)
		take_slot(d, i);
}

/*
 * A block with very short, unique keys can have more definitions than the
 * dictionary has entries.  A definition that finds none is not remembered; the key is defined
 * again if it occurs again.
 */
static void
add_definition(Dictionary *d, const DictionaryEntry *definition)
{
	if (d->used == d->room)
		return;
	d->entries[d->used] = *definition;
	d->entries[d->used].index = d->defined;
	if (2 * d->used > d->mask)
		use_more_slots(d);
	take_slot(d, d->used++);
}

/* Define a key; returns where it is in the payload. */
static const uint8_t *
define_whole(StenoBlock *block, Dictionary *d, uint8_t kind, uint32_t hash, const uint8_t *key, uint32_t len)
{
	uint8_t    *p = begin_item(block, kind, len + 1);
	DictionaryEntry e = {.hash = hash, .offset = (uint32_t) (p - block->payload), .len = len};

	add_definition(d, &e);
	end_item(block, len + 1, append_bytes(p, key, len));
	d->defined++;
	return p;
}

/* The index of a shape, which is defined now if it has not been. */
static inline uint32_t
intern_shape(StenoBlock *block, const uint8_t *shape, uint32_t len)
{
	uint32_t	hash = (uint32_t) XXH3_64bits(shape, len);
	const DictionaryEntry *e = find_entry(block, &block->shapes, hash, shape, len);

	if (e != NULL)
		return e->index;
	shape = define_whole(block, &block->shapes, STENO_KIND_DEF_SHAPE, hash, shape, len);
	if (block->index)
		steno_index_shape(block->index, shape, len);
	return block->shapes.defined - 1;
}

/* ---- texts ---- */

/*
 * Add the trigrams of a text that the text which it is a variant of does not have: those that
 * contain at least one byte of what differs.
 */
static void
index_variant(StenoBlock *block, const uint8_t *text, uint32_t len, uint32_t before, uint32_t after)
{
	uint32_t	from = before < 2 ? 0 : before - 2;
	uint32_t	to = after < 2 ? len : len - after + 2;

	steno_index_text(block->index, text + from, to - from);
}

/* Define a text as a variant of the base, if it is similar enough. */
static bool
define_variant(StenoBlock *block, const VariantBase *base, uint32_t hash, const uint8_t *text, uint32_t len)
{
	Dictionary *d = &block->texts;
	const uint8_t *other = block->payload + base->offset;
	uint32_t	least = len < base->len ? len : base->len;
	uint32_t	before = steno_common_begin(text, other, least);
	uint32_t	after = steno_common_end(text + len, other + base->len, least - before);
	uint32_t	different = len - before - after;
	uint32_t	guess = 5 + different;
	DictionaryEntry e = {.hash = hash, .len = len, .before = before, .after = after,
		.base = base->offset, .base_end = base->offset + base->len};
	uint8_t    *p;

	if (different > VARIANT_DIFFERENT || different > len / 2 || len > STENO_VARIANTS_MAX - block->variants_bytes)
		return false;
	p = begin_item(block, STENO_KIND_DEF_VARIANT, guess);
	p = steno_put_varint(p, base->index);
	p = steno_put_varint(p, before);
	p = steno_put_varint(p, after);
	e.offset = (uint32_t) (p - block->payload);
	p = append_bytes(p, text + before, different);
	e.offset += (uint32_t) end_item(block, guess, p);
	add_definition(d, &e);
	d->defined++;
	block->variants_bytes += len;
	if (block->index)
		index_variant(block, text, len, before, after);
	return true;
}

/* A number for how a text begins that has at least VARIANT_BEGINS bytes. */
static inline uint64_t
hash_of_begin(const uint8_t *text)
{
	uint64_t	begin[VARIANT_BEGINS / 8];

	memcpy(begin, text, sizeof(begin));
	return (begin[0] ^ begin[1] * 3) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint32_t
define_text(StenoBlock *block, uint32_t hash, const uint8_t *text, uint32_t len)
{
	VariantBase *base = NULL;
	const uint8_t *p;

	if (len >= VARIANT_BEGINS)
	{
		base = &block->bases[hash_of_begin(text) >> 58];
		if (base->generation == block->generation && define_variant(block, base, hash, text, len))
			return block->texts.defined - 1;
	}
	p = define_whole(block, &block->texts, STENO_KIND_DEF_TEXT, hash, text, len);
	if (base)
		*base = (VariantBase) {block->generation, (uint32_t) (p - block->payload), len, block->texts.defined - 1};
	if (block->index)
		steno_index_text(block->index, p, len);
	return block->texts.defined - 1;
}
_Static_assert(VARIANT_BASES == 1 << (64 - 58), "the upper bits of the product are a number of a base");

/* The index of a text, which is defined now if it has not been. */
static inline uint32_t
intern_text(StenoBlock *block, const uint8_t *text, uint32_t len)
{
	uint32_t	hash = (uint32_t) XXH3_64bits(text, len);
	const DictionaryEntry *e = find_entry(block, &block->texts, hash, text, len);

	return e != NULL ? e->index : define_text(block, hash, text, len);
}

/* ---- sessions ---- */

/*
 * The index of the source's session definition.  If the block has had this
 * definition already, and another one since, its expected numbers are still those
 * after its own last record, as they are for a reader.
 */
static uint32_t
intern_session(StenoBlock *block, StenoSource *source)
{
	Dictionary *d = &block->sessions;
	uint32_t	len = source->body_len;
	uint32_t	hash = (uint32_t) XXH3_64bits(source->body, len);
	const DictionaryEntry *e = find_entry(block, d, hash, source->body, len);

	if (e != NULL)
		source->index = e->index;
	else
	{
		uint32_t	guess = len + 1 + steno_varint_size(source->seq) +
			steno_varint_size(source->statement);
		uint8_t    *p = begin_item(block, STENO_KIND_DEF_SESSION, guess);
		DictionaryEntry new = {.hash = hash, .len = len};

		p = steno_put_varint(p, source->seq);
		p = steno_put_varint(p, source->statement);
		new.offset = (uint32_t) (p - block->payload);
		add_definition(d, &new);
		end_item(block, guess, append_bytes(p, source->body, len));
		if (block->index)
			steno_index_session(block->index, source->body, len);
		block->expected[d->defined].seq = source->seq;
		block->expected[d->defined].statement = source->statement;
		block->expected[d->defined].xid = 0;
		source->index = d->defined++;
	}
	source->generation = block->generation;
	return source->index;
}

static inline uint32_t
session_index(StenoBlock *block, StenoSource *source)
{
	if (source->generation == block->generation)
		return source->index;
	return intern_session(block, source);
}

/* ---- records ---- */

_Static_assert(STENO_KIND_STATEMENT == 1 && STENO_KIND_START == 2,
			   "only statement and start records have a statement number");

static inline void
take_apart(Parsed *m, const StenoRecordMessage *r)
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
record_mask(const Parsed *m)
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

/*
 * The difference between the record's number and the one that a reader expects;
 * also updates what it expects next.
 */
static inline int64_t
advance_seq(Expected *e, uint64_t seq)
{
	int64_t		difference = (int64_t) (seq - (e->seq + 1));

	/* 0 means not numbered: the next record is expected to follow the one before */
	if (seq != 0)
		e->seq = seq;
	return difference;
}

/* The same for the statement number.  last: no other record has this number. */
static inline int64_t
advance_statement(Expected *e, uint64_t statement, bool last)
{
	int64_t		difference = (int64_t) (statement - (e->statement + 1));

	e->statement = last ? statement : statement - 1;
	return difference;
}

/* Put where a commit is in the WAL.  Differences that do not fit the type wrap around, and so do a reader's sums. */
static inline uint8_t *
put_commit(StenoBlock *block, uint8_t *p, uint64_t lsn, uint64_t lsn_end, uint32_t timeline)
{
	p = steno_put_varint(p, steno_zigzag((int64_t) (lsn - block->previous_lsn)));
	p = steno_put_varint(p, lsn_end - lsn);
	p = steno_put_varint(p, timeline);
	block->previous_lsn = lsn_end;
	return p;
}

/* Append the fields that few records have. */
static uint8_t *
append_rare_fields(StenoBlock *block, uint8_t *p, uint32_t mask, const Parsed *m)
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

/* When a statement ended, for the times of the block header. */
static inline int64_t
end_time(int64_t time, uint64_t duration)
{
	if (duration == STENO_NONE64)
		return time;
	if (duration > (uint64_t) INT64_MAX - (uint64_t) (time > 0 ? time : 0))
		return INT64_MAX;
	return time + (int64_t) duration;
}

static inline void
widen_time_range(StenoBlock *block, int64_t time, int64_t end)
{
	if (block->records++ == 0)
	{
		block->first_time = time;
		block->first_end = end;
		block->last_end = end;
		block->first_record_time = time;
	}
	else
	{
		if (time < block->first_time)
			block->first_time = time;
		if (end < block->first_end)
			block->first_end = end;
		if (end > block->last_end)
			block->last_end = end;
	}
	block->previous_time = time;
}

/*
 * The difference to the time of the record before.  It wraps around if it does not
 * fit into the type, and so does a reader's sum, which then yields the time again.
 */
static inline int64_t
elapsed_since(const StenoBlock *block, int64_t time)
{
	return (int64_t) ((uint64_t) time - (uint64_t) block->previous_time);
}

/* ---- forms and runs ---- */

static inline void
begin_place(StenoFormPlace *k, uint64_t generation, uint32_t shape, uint32_t text)
{
	k->generation = generation;
	k->shape = shape;
	k->text = text;
	k->used = false;
	k->form = 0;
	k->varies = false;
}

/*
 * Define the form of records with the place's shape and text.  The rows of a form are those of
 * the record that it is defined for; when a record has another number, the next form leaves them
 * to its records.
 */
static void
define_form(StenoBlock *block, StenoFormPlace *k, uint32_t session, uint32_t mask, uint64_t rows,
			uint8_t values_len)
{
	uint32_t	guess = 20;
	uint8_t    *p = begin_item(block, STENO_KIND_DEF_FORM, guess);

	k->own_rows = k->form != 0 && k->session == session && k->mask == mask;
	k->session = session;
	k->mask = mask;
	k->rows = rows;
	k->values_len = values_len;
	p = steno_put_varint(p, session);
	p = steno_put_varint(p, mask);
	p = steno_put_varint(p, k->shape);
	p = steno_put_varint(p, k->text);
	if (mask & STENO_FIELD_ROWS)
		p = steno_put_varint(p, k->own_rows ? 0 : rows + 1);
	if (mask & STENO_FIELD_VALUES)
		p = steno_put_varint(p, values_len);
	if (k->varies)
		p = steno_put_varint(steno_put_varint(p, k->before), k->after);
	end_item(block, guess, p);
	k->form = ++block->forms;
}

/*
 * Whether the record can be put into a run.  A form is not worth its definition until the second
 * record of the block that has it.
 */
static inline bool
has_form(StenoBlock *block, StenoFormPlace *k, uint32_t session, uint32_t mask, uint64_t rows,
		 uint8_t values_len)
{
	if (k->form != 0 && k->session == session && k->mask == mask && k->values_len == values_len &&
		(k->own_rows || k->rows == rows))
		return true;
	if (!k->used || block->forms >= block->max_forms)
	{
		k->used = true;
		return false;
	}
	/* one that sometimes has another mask or other values keeps the form that it has */
	if (k->form != 0 && k->session == session && (k->mask != mask || k->values_len != values_len))
		return false;
	define_form(block, k, session, mask, rows, values_len);
	return true;
}

/* A varint of two bytes, even if one is enough. */
static inline uint8_t *
put_two_bytes(uint8_t *p, uint32_t v)
{
	*p++ = (uint8_t) (v | 0x80);
	*p++ = (uint8_t) (v >> 7);
	return p;
}

/* What a record in a run has of its own. */
typedef struct RunRecord
{
	const uint8_t *text;		/* if the texts of its form vary: what is between their common parts */
	uint32_t	text_len;
	const uint8_t *values;
	int64_t		elapsed;
	uint64_t	rows;
	uint64_t	duration;
	uint64_t	xid;
} RunRecord;

/* Put the length of the last run, and how many records it has, in front of it. */
static inline void
complete_run(StenoBlock *block)
{
	uint8_t    *p = put_two_bytes(block->payload + block->run_start, block->used - block->run_start - 2);

	*p++ = STENO_KIND_RUN;
	put_two_bytes(p, block->run_records);
}

/*
 * Add a record to the run at the end of the payload, or begin one.  complete_run must follow before anything
 * else is done with the payload, but for another record of the same run.
 */
static inline void
extend_run(StenoBlock *block, const StenoFormPlace *k, const RunRecord *r)
{
	Expected   *e = &block->expected[k->session];
	uint8_t    *p;

	if (block->run_end != block->used ||
		block->used - block->run_start + RUN_RECORD_MAX + k->values_len + r->text_len > RUN_MAX)
	{
		if (block->run_end == block->used)
			complete_run(block);
		block->run_start = block->used;
		block->run_records = 0;
		block->used += RUN_HEAD;
	}
	p = block->payload + block->used;
	p = steno_put_varint(p, k->form - 1);
	if (k->varies)
		p = append_string(p, r->text, r->text_len);
	if (k->own_rows && k->mask & STENO_FIELD_ROWS)
		p = steno_put_varint(p, r->rows);
	p = steno_put_varint(p, steno_zigzag(r->elapsed));
	if (k->mask & STENO_FIELD_DURATION)
		p = steno_put_varint(p, r->duration);
	if (k->mask & STENO_FIELD_VALUES)
		p = append_bytes(p, r->values, k->values_len);
	if (k->mask & STENO_FIELD_XID)
	{
		p = steno_put_varint(p, steno_zigzag((int64_t) (r->xid - e->xid)));
		e->xid = r->xid;
	}
	block->used = (uint32_t) (p - block->payload);
	block->run_end = block->used;
	block->run_records++;
}

static void
add_to_run(StenoBlock *block, const StenoFormPlace *k, const RunRecord *r)
{
	extend_run(block, k, r);
	complete_run(block);
}

/* ---- statements that are not prepared ---- */

/* The fields that records of a form may have. */
#define FORM_FIELDS (STENO_FIELD_SHAPE | STENO_FIELD_TEXT | STENO_FIELD_ROWS | STENO_FIELD_TIME | \
					 STENO_FIELD_DURATION | STENO_FIELD_VALUES | STENO_FIELD_XID)

/* Whether a record could be in a run, by itself: the others of its session and statement decide. */
static inline bool
may_have_form(const StenoBlock *block, const StenoRecordMessage *r, uint32_t mask, int64_t seq, int64_t statement)
{
	return (mask & ~(uint32_t) FORM_FIELDS) == 0 && (seq | statement) == 0 && r->m.kind == STENO_KIND_STATEMENT &&
		mask & STENO_FIELD_SHAPE && mask & STENO_FIELD_TEXT && r->text_len >= VARIANT_BEGINS &&
		r->values_len <= UINT8_MAX && block->records > 0;
}

static inline Statement *
statement_of(StenoBlock *block, uint32_t session, const Parsed *m)
{
	uint64_t	where = session + m->r->shape_len * UINT64_C(64);
	uint64_t	hash = hash_of_begin(m->text) + where * UINT64_C(0x9e3779b97f4a7c15);

	return &block->statements[hash >> 55];
}
_Static_assert(STATEMENTS == 1 << (64 - 55), "the upper bits of the hash are a number of a statement");

static inline bool
is_same_statement(const StenoBlock *block, const Statement *s, uint32_t session, const Parsed *m)
{
	return s->place.generation == block->generation && s->session == session && s->shape_len == m->r->shape_len &&
		memcmp(block->payload + s->shape, m->shape, s->shape_len) == 0;
}

/* Whether a text is that of the statement, or one that its form can have. */
static inline bool
has_same_text(const StenoBlock *block, const Statement *s, const uint8_t *text, uint32_t len)
{
	const StenoFormPlace *k = &s->place;
	const uint8_t *other = block->payload + s->text;

	if (!k->varies)
		return len == s->text_len && memcmp(text, other, len) == 0;
	return len >= k->before + k->after && len - k->before - k->after <= VARIANT_DIFFERENT &&
		len <= STENO_VARIANTS_MAX - block->variants_bytes &&
		memcmp(text, other, k->before) == 0 &&
		memcmp(text + len - k->after, other + s->text_len - k->after, k->after) == 0;
}

/*
 * From now on, the statement's form has texts that vary, and this is one of them; unless
 * it is too different.  Words are not divided, so the next texts are likely to differ in the same
 * part.
 */
static void
vary_text(const StenoBlock *block, Statement *s, const uint8_t *text, uint32_t len)
{
	const uint8_t *other = block->payload + s->text;
	uint32_t	least = len < s->text_len ? len : s->text_len;
	uint32_t	before = steno_common_begin(text, other, least);
	uint32_t	after = steno_common_end(text + len, other + s->text_len, least - before);

	while (before > 0 && steno_is_inside_word(other[before - 1]))
		before--;
	while (after > 0 && steno_is_inside_word(other[s->text_len - after]))
		after--;
	if (s->place.varies)
	{
		before = before < s->place.before ? before : s->place.before;
		after = after < s->place.after ? after : s->place.after;
	}
	if (len - before - after > VARIANT_DIFFERENT || before + after < len / 2)
		return;
	s->place.varies = true;
	s->place.before = before;
	s->place.after = after;
	s->place.form = 0;
}

/*
 * A record that has no form although it may have one was added, with these indexes of shape
 * and text: the next ones of its statement may be similar.
 */
static void
remember_statement(StenoBlock *block, uint32_t session, const Parsed *m, uint32_t shape, uint32_t text)
{
	const VariantBase *base = &block->bases[hash_of_begin(m->text) >> 58];
	Statement  *s = statement_of(block, session, m);
	const DictionaryEntry *e = &block->shapes.entries[shape];

	if (is_same_statement(block, s, session, m))
	{
		/* else, it is other values or fields that the form does not have */
		if (!has_same_text(block, s, m->text, m->r->text_len))
			vary_text(block, s, m->text, m->r->text_len);
		return;
	}
	if (base->generation != block->generation || shape >= block->shapes.used || e->index != shape)
		return;
	begin_place(&s->place, block->generation, shape, base->index);
	s->place.used = true;
	s->session = session;
	s->shape = e->offset;
	s->shape_len = e->len;
	s->text = base->offset;
	s->text_len = base->len;
	if (base->index != text)
		vary_text(block, s, m->text, m->r->text_len);
}

/* Put a record into a run that may have a form; false if it has none. */
static bool
add_statement(StenoBlock *block, uint32_t session, const Parsed *m, uint32_t mask, int64_t elapsed)
{
	const StenoRecordMessage *r = m->r;
	Statement  *s = statement_of(block, session, m);
	StenoFormPlace *k = &s->place;
	RunRecord	own = {.values = m->values, .elapsed = elapsed, .rows = r->rows, .duration = r->duration,
		.xid = steno_message_xid(r)};

	if (!is_same_statement(block, s, session, m) || !has_same_text(block, s, m->text, r->text_len) ||
		!has_form(block, k, session, mask | STENO_FIELD_TIME, r->rows, (uint8_t) r->values_len))
		return false;
	if (k->varies)
	{
		own.text = m->text + k->before;
		own.text_len = r->text_len - k->before - k->after;
		block->texts.defined++;
		block->variants_bytes += r->text_len;
		if (block->index)
			index_variant(block, m->text, r->text_len, k->before, k->after);
	}
	add_to_run(block, k, &own);
	return true;
}

/* Add a record as an item of its own.  remember: the next ones of its statement may have a form. */
static void
add_item(StenoBlock *block, uint32_t session, const Parsed *m, uint32_t mask, int64_t elapsed,
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
		shape = intern_shape(block, m->shape, r->shape_len);
	if (mask & STENO_FIELD_TEXT)
		text = intern_text(block, m->text, r->text_len);
	if (remember)
		remember_statement(block, session, m, shape, text);
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
		p += PADDED_TIME;
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

static void
add_record(StenoBlock *block, StenoSource *source, const StenoRecordMessage *r)
{
	Parsed		m;
	uint32_t	session = session_index(block, source);
	Expected   *e = &block->expected[session];
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
	if (!may || !add_statement(block, session, &m, mask, elapsed))
		add_item(block, session, &m, mask, elapsed, seq, statement, may);

	widen_time_range(block, r->time, r->m.kind != STENO_KIND_STATEMENT ? r->time :
					 end_time(r->time, m.times.elapsed != STENO_NONE64 ? m.times.elapsed : r->duration));
	/* continue with the numbers expected for this definition, which may not be the source's */
	if (r->seq != 0)
		source->seq = e->seq;
	if (r->m.kind <= STENO_KIND_START)
		source->statement = e->statement;
}

/* ---- brief records ---- */

/* The shape of commits: a class. */
static const uint8_t bare_transaction[STENO_BARE_SHAPE] = {STENO_CLASS_TRANSACTION};

/* The index of the text of a brief record that has this template. */
static uint32_t
intern_brief_text(StenoBlock *block, const StenoBriefMessage *b, const StenoTemplate *t)
{
	StenoBriefValues v = steno_brief_values(b, steno_template_varies(t));
	uint8_t		text[STENO_TEMPLATE_ROOM + UINT8_MAX];

	return intern_text(block, text, (uint32_t) (steno_brief_text(t, &v, text) - text));
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
	shape = intern_shape(block, t->bytes, t->shape_len);
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
	text = intern_text(block, b->values, b->values_len);
	if (k->generation != block->generation || k->text != text)
		begin_place(k, block->generation,
					intern_shape(block, shape, steno_control_shape(b->template, shape)), text);
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
			 const StenoBriefValues *v, RunRecord *own)
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
	/* the trigrams that the text of the form does not have, as in index_variant */
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

/*
 * Add a brief record.  What it says is the same as what add_record would make of its full form;
 * the item is shorter if the record has a form.
 */
static void
add_brief(StenoBlock *block, StenoSource *source, const StenoBriefMessage *b)
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
	Expected   *e;

	if (block->records > 0 && !(b->m.flags & (STENO_MESSAGE_NESTED | STENO_MESSAGE_TIMES)))
		k = b->template >= STENO_BRIEF_BEGIN ? control_place(block, source, b) : template_place(block, source, b);
	if (k == NULL)
	{
		StenoWhole	room;

		add_record(block, source, steno_message_whole(&b->m, source->templates, source->seq + 1,
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
		RunRecord	own = {.values = v.values, .elapsed = elapsed, .rows = n.rows, .duration = n.duration, .xid = xid};

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

static inline bool
has_room(const StenoBlock *block, const StenoSource *source, uint32_t len)
{
	return (uint64_t) block->used + len + source->body_len + OVERHEAD <= block->capacity &&
		block->sessions.defined < block->max_sessions;
}

/*
 * Add the brief record of a commit.  The first one of the block is made by add_record, and so are those with
 * unexpected numbers; what they say is the same.
 */
static void
add_brief_commit(StenoBlock *block, StenoSource *source, const StenoCommitMessage *c)
{
	uint32_t	session = session_index(block, source);
	Expected   *e = &block->expected[session];
	int64_t		elapsed = elapsed_since(block, c->time);
	uint32_t	mask = STENO_FIELD_SHAPE | STENO_FIELD_DURATION | STENO_FIELD_EVENT | STENO_FIELD_STATEMENTS |
		(elapsed != 0 ? STENO_FIELD_TIME : 0) | (c->xid != 0 ? STENO_FIELD_XID : 0) |
		(c->lsn != 0 ? STENO_FIELD_COMMIT : 0);
	uint32_t	guess = 24;
	uint8_t    *p;

	if (block->commit_shape == 0 || e->seq != source->seq)
	{
		StenoWhole	room;

		add_record(block, source, steno_message_whole(&c->m, NULL, source->seq + 1, 0, &room));
		block->commit_shape = intern_shape(block, bare_transaction, sizeof(bare_transaction)) + 1;
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
	RunRecord	own = {
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
	Expected   *e;

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

/* ---- other messages ---- */

/*
 * Remember the session definition; intern_session writes it when a record needs it.
 * A body that does not fit into the source loses its facts, but not start time and
 * process ID, which identify the session.
 */
static void
set_session(StenoSource *source, const StenoSessionMessage *m)
{
	const uint8_t *body = (const uint8_t *) (m + 1);
	uint32_t	len = m->body_len <= STENO_SESSION_MAX ? m->body_len : STENO_SESSION_FACTS;

	source->seq = m->seq;
	source->statement = m->statement;
	if (len == source->body_len && memcmp(source->body, body, len) == 0)
		return;
	memcpy(source->body, body, len);
	source->body_len = len;
	source->generation = 0;
}

static void
add_data(StenoBlock *block, StenoSource *source, const StenoDataMessage *d)
{
	uint32_t	session = session_index(block, source);
	uint32_t	guess = 2 + steno_varint_size(session) + steno_varint_size(d->seq) + d->len;
	uint8_t    *p = begin_item(block, STENO_KIND_DATA, guess);
	const uint8_t *bytes = (const uint8_t *) (d + 1);

	if (d->m.flags & STENO_MESSAGE_CHUNK)
		bytes = source->chunks + (size_t) steno_data_chunk(d) * STENO_CHUNK;
	p = steno_put_varint(p, session);
	p = steno_put_varint(p, d->seq);
	*p++ = (uint8_t) d->part;
	end_item(block, guess, append_bytes(p, bytes, d->len));
	block->data_bytes += d->len;
}

bool
steno_block_add(StenoBlock *block, StenoSource *source, const StenoMessage *message)
{
	if (message->kind == STENO_KIND_DEF_SESSION)
	{
		set_session(source, (const StenoSessionMessage *) message);
		return true;
	}
	if (message->kind == 0 || message->kind > STENO_KIND_DATA)
		return true;
	if (source->body_len < STENO_SESSION_FACTS)
	{
		/* no session message has come: an anonymous session keeps the block valid */
		memset(source->body, 0, STENO_SESSION_FACTS);
		source->body_len = STENO_SESSION_FACTS;
		source->generation = 0;
	}
	if (message->flags & STENO_MESSAGE_BRIEF && message->kind < STENO_KIND_DATA)
	{
		if (!has_room(block, source, message->len + sizeof(StenoWhole)))
			return false;
		if (message->kind == STENO_KIND_TRANSACTION)
			add_brief_commit(block, source, (const StenoCommitMessage *) message);
		else
			add_brief(block, source, (const StenoBriefMessage *) message);
		return true;
	}
	if (message->kind == STENO_KIND_DATA)
	{
		const StenoDataMessage *data = (const StenoDataMessage *) message;

		/* its bytes may be in a chunk */
		if (!has_room(block, source, (uint32_t) sizeof(*data) + data->len))
			return false;
		add_data(block, source, data);
		return true;
	}
	if (!has_room(block, source, message->len))
		return false;
	add_record(block, source, (const StenoRecordMessage *) message);
	return true;
}

/* ---- the finished block ---- */

void
steno_block_add_index(StenoBlock *block)
{
	uint32_t	guess = STENO_INDEX_MAX;
	uint8_t    *p = begin_item(block, STENO_KIND_DEF_INDEX, guess);

	end_item(block, guess, p + steno_index_take(block->index, p));
}

/*
 * Fill in the first record's time, in a varint of fixed length: it is relative to
 * the earliest time of the block, which was not known when the record was added.
 */
static void
patch_first_time(StenoBlock *block)
{
	uint64_t	v = steno_zigzag((int64_t) ((uint64_t) block->first_record_time -
											(uint64_t) block->first_time));
	uint8_t    *p = block->payload + block->first_record_at;
	int			i;

	for (i = 0; i < PADDED_TIME - 1; i++, v >>= 7)
		p[i] = (uint8_t) (v | 0x80);
	p[i] = (uint8_t) v;
}

/*
 * Whether compression is worth its time.  Large values are often compressed or encoded
 * already, and trying to compress them takes longer than writing them.  So compress
 * samples first: if these hardly become smaller, neither does the rest.
 */
static bool
is_compressible(StenoBlock *block, uint8_t *out)
{
	uint32_t	before = 0;
	uint32_t	after = 0;
	uint32_t	i;

	if (block->used < MIN_SAMPLED || !is_of_values(block))
		return true;
	for (i = 0; i < SAMPLES; i++)
	{
		/* from the middle of the i-th part */
		uint32_t	at = (uint32_t) ((uint64_t) block->used * (2 * i + 1) / (2 * SAMPLES));
		int			n = LZ4_compress_fast_extState(block->lz4, (const char *) block->payload + at,
												   (char *) out, SAMPLE_BYTES,
												   LZ4_compressBound(SAMPLE_BYTES), 1);

		before += SAMPLE_BYTES;
		after += n > 0 ? (uint32_t) n : SAMPLE_BYTES;
	}
	return after < before - before / 32;
}

/* Compress the payload to out if that makes it smaller; returns the codec that was used. */
static int
compress_payload(StenoBlock *block, int codec, uint8_t *out, uint32_t *stored)
{
	bool		of_values = is_of_values(block);
	int			n = 0;

	*stored = block->used;
	if (codec == STENO_CODEC_LZ4 && block->used > block->not_tried[of_values] && is_compressible(block, out))
	{
		n = LZ4_compress_fast_extState(block->lz4, (const char *) block->payload,
									   (char *) out, (int) block->used,
									   LZ4_compressBound((int) block->room),
									   block->used < MIN_ACCELERATED ? 1 : block->acceleration[of_values]);
		if (n > 0 && (uint32_t) n < block->used && block->used >= MIN_ACCELERATED)
			block->next_acceleration[of_values] = ACCELERATION(block->used, block->used - (uint32_t) n);
		block->incompressible = n <= 0 || (uint32_t) n > block->used - MIN_SAVED(block->used, of_values);
	}
	if (n <= 0 || (uint32_t) n >= block->used)
		return STENO_CODEC_NONE;
	*stored = (uint32_t) n;
	return STENO_CODEC_LZ4;
}

/*
 * Encrypt the payload.  A compressed one is encrypted in place; one that
 * compression did not make smaller is still in block->payload.
 */
static bool
encrypt_payload(StenoBlock *block, StenoBlockHeader *h)
{
	uint8_t    *out = block->packed + STENO_BLOCK_HEADER;
	uint32_t	len = h->stored;

	h->flags |= STENO_BLOCK_ENCRYPTED;
	h->stored = len + STENO_PAYLOAD_EXTRA;
	steno_block_header_write(block->packed, h);
	return steno_crypt_payload(block->crypt, block->packed,
							   h->codec == STENO_CODEC_NONE ? block->payload : out + STENO_NONCE_SIZE,
							   len, out);
}

static bool
chain_block(EVP_MD_CTX *sha, const uint8_t *bytes, uint32_t stored,
			uint8_t chain[STENO_HASH_SIZE])
{
	/* without a type, the context keeps the one of its creation and allocates nothing */
	return EVP_DigestInit_ex(sha, NULL, NULL) == 1 &&
		EVP_DigestUpdate(sha, chain, STENO_HASH_SIZE) == 1 &&
		EVP_DigestUpdate(sha, bytes, STENO_BLOCK_CHAINED) == 1 &&
		EVP_DigestUpdate(sha, bytes + STENO_BLOCK_HEADER, stored) == 1 &&
		EVP_DigestFinal_ex(sha, chain, NULL) == 1;
}

const uint8_t *
steno_block_finish(StenoBlock *block, int codec, uint64_t block_number,
				   uint64_t first_record, int64_t now,
				   uint8_t chain[STENO_HASH_SIZE], size_t *bytes)
{
	StenoBlockHeader h = {0};
	bool		encrypted = steno_crypt_active(block->crypt);
	uint8_t    *packed = block->packed + STENO_BLOCK_HEADER;
	uint8_t    *out;

	if (block->records > 0)
		patch_first_time(block);
	h.codec = (uint8_t) compress_payload(block, codec, encrypted ? packed + STENO_NONCE_SIZE : packed,
										 &h.stored);
	out = h.codec == STENO_CODEC_NONE && !encrypted ? block->buffer : block->packed;
	h.raw = block->used;
	h.records = block->records;
	h.block = block_number;
	h.first_record = first_record;
	h.first_time = block->records > 0 ? block->first_time : now;
	h.first_end = block->records > 0 ? block->first_end : now;
	h.last_end = block->records > 0 ? block->last_end : now;
	if (encrypted && !encrypt_payload(block, &h))
		return NULL;
	h.payload_sum = XXH64(out + STENO_BLOCK_HEADER, h.stored, 0);
	steno_block_header_write(out, &h);
	if (!chain_block(block->sha, out, h.stored, chain))
		return NULL;
	steno_block_header_seal(out, chain);
	*bytes = STENO_BLOCK_HEADER + (size_t) h.stored;
	return out;
}
