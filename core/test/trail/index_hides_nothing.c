/*
 * core/test/trail/index_hides_nothing.c
 *		An index has what the blocks contain, whatever their number; what does not
 *		fit is marked as omitted from the groups that contain it; and an index is
 *		never longer than it may be.
 */
#include <stdio.h>
#include <string.h>

#include "test/model.h"
#include "test/test.h"
#include "block/index.h"

#define SEGMENT 3

static uint8_t body[STENO_INDEX_MAX];
static uint32_t body_len;

static void
add_fact(StenoIndex *index, int key, const char *value)
{
	static uint8_t session[STENO_SESSION_FACTS + 20000];
	uint8_t    *p = session + STENO_SESSION_FACTS;

	*p++ = (uint8_t) key;
	p = steno_put_string(p, value);
	steno_index_session(index, session, (uint32_t) (p - session));
}

static void
take(StenoIndex *index, uint64_t *first, uint64_t *blocks, uint64_t *group)
{
	StenoBytes	in = {body, 0};

	body_len = steno_index_take(index, body);
	CHECK(body_len <= sizeof(body));
	in.len = body_len;
	CHECK(steno_take_varint(&in, first) && steno_take_varint(&in, blocks) && steno_take_varint(&in, group));
}

/* A list of the index that was taken, with the number of its terms, unless that is NULL. */
static StenoBytes
list_of(uint32_t wanted, StenoBytes *omitted, uint64_t *n, uint32_t *set)
{
	StenoBytes	in = {body, body_len};
	StenoBytes	list;
	uint64_t	number;
	uint64_t	blocks;
	uint64_t	group;

	CHECK(steno_take_varint(&in, &number) && steno_take_varint(&in, &blocks) && steno_take_varint(&in, &group));
	*set = (uint32_t) (((blocks + group - 1) / group + 7) / 8);
	while (in.len > 0)
	{
		CHECK(steno_take_varint(&in, &number) && steno_take_string(&in, &list));
		if (number != wanted)
			continue;
		CHECK(steno_take_bytes(&list, *set, omitted));
		CHECK(n == NULL || steno_take_varint(&list, n));
		return list;
	}
	CHECK(!"the list is there");
	return list;
}

static bool
has(StenoBytes set, uint64_t i)
{
	return set.p[i / 8] >> (i % 8) & 1;
}

/* Whether the term is in this group, or more terms are. */
static bool
may_be_in(uint32_t wanted, const char *value, uint64_t group)
{
	StenoBytes	omitted;
	StenoBytes	term;
	StenoBytes	groups;
	uint32_t	set;
	uint64_t	n;
	StenoBytes	list = list_of(wanted, &omitted, &n, &set);

	if (has(omitted, group))
		return true;
	for (; n > 0; n--)
	{
		CHECK(steno_take_string(&list, &term) && steno_take_bytes(&list, set, &groups));
		if (term.len == strlen(value) && memcmp(term.p, value, term.len) == 0)
			return has(groups, group);
	}
	return false;
}

static uint64_t
terms_of(uint32_t wanted)
{
	StenoBytes	omitted;
	uint32_t	set;
	uint64_t	n;

	list_of(wanted, &omitted, &n, &set);
	return n;
}

static bool
may_have_text(const char *text, uint64_t group)
{
	StenoBytes	omitted;
	uint32_t	set;
	uint64_t	len;
	StenoBytes	list = list_of(STENO_TERMS_TRIGRAMS, &omitted, &len, &set);
	size_t		i;

	CHECK(len == STENO_INDEX_FILTER);
	if (has(omitted, group))
		return true;
	for (i = 0; i + 2 < strlen(text); i++)
	{
		uint32_t	trigram = (uint32_t) text[i] << 16 | (uint32_t) text[i + 1] << 8 | (uint32_t) text[i + 2];
		uint32_t	bit = (trigram * 0x9e3779b1u) >> 20;

		if (!(list.p[group * len + bit / 8] >> (bit % 8) & 1))
			return false;
	}
	return true;
}

/* Blocks of three users, until neighbors are one group, and some more. */
TEST(index_groups_many_blocks)
{
	static const uint64_t counts[] = {1, 2, 1023, 1024, 1025, 2048, 2049, 5000, 70001};
	size_t		c;

	for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
	{
		StenoIndex *index = steno_index_create();
		uint64_t	first;
		uint64_t	blocks;
		uint64_t	group;
		uint64_t	i;

		for (i = 0; i < counts[c]; i++)
		{
			add_fact(index, STENO_SESSION_USER, "all");
			if (i % 1000 == 7)
				add_fact(index, STENO_SESSION_USER, "some");
			if (i == counts[c] - 1)
				steno_index_text(index, (const uint8_t *) "the last one", 12);
			steno_index_commit(index, SEGMENT, 10 + i, 20000);
		}
		take(index, &first, &blocks, &group);
		CHECK(first == 10 && blocks == counts[c] && (blocks - 1) / group < STENO_INDEX_GROUPS);
		CHECK((blocks - 1) / group >= STENO_INDEX_GROUPS / 2 || group == 1);
		for (i = 0; i < counts[c]; i += group)
		{
			bool		some = false;
			uint64_t	k;

			for (k = i; k < i + group && k < counts[c]; k++)
				some = some || k % 1000 == 7;
			CHECK(may_be_in(STENO_TERMS_USERS, "all", i / group));
			CHECK(may_be_in(STENO_TERMS_USERS, "some", i / group) == some);
			CHECK(may_have_text("the last one", i / group) == (i / group == (counts[c] - 1) / group));
		}
		steno_index_destroy(index);
	}
}

/* Blocks so small that a group has many of them. */
TEST(index_groups_small_blocks)
{
	StenoIndex *index = steno_index_create();
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;
	int			i;

	for (i = 0; i < 1000; i++)
		steno_index_commit(index, SEGMENT, 1 + (uint64_t) i, 300);
	CHECK(steno_index_is_due(index, SEGMENT) && !steno_index_is_due(index, SEGMENT + 1));
	take(index, &first, &blocks, &group);
	CHECK(blocks == 1000 && group == 64);
	/* the block of the index is not worth another one */
	steno_index_commit(index, SEGMENT, 1001, 2 * STENO_INDEX_MIN_BYTES);
	steno_index_commit(index, SEGMENT, 1002, 100);
	CHECK(!steno_index_is_due(index, SEGMENT));
	steno_index_destroy(index);
}

/* What is discarded is not in the index, nor what another segment, or another process, has. */
TEST(index_is_of_consecutive_blocks_of_a_segment)
{
	StenoIndex *index = steno_index_create();
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;

	add_fact(index, STENO_SESSION_USER, "before");
	steno_index_commit(index, SEGMENT - 1, 6, 20000);
	add_fact(index, STENO_SESSION_USER, "alice");
	steno_index_text(index, (const uint8_t *) "SELECT 'written'", 16);
	steno_index_commit(index, SEGMENT, 7, 20000);
	add_fact(index, STENO_SESSION_USER, "discarded");
	add_fact(index, STENO_SESSION_DATABASE, "discarded");
	steno_index_text(index, (const uint8_t *) "SELECT 'discarded'", 18);
	steno_index_discard(index);
	add_fact(index, STENO_SESSION_USER, "bob");
	/* begins and ends like a text that is not there any more */
	steno_index_text(index, (const uint8_t *) "SELECT 'discarded, too'", 23);
	steno_index_commit(index, SEGMENT, 8, 20000);
	take(index, &first, &blocks, &group);
	CHECK(first == 7 && blocks == 2 && group == 1);
	CHECK(may_be_in(STENO_TERMS_USERS, "alice", 0) && !may_be_in(STENO_TERMS_USERS, "bob", 0));
	CHECK(may_be_in(STENO_TERMS_USERS, "bob", 1) && !may_be_in(STENO_TERMS_USERS, "alice", 1));
	CHECK(terms_of(STENO_TERMS_USERS) == 2 && terms_of(STENO_TERMS_DATABASES) == 0);
	CHECK(may_have_text("written'", 0) && !may_have_text("discarded", 0));
	CHECK(may_have_text("select 'discarded, too'", 1) && !may_have_text("written'", 1));

	/* a block is missing; the first one is that of the index */
	steno_index_commit(index, SEGMENT, 9, 5000);
	add_fact(index, STENO_SESSION_USER, "carol");
	steno_index_commit(index, SEGMENT, 20, 20000);
	add_fact(index, STENO_SESSION_USER, "dave");
	steno_index_commit(index, SEGMENT, 22, 20000);
	add_fact(index, STENO_SESSION_USER, "dave");
	steno_index_commit(index, SEGMENT, 23, 20000);
	take(index, &first, &blocks, &group);
	CHECK(first == 22 && blocks == 2 && terms_of(STENO_TERMS_USERS) == 1);
	CHECK(may_be_in(STENO_TERMS_USERS, "dave", 0) && may_be_in(STENO_TERMS_USERS, "dave", 1));
	steno_index_destroy(index);
}

/* More terms, longer ones, and more texts than there is space for. */
TEST(index_omits_what_does_not_fit)
{
	StenoIndex *index = steno_index_create();
	static char text[40000];
	char		name[20000];
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;
	int			i;

	memset(text, 'x', sizeof(text));
	for (i = 0; i < 600; i++)
	{
		snprintf(name, sizeof(name), "user %d", i);
		add_fact(index, STENO_SESSION_USER, name);
		add_fact(index, STENO_SESSION_DATABASE, "shop");
		if (i == 5)
			steno_index_text(index, (const uint8_t *) text, sizeof(text));
		if (i == 6)
		{
			memset(name, 'n', STENO_INDEX_TERM_MAX + 1);
			name[STENO_INDEX_TERM_MAX + 1] = '\0';
			add_fact(index, STENO_SESSION_APPLICATION, name);
		}
		steno_index_commit(index, SEGMENT, 1 + (uint64_t) i, 20000);
	}
	take(index, &first, &blocks, &group);
	CHECK(group == 1);
	for (i = 0; i < 600; i++)
	{
		snprintf(name, sizeof(name), "user %d", i);
		CHECK(may_be_in(STENO_TERMS_USERS, name, (uint64_t) i));
		CHECK(may_be_in(STENO_TERMS_USERS, "nobody", (uint64_t) i) == (i >= 256));
		CHECK(!may_be_in(STENO_TERMS_DATABASES, "nowhere", (uint64_t) i));
		CHECK(may_have_text("yyy", (uint64_t) i) == (i == 5));
		CHECK(may_be_in(STENO_TERMS_APPLICATIONS, "none", (uint64_t) i) == (i == 6));
	}
	CHECK(terms_of(STENO_TERMS_USERS) == 256);
	steno_index_destroy(index);
}

/* As much of everything as there can be. */
TEST(index_is_never_too_long)
{
	StenoIndex *index = steno_index_create();
	char		name[STENO_INDEX_TERM_MAX + 1];
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;
	int			i;

	for (i = 0; i < 20000; i++)
	{
		static const int keys[] = {STENO_SESSION_USER, STENO_SESSION_DATABASE, STENO_SESSION_ROLE,
		STENO_SESSION_APPLICATION, STENO_SESSION_APP_USER};
		uint8_t		shape[2000];
		uint8_t    *p = shape;
		StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, 1, 1);

		snprintf(name, sizeof(name), "%0*d", i % 2 ? 8 : (i % (STENO_INDEX_TERM_MAX - 20)) + 1, i);
		add_fact(index, keys[i % 5], name);
		p = steno_put_varint(p, (uint64_t) i % 40);
		p = steno_put_varint(p, 0);
		p = steno_put_string(p, name);
		p = steno_put_varint(p, 1);
		*p++ = 1;
		p = steno_put_varint(p, 1);
		p = steno_put_string(p, name);
		p = steno_put_varint(p, 1);
		p = steno_put_varint(p, 23);
		*p++ = (uint8_t) i;
		p = steno_put_varint(p, 0);
		steno_index_shape(index, shape, (uint32_t) (p - shape));
		r.outcome = (uint8_t) (i % 10);
		snprintf(r.sqlstate, sizeof(r.sqlstate), "%05d", i);
		r.message_len = (uint32_t) strlen(name);
		steno_index_record(index, &r, (const uint8_t *) name, NULL);
		if (i % 10 == 9)
			steno_index_commit(index, SEGMENT, 1 + (uint64_t) i / 10, 20000);
	}
	take(index, &first, &blocks, &group);
	CHECK(blocks == 2000);
	CHECK(terms_of(STENO_TERMS_RELATIONS) > 0 && terms_of(STENO_TERMS_SQLSTATES) > 0);
	steno_index_destroy(index);
}

/* A shape that does not list the columns of its relations may use any. */
TEST(index_has_columns_that_no_shape_lists)
{
	StenoIndex *index = steno_index_create();
	uint8_t		shape[100];
	uint8_t    *p = shape;
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;

	p = steno_put_varint(p, STENO_CLASS_READ);
	p = steno_put_varint(p, 0);
	p = steno_put_string(p, "SELECT");
	p = steno_put_varint(p, 2);
	*p++ = 1;
	p = steno_put_varint(p, STENO_ACCESS_SELECT | STENO_ACCESS_DELETE);
	p = steno_put_string(p, "read");
	*p++ = 1;
	p = steno_put_varint(p, STENO_ACCESS_TRUNCATE);
	p = steno_put_string(p, "emptied");
	p = steno_put_varint(p, 0);
	steno_index_shape(index, shape, (uint32_t) (p - shape));
	steno_index_commit(index, SEGMENT, 1, 20000);
	take(index, &first, &blocks, &group);
	CHECK(may_be_in(STENO_TERMS_COLUMNS, "\1\4read", 0) && terms_of(STENO_TERMS_COLUMNS) == 1);
	CHECK(terms_of(STENO_TERMS_RELATIONS) == 2);
	steno_index_destroy(index);
}

/* ---- texts of a statement that differ in a constant: they are in runs, defined by nothing ---- */

#define BEFORE "SELECT name FROM staff WHERE id = "
#define AFTER " ORDER BY name"
#define TEXTS 20

static const uint8_t read_shape[] = {STENO_CLASS_READ, 0, 6, 'S', 'E', 'L', 'E', 'C', 'T', 0, 0};

static void
add_whole(StenoBlock *block, StenoSource *source, uint64_t number, const char *constant)
{
	uint64_t	buffer[64];
	char		text[100];
	StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, number, (int64_t) number);
	ModelStrings s = {.shape = read_shape, .shape_len = sizeof(read_shape), .text = text};

	r.statement = number;
	s.text_len = (uint32_t) snprintf(text, sizeof(text), "%s%s%s", BEFORE, constant, AFTER);
	model_encode(buffer, &r, &s);
	CHECK(steno_block_add(block, source, (StenoMessage *) buffer));
}

static void
add_brief(StenoBlock *block, StenoSource *source, uint64_t number, const char *constant)
{
	static StenoTemplate templates[STENO_TEMPLATES];
	uint64_t	buffer[16] = {0};
	StenoBriefMessage *b = (StenoBriefMessage *) buffer;
	StenoTemplate *t = &templates[7];

	t->version = 1;
	t->shape_len = sizeof(read_shape);
	t->text_len = strlen(BEFORE AFTER);
	t->own_at = strlen(BEFORE) + 1;
	memcpy(t->bytes, read_shape, sizeof(read_shape));
	memcpy(t->bytes + sizeof(read_shape), BEFORE AFTER, strlen(BEFORE AFTER));
	source->templates = templates;
	steno_brief_encode(b, 0, (int64_t) number, 7, (uint8_t) (1 + strlen(constant)));
	b->duration = b->rows = STENO_NONE32;
	b->version = 1;
	b->values[0] = (uint8_t) strlen(constant);
	memcpy(b->values + 1, constant, strlen(constant));
	b->m.len = steno_brief_len(b->values_len);
	if (steno_block_add_brief(block, source, (const uint8_t *) buffer, sizeof(buffer), 0, b->m.len) == 0)
		CHECK(steno_block_add(block, source, &b->m));
}

static void
constants_are_found(void (*add) (StenoBlock *block, StenoSource *source, uint64_t number, const char *constant))
{
	static StenoSource source;
	StenoBlock *block = steno_block_create(64 * 1024);
	StenoIndex *index = steno_index_create();
	uint64_t	buffer[MODEL_SESSION_ROOM / 8];
	uint8_t		session[STENO_SESSION_MAX];
	char		text[100];
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;
	int			i;

	memset(&source, 0, sizeof(source));
	steno_block_set_index(block, index);
	model_encode_session(buffer, session, model_body(session, 5, 1, 0, NULL, NULL), 0, 0);
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	for (i = 1; i <= TEXTS; i++)
	{
		snprintf(text, sizeof(text), "%d", i * 31337);
		add(block, &source, (uint64_t) i, text);
	}
	/* most of them are in runs */
	CHECK(steno_block_bytes(block) < TEXTS * 20);
	steno_index_commit(index, SEGMENT, 1, 20000);
	take(index, &first, &blocks, &group);
	for (i = 1; i <= TEXTS; i++)
	{
		snprintf(text, sizeof(text), "id = %d order", i * 31337);
		CHECK(may_have_text(text, 0));
	}
	CHECK(!may_have_text("id = 31338 order", 0));
	steno_block_destroy(block);
	steno_index_destroy(index);
}

TEST(index_has_texts_of_runs)
{
	constants_are_found(add_whole);
}

TEST(index_has_texts_of_brief_records)
{
	constants_are_found(add_brief);
}

/* A shape that is cut off anywhere is not hidden. */
TEST(index_takes_damaged_definitions_for_anything)
{
	StenoIndex *index = steno_index_create();
	uint8_t		shape[100];
	uint8_t    *p = shape;
	uint64_t	first;
	uint64_t	blocks;
	uint64_t	group;
	uint32_t	len;
	uint32_t	n;

	p = steno_put_varint(p, STENO_CLASS_READ);
	p = steno_put_varint(p, 0);
	p = steno_put_string(p, "SELECT");
	p = steno_put_varint(p, 1);
	*p++ = 1;
	p = steno_put_varint(p, 1);
	p = steno_put_string(p, "public.orders");
	len = (uint32_t) (p - shape);
	for (n = 0; n <= len; n++)
	{
		uint8_t    *copy = malloc(n + 1);

		memcpy(copy, shape, n);
		steno_index_shape(index, copy, n);
		steno_index_commit(index, SEGMENT, 1 + (uint64_t) n, 20000);
		free(copy);
	}
	take(index, &first, &blocks, &group);
	for (n = 0; n <= len; n++)
		CHECK(may_be_in(STENO_TERMS_RELATIONS, "any", n) && may_be_in(STENO_TERMS_CLASSES, "any", n));
	steno_index_destroy(index);
}
