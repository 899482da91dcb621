/*
 * core/block/index.c
 *		The index of a segment.
 *
 * Terms, such as the name of a relation, are in one hash table, with a bitmap for
 * each that says which groups of blocks contain it.  A group is one block at first;
 * whenever there are STENO_INDEX_GROUPS of them, each two neighbors become one.
 *
 * What the open block contains is kept apart until it is committed: the writer may
 * empty the block without writing it.
 *
 * Almost everything is added only when a block gets a new definition, so a record
 * costs nothing.  What would cost time for each record is limited: the bytes of
 * texts that are looked at (TEXT_BYTES), and results, which are bits of an array.
 */
#include <stdlib.h>

#include "block/index.h"
#include "header.h"

/* Number of the highest list of terms; STENO_TERMS_TRIGRAMS is not one. */
#define TERM_LISTS STENO_TERMS_OMISSIONS
#define LISTS (TERM_LISTS + 1)

#define MAX_TERMS 4096
#define SLOTS (2 * MAX_TERMS)
#define STRINGS (256 * 1024)
#define WORDS (STENO_INDEX_GROUPS / 64)
#define FILTER_WORDS (STENO_INDEX_FILTER / 8)

/*
 * How many bytes of texts and messages of a block are looked at.  Each counts some more,
 * because a block that has hundreds of texts that differ only a little probably has thousands.
 */
#define TEXT_BYTES (32 * 1024)
#define TEXT_OVERHEAD 32

/* Groups of fewer bytes than this are not worth distinguishing from their neighbors. */
#define GROUP_BYTES (16 * 1024)

/* Highest outcome that is a bit of results[]. */
#define MAX_OUTCOME 7

/* How many terms each list may have, so that none takes the space of the others. */
static const uint16_t quota[TERM_LISTS + 1] = {
	[STENO_TERMS_USERS] = 256,
	[STENO_TERMS_DATABASES] = 128,
	[STENO_TERMS_ROLES] = 256,
	[STENO_TERMS_APPLICATIONS] = 256,
	[STENO_TERMS_APP_USERS] = 256,
	[STENO_TERMS_ENCODINGS] = 32,
	[STENO_TERMS_RESULTS] = 64,
	[STENO_TERMS_SQLSTATES] = 256,
	[STENO_TERMS_CLASSES] = 32,
	[STENO_TERMS_COMMANDS] = 128,
	[STENO_TERMS_RELATIONS] = 1024,
	[STENO_TERMS_COLUMNS] = 1024,
	[STENO_TERMS_OBJECTS] = 352,
	[STENO_TERMS_VALUES] = 32,
	[STENO_TERMS_OMISSIONS] = 16,
};

typedef struct Term
{
	uint32_t	hash;
	uint32_t	offset;			/* of its bytes in strings */
	uint16_t	len;
	uint8_t		list;
	bool		used;			/* a committed block has it */
} Term;

typedef uint64_t Groups[WORDS]; /* a bit for each group */

struct StenoIndex
{
	uint32_t	newest;			/* the highest list that is written */

	/* committed blocks */
	uint64_t	segment;
	uint64_t	first;			/* number of the first one */
	uint64_t	blocks;
	uint64_t	bytes;
	bool		taken;			/* the next block to be committed is an index */
	uint32_t	group;			/* blocks in a group, a power of two */
	Groups		omitted[LISTS]; /* which groups contain more of each list than is listed */

	/* terms of all blocks */
	uint32_t	nterms;
	uint32_t	strings_used;
	uint16_t	listed[TERM_LISTS + 1];
	Term		terms[MAX_TERMS];
	Groups		found[MAX_TERMS];	/* of a term that is used */
	uint16_t	slots[SLOTS];	/* number of a term, plus 1; 0: empty */
	uint8_t		strings[STRINGS];
	uint64_t	filters[STENO_INDEX_GROUPS][FILTER_WORDS];

	/* the open block */
	uint64_t	open[MAX_TERMS / 64];
	uint32_t	open_omitted;	/* a bit for each list */
	uint8_t		results[STENO_KIND_DATA];	/* bits of outcomes, by kind */
	uint64_t	filter[FILTER_WORDS];
	bool		filter_used;
	uint32_t	text_bytes;		/* looked at */

	uint8_t		folded[256];	/* a character as trigrams have it; 0: they do not */
};

/* ---- creation ---- */

StenoIndex *
steno_index_create(void)
{
	StenoIndex *index = calloc(1, sizeof(StenoIndex));
	int			c;

	if (index == NULL)
		return NULL;
	index->group = 1;
	index->newest = TERM_LISTS;
	for (c = 0x20; c < 0x7f; c++)
		index->folded[c] = (uint8_t) (c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
	return index;
}

void
steno_index_set_newest(StenoIndex *index, uint32_t list)
{
	index->newest = list;
}

void
steno_index_destroy(StenoIndex *index)
{
	free(index);
}

/*
 * Forget all committed blocks, and all terms but those of the open block.  Terms are
 * in the order of their bytes in strings, so both can be moved down in one pass.
 */
static void
forget_blocks(StenoIndex *index)
{
	uint64_t	groups = (index->blocks + index->group - 1) / index->group;
	uint32_t	before = index->nterms;
	uint32_t	i;

	memset(index->filters, 0, groups * sizeof(index->filters[0]));
	memset(index->omitted, 0, sizeof(index->omitted));
	index->blocks = 0;
	index->bytes = 0;
	index->group = 1;

	memset(index->slots, 0, sizeof(index->slots));
	memset(index->listed, 0, sizeof(index->listed));
	index->nterms = 0;
	index->strings_used = 0;
	for (i = 0; i < before; i++)
	{
		Term	   *t = &index->terms[index->nterms];
		uint32_t	slot;

		if (!(index->open[i / 64] >> (i % 64) & 1))
			continue;
		*t = index->terms[i];
		memmove(index->strings + index->strings_used, index->strings + t->offset, t->len);
		t->offset = index->strings_used;
		t->used = false;
		index->strings_used += t->len;
		index->listed[t->list]++;
		for (slot = t->hash % SLOTS; index->slots[slot] != 0; slot = (slot + 1) % SLOTS)
			;
		index->slots[slot] = (uint16_t) ++index->nterms;
	}
	memset(index->open, 0, sizeof(index->open));
	for (i = 0; i < index->nterms; i++)
		index->open[i / 64] |= UINT64_C(1) << (i % 64);
}

/* ---- the open block ---- */

static inline void
omit(StenoIndex *index, uint32_t list)
{
	index->open_omitted |= 1u << list;
}

static void
add_term(StenoIndex *index, uint32_t list, const void *bytes, uint64_t len)
{
	uint32_t	hash;
	uint32_t	i;
	uint32_t	n;
	Term	   *t;

	if (len > STENO_INDEX_TERM_MAX)
	{
		omit(index, list);
		return;
	}
	hash = (uint32_t) XXH3_64bits_withSeed(bytes, len, list);
	for (i = hash % SLOTS; (n = index->slots[i]) != 0; i = (i + 1) % SLOTS)
	{
		t = &index->terms[n - 1];
		if (t->hash == hash && t->list == list && t->len == len &&
			memcmp(index->strings + t->offset, bytes, len) == 0)
		{
			index->open[(n - 1) / 64] |= UINT64_C(1) << ((n - 1) % 64);
			return;
		}
	}
	/* half of the slots are always empty, so the loop ends */
	if (index->nterms == MAX_TERMS || index->listed[list] >= quota[list] ||
		index->strings_used + len > STRINGS)
	{
		omit(index, list);
		return;
	}
	n = index->nterms++;
	t = &index->terms[n];
	t->hash = hash;
	t->list = (uint8_t) list;
	t->len = (uint16_t) len;
	t->offset = index->strings_used;
	t->used = false;
	memcpy(index->strings + t->offset, bytes, len);
	index->strings_used += (uint32_t) len;
	index->listed[list]++;
	index->slots[i] = (uint16_t) (n + 1);
	index->open[n / 64] |= UINT64_C(1) << (n % 64);
}

/* Add a term that is made of a number and a name, with the name of a relation between them unless that is NULL. */
static void
add_named(StenoIndex *index, uint32_t list, uint64_t number, const StenoBytes *relation, const StenoBytes *name)
{
	uint8_t		term[2 * STENO_VARINT_MAX + STENO_INDEX_TERM_MAX];
	uint8_t    *p = steno_put_varint(term, number);

	if (name->len + (relation ? relation->len : 0) > STENO_INDEX_TERM_MAX)
	{
		omit(index, list);
		return;
	}
	if (relation)
	{
		p = steno_put_varint(p, relation->len);
		memcpy(p, relation->p, relation->len);
		p += relation->len;
	}
	if (name->len > 0)
		memcpy(p, name->p, name->len);
	add_term(index, list, term, (uint64_t) (p - term) + name->len);
}

void
steno_index_session(StenoIndex *index, const uint8_t *body, uint32_t len)
{
	static const uint8_t lists[] = {
		[STENO_SESSION_USER] = STENO_TERMS_USERS,
		[STENO_SESSION_DATABASE] = STENO_TERMS_DATABASES,
		[STENO_SESSION_ROLE] = STENO_TERMS_ROLES,
		[STENO_SESSION_APPLICATION] = STENO_TERMS_APPLICATIONS,
		[STENO_SESSION_APP_USER] = STENO_TERMS_APP_USERS,
		[STENO_SESSION_ENCODING] = STENO_TERMS_ENCODINGS,
	};
	StenoBytes	in = {body + STENO_SESSION_FACTS, len - STENO_SESSION_FACTS};
	uint8_t		key;
	StenoBytes	value;

	while (in.len > 0)
	{
		if (!steno_take_byte(&in, &key) || !steno_take_string(&in, &value))
		{
			/* damaged: nothing is known of it */
			for (key = 0; key < sizeof(lists); key++)
				if (lists[key] != 0)
					omit(index, lists[key]);
			return;
		}
		if (key < sizeof(lists) && lists[key] != 0 && value.len > 0)
			add_term(index, lists[key], value.p, value.len);
	}
}

/* The columns of a shape's relations, which are read a second time along with them. */
static bool
add_columns(StenoIndex *index, StenoBytes in, StenoBytes relations, uint64_t nrelations)
{
	StenoBytes	relation;
	StenoBytes	name;
	uint8_t		type;
	uint64_t	access;
	uint64_t	via;
	uint64_t	n;

	for (; nrelations > 0; nrelations--)
	{
		if (!steno_take_relation(&relations, &type, &access, &relation) ||
			!steno_take_varint(&in, &via) || !steno_take_varint(&in, &n))
			return false;
		for (; n > 0; n--)
		{
			if (!steno_take_varint(&in, &access) || !steno_take_string(&in, &name))
				return false;
			add_named(index, STENO_TERMS_COLUMNS, access, &relation, &name);
		}
	}
	return true;
}

/* A shape that does not list the columns of its relations: it may use any. */
static bool
add_any_columns(StenoIndex *index, StenoBytes relations, uint64_t nrelations)
{
	static const StenoBytes none = {(const uint8_t *) "", 0};
	StenoBytes	relation;
	uint8_t		type;
	uint64_t	access;

	for (; nrelations > 0; nrelations--)
	{
		if (!steno_take_relation(&relations, &type, &access, &relation))
			return false;
		access &= STENO_ACCESS_SELECT | STENO_ACCESS_INSERT | STENO_ACCESS_UPDATE;
		if (access != 0)
			add_named(index, STENO_TERMS_COLUMNS, access, &relation, &none);
	}
	return true;
}

static bool
add_shape(StenoIndex *index, StenoBytes in)
{
	uint64_t	class;
	uint64_t	query_id;
	uint64_t	nrelations;
	uint64_t	n;
	uint64_t	i;
	uint64_t	number;
	bool		columns = false;
	uint32_t	reprs = 0;
	uint8_t		last = 0;
	uint8_t		byte;
	StenoBytes	relations;
	StenoBytes	name;
	StenoBytes	type;
	StenoBytes	to;
	uint8_t		term[STENO_VARINT_MAX];

	if (!steno_take_shape_head(&in, &class, &query_id, &name, &nrelations))
		return false;
	add_term(index, STENO_TERMS_CLASSES, term, (uint64_t) (steno_put_varint(term, class) - term));
	add_term(index, STENO_TERMS_COMMANDS, name.len > 0 ? name.p : term, name.len);
	relations = in;
	for (i = 0; i < nrelations; i++)
	{
		if (!steno_take_relation(&in, &byte, &number, &name))
			return false;
		add_named(index, STENO_TERMS_RELATIONS, number, NULL, &name);
	}
	if (!steno_take_varint(&in, &n))
		return false;
	for (i = 0; i < n; i++)
	{
		if (!steno_take_param(&in, &number, &byte))
			return false;
		if (byte < 32 ? reprs >> byte & 1 : byte == last)
			continue;			/* there may be very many */
		if (byte < 32)
			reprs |= 1u << byte;
		last = byte;
		add_term(index, STENO_TERMS_VALUES, &byte, 1);
	}
	n = 0;
	if (in.len > 0 && !steno_take_varint(&in, &n))
		return false;
	for (i = 0; i < n; i++)
	{
		if (!steno_take_object(&in, &byte, &type, &name, &to))
			return false;
		add_named(index, STENO_TERMS_OBJECTS, byte, NULL, &name);
		if (to.len > 0)
			add_named(index, STENO_TERMS_OBJECTS, byte, NULL, &to);
	}
	while (in.len > 0)
	{
		if (!steno_take_varint(&in, &number) || !steno_take_string(&in, &name))
			return false;
		if (number != STENO_LIST_COLUMNS)
			continue;
		if (!add_columns(index, name, relations, nrelations))
			return false;
		columns = true;
	}
	return columns || add_any_columns(index, relations, nrelations);
}

void
steno_index_shape(StenoIndex *index, const uint8_t *body, uint32_t len)
{
	StenoBytes	in = {body, len};

	if (add_shape(index, in))
		return;
	/* damaged: nothing is known of it */
	omit(index, STENO_TERMS_CLASSES);
	omit(index, STENO_TERMS_COMMANDS);
	omit(index, STENO_TERMS_RELATIONS);
	omit(index, STENO_TERMS_COLUMNS);
	omit(index, STENO_TERMS_OBJECTS);
	omit(index, STENO_TERMS_VALUES);
}

/*
 * Add the trigrams of a text, if no more bytes of the block have been looked at than
 * TEXT_BYTES: in a block of many different texts, they would take time, and make the
 * filter useless.
 */
void
steno_index_text(StenoIndex *index, const uint8_t *text, uint32_t len)
{
	uint32_t	trigram = 0;
	uint32_t	run = 0;
	uint32_t	i;

	if (len < 3)
		return;
	if (len + TEXT_OVERHEAD > TEXT_BYTES - index->text_bytes)
	{
		index->text_bytes = TEXT_BYTES;
		omit(index, STENO_TERMS_TRIGRAMS);
		return;
	}
	index->text_bytes += len + TEXT_OVERHEAD;
	index->filter_used = true;
	for (i = 0; i < len; i++)
	{
		uint8_t		c = index->folded[text[i]];
		uint32_t	bit;

		run = c == 0 ? 0 : run + 1;
		trigram = (trigram << 8 | c) & 0xffffff;
		if (run < 3)
			continue;
		bit = (trigram * 0x9e3779b1u) >> 20;
		index->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
	}
}

_Static_assert(STENO_INDEX_FILTER * 8 == 1 << 12, "the upper 12 bits of the product are a bit of the filter");

/* Whether a string begins, or ends, with another one. */
static bool
has_beginning(StenoBytes s, const char *with)
{
	return s.len >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

static bool
has_end(StenoBytes s, const char *with)
{
	return s.len >= strlen(with) && memcmp(s.p + s.len - strlen(with), with, strlen(with)) == 0;
}

/*
 * What a record leaves out, by the names of its further pairs.  What stands behind its values is left out by the
 * index only.
 */
static void
add_omissions(StenoIndex *index, StenoBytes pairs, uint32_t count)
{
	static const uint8_t statements[] = "statements";
	StenoBytes	name;
	StenoBytes	value;

	while (count-- > 0 && steno_take_string(&pairs, &name) && steno_take_string(&pairs, &value))
	{
		if (has_end(name, "_omitted"))
			add_term(index, STENO_TERMS_OMISSIONS, name.p, name.len - strlen("_omitted"));
		else if (name.len == strlen("unseen") && has_beginning(name, "unseen"))
			add_term(index, STENO_TERMS_OMISSIONS, statements, sizeof(statements) - 1);
		else if (has_beginning(name, "further_bytes"))
		{
			omit(index, STENO_TERMS_RELATIONS);
			omit(index, STENO_TERMS_COLUMNS);
			omit(index, STENO_TERMS_OBJECTS);
		}
	}
}

void
steno_index_record(StenoIndex *index, const StenoRecordMessage *r, const uint8_t *message, const uint8_t *extra)
{
	static const uint8_t text[] = "text";
	StenoBytes	pairs = {extra, r->extra_len};

	if (r->extra_count > 0)
		add_omissions(index, pairs, r->extra_count);
	if (r->m.flags & STENO_MESSAGE_CUT)
		add_term(index, STENO_TERMS_OMISSIONS, text, sizeof(text) - 1);
	if (r->m.kind != STENO_KIND_STATEMENT || r->outcome != STENO_OUTCOME_OK)
	{
		if (r->outcome <= MAX_OUTCOME)
			index->results[r->m.kind] |= (uint8_t) (1 << r->outcome);
		else
			omit(index, STENO_TERMS_RESULTS);
	}
	if (r->sqlstate[0] != '\0')
	{
		add_term(index, STENO_TERMS_SQLSTATES, r->sqlstate, 5);
		steno_index_text(index, message, r->message_len);
	}
	/* its text, or message, is in data parts, or begins there */
	if (r->m.flags & STENO_MESSAGE_PARTS)
		omit(index, STENO_TERMS_TRIGRAMS);
}

void
steno_index_discard(StenoIndex *index)
{
	memset(index->open, 0, (index->nterms + 63) / 64 * sizeof(uint64_t));
	index->open_omitted = 0;
	memset(index->results, 0, sizeof(index->results));
	if (index->filter_used)
		memset(index->filter, 0, sizeof(index->filter));
	index->filter_used = false;
	index->text_bytes = 0;
}

/* ---- committed blocks ---- */

/* The bits with even numbers, next to each other. */
static inline uint64_t
even_bits(uint64_t x)
{
	x &= UINT64_C(0x5555555555555555);
	x = (x | x >> 1) & UINT64_C(0x3333333333333333);
	x = (x | x >> 2) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
	x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
	return (x | x >> 16) & UINT64_C(0x00000000ffffffff);
}

static void
halve(Groups groups)
{
	int			i;

	for (i = 0; i < WORDS / 2; i++)
	{
		uint64_t	low = groups[2 * i];
		uint64_t	high = groups[2 * i + 1];

		groups[i] = even_bits(low | low >> 1) | even_bits(high | high >> 1) << 32;
	}
	memset(groups + WORDS / 2, 0, WORDS / 2 * sizeof(uint64_t));
}

/* Make one group of each two neighbors. */
static void
merge_groups(StenoIndex *index)
{
	uint32_t	i;
	int			k;

	for (i = 0; i < index->nterms; i++)
		if (index->terms[i].used)
			halve(index->found[i]);
	for (i = 0; i < LISTS; i++)
		halve(index->omitted[i]);
	for (i = 0; i < STENO_INDEX_GROUPS / 2; i++)
		for (k = 0; k < FILTER_WORDS; k++)
			index->filters[i][k] = index->filters[2 * i][k] | index->filters[2 * i + 1][k];
	memset(index->filters[STENO_INDEX_GROUPS / 2], 0, sizeof(index->filters) / 2);
	index->group *= 2;
}

static inline void
set_group(Groups groups, uint32_t group)
{
	groups[group / 64] |= UINT64_C(1) << (group % 64);
}

void
steno_index_commit(StenoIndex *index, uint64_t segment, uint64_t block, size_t bytes)
{
	uint32_t	group;
	uint32_t	i;
	int			outcome;

	for (i = 1; i < STENO_KIND_DATA; i++)
		for (outcome = 0; index->results[i] >> outcome != 0; outcome++)
			if (index->results[i] >> outcome & 1)
			{
				uint8_t		term[2] = {(uint8_t) i, (uint8_t) outcome};

				add_term(index, STENO_TERMS_RESULTS, term, 2);
			}
	if (segment != index->segment || block != index->first + index->blocks)
		forget_blocks(index);
	if (index->blocks == 0)
	{
		index->segment = segment;
		index->first = block;
	}
	if (index->blocks == (uint64_t) STENO_INDEX_GROUPS * index->group)
		merge_groups(index);
	group = (uint32_t) (index->blocks / index->group);
	index->blocks++;
	/* an index does not make another one worth its space */
	if (!index->taken)
		index->bytes += bytes;
	index->taken = false;
	for (i = 0; i < (index->nterms + 63) / 64; i++)
	{
		uint64_t	bits = index->open[i];

		for (; bits != 0; bits &= bits - 1)
		{
			uint32_t	n = i * 64 + (uint32_t) __builtin_ctzll(bits);

			if (!index->terms[n].used)
				memset(index->found[n], 0, sizeof(Groups));
			index->terms[n].used = true;
			set_group(index->found[n], group);
		}
	}
	for (i = 0; i < LISTS; i++)
		if (index->open_omitted >> i & 1)
			set_group(index->omitted[i], group);
	if (index->filter_used)
		for (i = 0; i < FILTER_WORDS; i++)
			index->filters[group][i] |= index->filter[i];
	steno_index_discard(index);
}

bool
steno_index_is_due(const StenoIndex *index, uint64_t segment)
{
	return index->segment == segment && index->blocks > 1 && index->bytes >= STENO_INDEX_MIN_BYTES;
}

/* ---- the item ---- */

static uint8_t *
put_groups(uint8_t *p, const Groups groups, uint32_t bytes)
{
	memcpy(p, groups, bytes);
	return p + bytes;
}

static uint8_t *
write_terms(const StenoIndex *index, uint32_t list, uint32_t bytes, uint8_t *p)
{
	uint64_t	n = 0;
	uint64_t	len = bytes;
	uint32_t	i;

	for (i = 0; i < index->nterms; i++)
		if (index->terms[i].list == list && index->terms[i].used)
		{
			len += steno_varint_size(index->terms[i].len) + index->terms[i].len + bytes;
			n++;
		}
	p = steno_put_varint(p, list);
	p = steno_put_varint(p, len + steno_varint_size(n));
	p = put_groups(p, index->omitted[list], bytes);
	p = steno_put_varint(p, n);
	for (i = 0; i < index->nterms; i++)
	{
		const Term *t = &index->terms[i];

		if (t->list != list || !t->used)
			continue;
		p = steno_put_varint(p, t->len);
		memcpy(p, index->strings + t->offset, t->len);
		p = put_groups(p + t->len, index->found[i], bytes);
	}
	return p;
}

static uint8_t *
write_filters(const StenoIndex *index, uint32_t groups, uint32_t bytes, uint8_t *p)
{
	p = steno_put_varint(p, STENO_TERMS_TRIGRAMS);
	p = steno_put_varint(p, bytes + steno_varint_size(STENO_INDEX_FILTER) + (uint64_t) groups * STENO_INDEX_FILTER);
	p = put_groups(p, index->omitted[STENO_TERMS_TRIGRAMS], bytes);
	p = steno_put_varint(p, STENO_INDEX_FILTER);
	memcpy(p, index->filters, (size_t) groups * STENO_INDEX_FILTER);
	return p + (size_t) groups * STENO_INDEX_FILTER;
}

/*
 * Write the index.  At most 4096 terms take at most 256 kB for their bytes, and for
 * each 2 bytes of length and 128 of groups; filters take 512 kB; so the sum is below
 * STENO_INDEX_MAX.
 */
static uint8_t *
write_index(const StenoIndex *index, uint8_t *p)
{
	uint32_t	groups = (uint32_t) ((index->blocks + index->group - 1) / index->group);
	uint32_t	bytes = (groups + 7) / 8;
	uint32_t	list;

	p = steno_put_varint(p, index->first);
	p = steno_put_varint(p, index->blocks);
	p = steno_put_varint(p, index->group);
	for (list = 1; list <= index->newest; list++)
		p = list == STENO_TERMS_TRIGRAMS ? write_filters(index, groups, bytes, p) : write_terms(index, list, bytes, p);
	return p;
}

_Static_assert(MAX_TERMS * (2 + STENO_INDEX_GROUPS / 8) + STRINGS +
			   STENO_INDEX_GROUPS * STENO_INDEX_FILTER + LISTS * (64 + STENO_INDEX_GROUPS / 8) < STENO_INDEX_MAX,
			   "an index fits into its space");

uint32_t
steno_index_take(StenoIndex *index, uint8_t *to)
{
	uint8_t    *end;

	while (index->group < index->blocks &&
		   index->bytes / ((index->blocks + index->group - 1) / index->group) < GROUP_BYTES)
		merge_groups(index);
	end = write_index(index, to);
	steno_index_discard(index);
	forget_blocks(index);
	index->taken = true;
	return (uint32_t) (end - to);
}

/* ---- reading ---- */

static uint32_t
groups_of(const StenoIndexReader *index)
{
	return (uint32_t) ((index->blocks - 1) / index->group + 1);
}

static uint32_t
bytes_of_set(const StenoIndexReader *index)
{
	return (groups_of(index) + 7) / 8;
}

/* Take the beginning of a list of terms: which groups have more, and how many terms follow. */
static bool
take_list_head(const StenoIndexReader *index, StenoBytes *in, StenoBytes *omitted, uint64_t *n)
{
	return steno_take_bytes(in, bytes_of_set(index), omitted) && steno_take_varint(in, n);
}

static bool
take_term(const StenoIndexReader *index, StenoBytes *in, StenoBytes *term, StenoBytes *set)
{
	return steno_take_string(in, term) && steno_take_bytes(in, bytes_of_set(index), set);
}

/* Take the filters of trigrams; false also if they have another length than this version's. */
static bool
take_filters(const StenoIndexReader *index, StenoBytes *in, StenoBytes *omitted, StenoBytes *filters)
{
	uint64_t	len;

	return steno_take_bytes(in, bytes_of_set(index), omitted) && steno_take_varint(in, &len) &&
		len == STENO_INDEX_FILTER &&
		steno_take_bytes(in, (uint64_t) groups_of(index) * STENO_INDEX_FILTER, filters);
}

/* Whether a list is one, as far as this version knows it. */
static bool
check_list(const StenoIndexReader *index, uint64_t list, StenoBytes in)
{
	StenoBytes	skipped;
	StenoBytes	set;
	uint64_t	n;

	if (list == 0 || list > TERM_LISTS || list == STENO_TERMS_TRIGRAMS)
		return true;
	if (!take_list_head(index, &in, &skipped, &n))
		return false;
	while (n-- > 0)
		if (!take_term(index, &in, &skipped, &set))
			return false;
	return true;
}

bool
steno_index_open(StenoIndexReader *index, StenoBytes body)
{
	StenoBytes	in;
	StenoBytes	list;
	uint64_t	number;

	if (!steno_take_varint(&body, &index->first) || !steno_take_varint(&body, &index->blocks) ||
		!steno_take_varint(&body, &index->group) || index->first == 0 || index->blocks == 0 ||
		index->blocks > UINT64_MAX - index->first || index->group == 0 ||
		(index->group & (index->group - 1)) != 0 ||
		(index->blocks - 1) / index->group >= STENO_INDEX_GROUPS)
		return false;
	index->lists = body;
	for (in = body; in.len > 0;)
		if (!steno_take_varint(&in, &number) || !steno_take_string(&in, &list) ||
			!check_list(index, number, list))
			return false;
	return true;
}

static bool
find_list(const StenoIndexReader *index, int wanted, StenoBytes *list)
{
	StenoBytes	in = index->lists;
	uint64_t	number;

	while (in.len > 0 && steno_take_varint(&in, &number) && steno_take_string(&in, list))
		if (number == (uint64_t) wanted)
			return true;
	return false;
}

static void
add_set(StenoGroups groups, StenoBytes set)
{
	uint64_t	i;

	for (i = 0; i < set.len && i < sizeof(StenoGroups); i++)
		groups[i] |= set.p[i];
}

void
steno_index_select(const StenoIndexReader *index, int list, StenoTermMatch match, void *of, StenoGroups groups)
{
	StenoBytes	in;
	StenoBytes	set;
	StenoBytes	term;
	uint64_t	n;

	/* of a list that does not exist, nothing is known */
	if (!find_list(index, list, &in) || !take_list_head(index, &in, &set, &n))
	{
		memset(groups, 0xff, sizeof(StenoGroups));
		return;
	}
	add_set(groups, set);
	while (n-- > 0 && take_term(index, &in, &term, &set))
		if (match(of, term))
			add_set(groups, set);
}

/* A character as trigrams have it; 0: they do not. */
static uint8_t
fold(uint8_t c)
{
	if (c < 0x20 || c > 0x7e)
		return 0;
	return (uint8_t) (c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

/* Whether a filter has all trigrams of a text. */
static bool
filter_has(const uint8_t *filter, StenoBytes text)
{
	uint64_t	i;

	for (i = 0; i + 2 < text.len; i++)
	{
		uint32_t	a = fold(text.p[i]);
		uint32_t	b = fold(text.p[i + 1]);
		uint32_t	c = fold(text.p[i + 2]);
		uint32_t	bit = ((a << 16 | b << 8 | c) * UINT32_C(0x9E3779B1)) >> 20;

		if (a != 0 && b != 0 && c != 0 && !(filter[bit / 8] & 1 << bit % 8))
			return false;
	}
	return true;
}

void
steno_index_select_text(const StenoIndexReader *index, StenoBytes text, StenoGroups groups)
{
	StenoBytes	in;
	StenoBytes	omitted;
	StenoBytes	filters;
	uint32_t	i;

	if (!find_list(index, STENO_TERMS_TRIGRAMS, &in) || !take_filters(index, &in, &omitted, &filters))
	{
		memset(groups, 0xff, sizeof(StenoGroups));
		return;
	}
	add_set(groups, omitted);
	for (i = 0; i < groups_of(index); i++)
		if (filter_has(filters.p + (size_t) i * STENO_INDEX_FILTER, text))
			groups[i / 8] |= (uint8_t) (1 << i % 8);
}

bool
steno_index_may_have(const StenoIndexReader *index, const StenoGroups groups, uint64_t block)
{
	uint64_t	i;

	if (block < index->first || block - index->first >= index->blocks)
		return true;
	i = (block - index->first) / index->group;
	return groups[i / 8] & 1 << i % 8;
}
