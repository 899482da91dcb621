/*
 * core/test/ring/ring_layout_is_documented.c
 *		The layout of the ring file and of the messages in it against the
 *		tables of format/RING.md, from which `steno recover` is written.
 *
 * A change of the layout is a new STENO_RING_VERSION, a row of a table there with
 * that version as its "since", and a line of fields[] here.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "ring/message.h"
#include "test/test.h"

#define RING_MD STENO_SOURCE "/format/RING.md"

typedef struct Field
{
	const char *structure;
	const char *name;
	size_t		offset;
	size_t		size;
} Field;

#define FIELD(structure, name) \
	{#structure, #name, offsetof(structure, name), sizeof(((structure *) 0)->name)}

static const Field fields[] = {
	FIELD(StenoRingFile, magic), FIELD(StenoRingFile, version), FIELD(StenoRingFile, nrings),
	FIELD(StenoRingFile, size), FIELD(StenoRingFile, nwriters), FIELD(StenoRingFile, ring_stride),
	FIELD(StenoRingFile, postmaster), FIELD(StenoRingFile, system_identifier), FIELD(StenoRingFile, created),
	FIELD(StenoRingFile, rings_offset), FIELD(StenoRingFile, data_offset), FIELD(StenoRingFile, total),
	FIELD(StenoRingFile, intents), FIELD(StenoRingFile, templates_offset),
	FIELD(StenoRingFile, chunks_offset), FIELD(StenoRingFile, chunks), FIELD(StenoRingFile, chunk_size),
	FIELD(StenoIntent, valid), FIELD(StenoIntent, stream), FIELD(StenoIntent, segment),
	FIELD(StenoIntent, offset), FIELD(StenoIntent, block), FIELD(StenoIntent, hash),
	FIELD(StenoRing, head), FIELD(StenoRing, records), FIELD(StenoRing, waits), FIELD(StenoRing, drops),
	FIELD(StenoRing, wait_us), FIELD(StenoRing, asleep), FIELD(StenoRing, gap), FIELD(StenoRing, gap_first),
	FIELD(StenoRing, gap_last), FIELD(StenoRing, tail), FIELD(StenoRing, pending),
	FIELD(StenoRing, session_len), FIELD(StenoRing, session_seq), FIELD(StenoRing, session_statement),
	FIELD(StenoRing, owner), FIELD(StenoRing, owner_flags), FIELD(StenoRing, inflight),
	FIELD(StenoRing, session), FIELD(StenoRing, own),
#if STENO_RING_VERSION >= 3
	FIELD(StenoRing, durable), FIELD(StenoRing, gap_reason), FIELD(StenoRing, gap_start),
	FIELD(StenoRing, gap_pid), FIELD(StenoRing, gap_sqlstate), FIELD(StenoRing, own_gap),
	FIELD(StenoRing, own_first), FIELD(StenoRing, own_last), FIELD(StenoRing, owner_start),
	FIELD(StenoRing, orphan_drops_recorded), FIELD(StenoRing, orphan_drops_pending), FIELD(StenoRing, orphan_drops),
	FIELD(StenoRing, orphan_drops_next),
	FIELD(StenoRing, orphan_drops_reason),
#endif
	FIELD(StenoRing, gaps_left), FIELD(StenoRing, gap_ended), FIELD(StenoRing, gaps_recorded),
	FIELD(StenoRing, gaps_pending),
	FIELD(StenoInFlight, version), FIELD(StenoInFlight, active), FIELD(StenoInFlight, done),
	FIELD(StenoInFlight, statement), FIELD(StenoInFlight, time), FIELD(StenoInFlight, text_len),
	FIELD(StenoInFlight, text_kept), FIELD(StenoInFlight, staged), FIELD(StenoInFlight, position),
	FIELD(StenoInFlight, announced), FIELD(StenoInFlight, text),
	FIELD(StenoMessage, len), FIELD(StenoMessage, kind), FIELD(StenoMessage, flags),
	FIELD(StenoSessionMessage, body_len), FIELD(StenoSessionMessage, seq), FIELD(StenoSessionMessage, statement),
	FIELD(StenoRecordMessage, seq), FIELD(StenoRecordMessage, time), FIELD(StenoRecordMessage, duration),
	FIELD(StenoRecordMessage, rows), FIELD(StenoRecordMessage, statement), FIELD(StenoRecordMessage, substatement),
	FIELD(StenoRecordMessage, depth), FIELD(StenoRecordMessage, outcome), FIELD(StenoRecordMessage, extra_count),
	FIELD(StenoRecordMessage, xid), FIELD(StenoRecordMessage, sqlstate), FIELD(StenoRecordMessage, shape_len),
	FIELD(StenoRecordMessage, text_len), FIELD(StenoRecordMessage, nulls_len), FIELD(StenoRecordMessage, values_len),
	FIELD(StenoRecordMessage, message_len), FIELD(StenoRecordMessage, extra_len), FIELD(StenoRecordMessage, audited),
	FIELD(StenoRecordMessage, xid_epoch),
	FIELD(StenoTemplate, version), FIELD(StenoTemplate, shape_len), FIELD(StenoTemplate, text_len),
	FIELD(StenoTemplate, own_at),
	FIELD(StenoTemplate, needed_until), FIELD(StenoTemplate, bytes),
	FIELD(StenoBriefMessage, time), FIELD(StenoBriefMessage, duration), FIELD(StenoBriefMessage, rows),
	FIELD(StenoBriefMessage, version), FIELD(StenoBriefMessage, template), FIELD(StenoBriefMessage, values_len),
	FIELD(StenoBriefNumbers, statement), FIELD(StenoBriefNumbers, duration), FIELD(StenoBriefNumbers, rows),
	FIELD(StenoBriefNesting, substatement), FIELD(StenoBriefNesting, depth), FIELD(StenoBriefNesting, nulls_len),
	FIELD(StenoTimes, analysis), FIELD(StenoTimes, plan), FIELD(StenoTimes, commit), FIELD(StenoTimes, elapsed),
	{"StenoBriefMessage", "values", offsetof(StenoBriefMessage, values), 0},
	FIELD(StenoCommitMessage, time), FIELD(StenoCommitMessage, xid), FIELD(StenoCommitMessage, lsn),
	FIELD(StenoCommitMessage, lsn_len), FIELD(StenoCommitMessage, timeline), FIELD(StenoCommitMessage, duration),
	FIELD(StenoCommitMessage, statements),
	FIELD(StenoEnding, lsn), FIELD(StenoEnding, lsn_end), FIELD(StenoEnding, statements),
	FIELD(StenoEnding, timeline), FIELD(StenoEnding, event),
	FIELD(StenoParts, bytes),
	FIELD(StenoCut, len), FIELD(StenoCut, hash),
	FIELD(StenoDataMessage, seq), FIELD(StenoDataMessage, part), FIELD(StenoDataMessage, len),
	FIELD(StenoChunkNumber, number)
};

#define NFIELDS (sizeof(fields) / sizeof(fields[0]))

static const struct
{
	const char *name;
	size_t		size;
}			structures[] = {
	{"StenoRingFile", sizeof(StenoRingFile)}, {"StenoIntent", sizeof(StenoIntent)},
	{"StenoRing", sizeof(StenoRing)}, {"StenoInFlight", sizeof(StenoInFlight)},
	{"StenoMessage", sizeof(StenoMessage)}, {"StenoSessionMessage", sizeof(StenoSessionMessage)},
	{"StenoRecordMessage", sizeof(StenoRecordMessage)}, {"StenoParts", sizeof(StenoParts)},
	{"StenoCut", sizeof(StenoCut)}, {"StenoDataMessage", sizeof(StenoDataMessage)},
	{"StenoChunkNumber", sizeof(StenoChunkNumber)},
	{"StenoTemplate", sizeof(StenoTemplate)}, {"StenoBriefMessage", STENO_BRIEF_FIXED},
	{"StenoBriefNumbers", sizeof(StenoBriefNumbers)},
	{"StenoBriefNesting", sizeof(StenoBriefNesting)},
	{"StenoTimes", sizeof(StenoTimes)},
	{"StenoCommitMessage", sizeof(StenoCommitMessage)}, {"StenoEnding", sizeof(StenoEnding)}
};

#define NSTRUCTURES (sizeof(structures) / sizeof(structures[0]))

/* Structures of earlier versions only. */
static bool
is_former(const char *structure)
{
	return strcmp(structure, "StenoLongBriefMessage") == 0;
}

static void
check_structure(const char *name, size_t size)
{
	size_t		i;

	if (is_former(name))
		return;

	for (i = 0; i < NSTRUCTURES; i++)
		if (strcmp(structures[i].name, name) == 0)
		{
			if (structures[i].size != size)
				fprintf(stderr, "%s is %zu bytes long, in RING.md %zu\n", name, structures[i].size, size);
			CHECK(structures[i].size == size);
			return;
		}
	fprintf(stderr, "this test does not know %s\n", name);
	CHECK(false);
}

/* The row that holds, of the rows of a field: that of the last version. */
typedef struct Row
{
	unsigned	since;			/* 0: none yet */
	size_t		offset;
	size_t		size;
} Row;

static size_t
field_index(const char *structure, const char *name)
{
	size_t		i;

	for (i = 0; i < NFIELDS; i++)
		if (strcmp(fields[i].structure, structure) == 0 && strcmp(fields[i].name, name) == 0)
			return i;
	fprintf(stderr, "this test does not know %s.%s\n", structure, name);
	CHECK(false);
	return 0;
}

TEST(ring_layout_is_as_documented)
{
	FILE	   *f = fopen(RING_MD, "r");
	Row			rows[NFIELDS] = {{0}};
	bool		known = false;
	char		line[1000];
	char		structure[64] = "";
	char		name[64];
	size_t		offset;
	size_t		size;
	size_t		i;
	unsigned	since;

	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL)
	{
		if (strstr(line, "versions") != NULL && strstr(line, "# The ring file") == line)
		{
			char		version[16];

			snprintf(version, sizeof(version), " %d", STENO_RING_VERSION);
			known = strstr(line, version) != NULL;
		}
		if (line[0] == '#' && sscanf(line, "%*[#] %63[A-Za-z]: %zu bytes", structure, &size) == 2)
			check_structure(structure, size);
		else if (sscanf(line, "| %zu | %zu | %63s | %u |", &offset, &size, name, &since) == 4 &&
				 since <= STENO_RING_VERSION && !is_former(structure))
		{
			Row		   *row = &rows[field_index(structure, name)];

			if (since >= row->since)
				*row = (Row) {since, offset, size};
		}
	}
	fclose(f);
	/* the document speaks of this version, and of every field */
	CHECK(known);
	for (i = 0; i < NFIELDS; i++)
	{
		bool		same = rows[i].since != 0 && rows[i].offset == fields[i].offset && rows[i].size == fields[i].size;

		if (!same)
			fprintf(stderr, "%s.%s: %zu bytes at %zu, in RING.md %zu bytes at %zu\n", fields[i].structure, fields[i].name,
					fields[i].size, fields[i].offset, rows[i].size, rows[i].offset);
		CHECK(same);
	}
}

static bool
is_field(const char *structure, const char *name)
{
	size_t		i;

	for (i = 0; i < NFIELDS; i++)
		if (strcmp(fields[i].structure, structure) == 0 && strcmp(fields[i].name, name) == 0)
			return true;
	return false;
}

/* A declaration without its comments: the name is its last word, before any "[". */
static void
check_member(const char *structure, char *declaration)
{
	char	   *end = strchr(declaration, '[');
	char	   *begin;

	if (end == NULL)
		end = declaration + strlen(declaration);
	while (end > declaration && isspace((unsigned char) end[-1]))
		end--;
	*end = '\0';
	begin = end;
	while (begin > declaration && (isalnum((unsigned char) begin[-1]) || begin[-1] == '_'))
		begin--;
	/* the common beginning of messages has a table of its own */
	if (strncmp(begin, "pad", 3) == 0 || strcmp(begin, "m") == 0)
		return;
	if (!is_field(structure, begin))
		fprintf(stderr, "RING.md and this test do not know %s.%s\n", structure, begin);
	CHECK(is_field(structure, begin));
}

static void
without_comments(char *text)
{
	char	   *comment;

	while ((comment = strstr(text, "/*")) != NULL)
	{
		char	   *end = strstr(comment, "*/");

		CHECK(end != NULL);
		memset(comment, ' ', (size_t) (end + 2 - comment));
	}
}

/* Each member of a struct of the ring file is in fields[], wherever it stands. */
static size_t
check_header(const char *path)
{
	static char text[64 * 1024];
	FILE	   *f = fopen(path, "r");
	size_t		len;
	size_t		members = 0;
	size_t		i;

	CHECK(f != NULL);
	len = fread(text, 1, sizeof(text) - 1, f);
	CHECK(feof(f));
	fclose(f);
	text[len] = '\0';
	without_comments(text);
	for (i = 0; i < NSTRUCTURES; i++)
	{
		char		begin[80];
		char	   *at;
		char	   *end;
		char	   *semicolon;

		snprintf(begin, sizeof(begin), "typedef struct %s\n{", structures[i].name);
		at = strstr(text, begin);
		if (at == NULL)
			continue;
		at += strlen(begin);
		end = strchr(at, '}');
		CHECK(end != NULL);
		for (; (semicolon = strchr(at, ';')) != NULL && semicolon < end; at = semicolon + 1)
		{
			char		declaration[4096];

			CHECK((size_t) (semicolon - at) < sizeof(declaration));
			memcpy(declaration, at, (size_t) (semicolon - at));
			declaration[semicolon - at] = '\0';
			check_member(structures[i].name, declaration);
			members++;
		}
	}
	return members;
}

TEST(ring_layout_has_no_other_fields)
{
	size_t		members = check_header(STENO_SOURCE "/core/ring/ring.h") +
		check_header(STENO_SOURCE "/core/ring/message.h");

	CHECK(members >= NFIELDS);
}

/* What is neither an offset nor a size. */
TEST(ring_constants_are_as_documented)
{
	CHECK(STENO_RING_MAGIC == UINT64_C(0x474e49524e455453));
	CHECK(STENO_MAX_WRITERS == 64 && STENO_RING_MIN == 16 * 1024 && STENO_PAGE == 4096);
	CHECK(STENO_RING_SHARE == 8 && STENO_SESSION_MAX == 1000);
	CHECK(STENO_MESSAGE_PARTS == 1 && STENO_MESSAGE_CUT == 2 && STENO_MESSAGE_VALUES == 4);
	CHECK(STENO_MESSAGE_BRIEF == 8 && STENO_TEMPLATES == 16);
	CHECK(STENO_MESSAGE_XID == 32 && STENO_MESSAGE_NUMBERS == 64);
	CHECK(STENO_MESSAGE_ENDING == 128 && STENO_MESSAGE_NESTED == 256);
	CHECK(STENO_BRIEF_BEGIN == 254 && STENO_BRIEF_COMMIT == 255);
	CHECK(STENO_MESSAGE_CHUNK == 16 && STENO_CHUNK == 64 * 1024 && STENO_CHUNKS_MAX == 1024);
	CHECK(STENO_NONE64 == UINT64_MAX && STENO_NONE32 == UINT32_MAX);
	CHECK(STENO_SESSION_START == 0 && STENO_SESSION_PID == 8 && STENO_SESSION_FACTS == 12);
	CHECK(STENO_PART_TEXT == 0 && STENO_PART_VALUES == 1 && STENO_PART_MESSAGE == 2);
}
