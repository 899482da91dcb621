/*
 * core/test/retention/slots_are_parsed.c
 *		Slot files: what is one, what is none, and what a trail's folder of them
 *		gives.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "retention/retention.h"
#include "test/test.h"
#include "test/trail.h"

extern int	steno_fuzz_slot(const uint8_t *data, size_t size);

static const char good[] = "pg_steno slot 1\ncreated 848609113000000\n"
"stream 0 segment 12 block 3456\nstream 7 segment 3 block 99\n";

static bool
parse(const char *text)
{
	StenoSlot	slot;

	return steno_slot_parse(text, strlen(text), &slot);
}

TEST(slots_have_positions)
{
	StenoSlot	slot;

	CHECK(steno_slot_parse(good, strlen(good), &slot));
	CHECK(slot.readable && slot.created == INT64_C(848609113000000) && slot.count == 2);
	CHECK(slot.positions[1].stream == 7 && slot.positions[1].block == 99);
	CHECK(steno_slot_wants(&slot, 0) == 12 && steno_slot_wants(&slot, 7) == 3);
	/* of a stream that it does not name it wants all */
	CHECK(steno_slot_wants(&slot, 1) == 1);
}

TEST(what_is_no_slot_is_refused)
{
	size_t		n;
	StenoSlot	slot;

	for (n = 0; n < strlen(good); n++)
		if (steno_slot_parse(good, n, &slot))
			CHECK(good[n - 1] == '\n' && n > 20);	/* whole lines */
	CHECK(!parse("pg_steno slot 2\ncreated 1\n"));
	CHECK(!parse("pg_steno slot 1\n"));
	CHECK(!parse("pg_steno slot 1\ncreated -1\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 0 segment 0 block 1\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 0 segment 1 block 0\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 0 segment 01 block 1\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 0 segment 1 block 9223372036854775808\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 4294967296 segment 1 block 1\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 0 segment 1 block 1\nstream 0 segment 1 block 1\n"));
	CHECK(!parse("pg_steno slot 1\ncreated 1\nstream 1 segment 1 block 1\nstream 0 segment 1 block 1\n"));
	CHECK(!parse("pg_steno slot 1\r\ncreated 1\r\n"));
}

TEST(slot_names_are_checked)
{
	char		name[66];

	memset(name, 'a', sizeof(name));
	name[64] = '\0';
	CHECK(!steno_slot_name_is_valid(name));
	name[63] = '\0';
	CHECK(steno_slot_name_is_valid(name) && steno_slot_name_is_valid("a_1"));
	CHECK(!steno_slot_name_is_valid("") && !steno_slot_name_is_valid("A") &&
		  !steno_slot_name_is_valid("../x") && !steno_slot_name_is_valid(".a.new"));
}

TEST(slots_of_a_folder_are_read)
{
	char		trail[300];
	char		path[400];
	StenoSlots	slots;
	StenoError	error;

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	CHECK(mkdir(trail, 0700) == 0);
	CHECK(steno_slots_read(trail, &slots, &error) && slots.count == 0);
	snprintf(path, sizeof(path), "%s/slots", trail);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/slots/b", trail);
	file_write(path, good, strlen(good));
	snprintf(path, sizeof(path), "%s/slots/.b.new", trail);
	file_write(path, "x", 1);
	CHECK(steno_slots_read(trail, &slots, &error) && slots.count == 1 && error.what[0] == '\0');
	CHECK(strcmp(slots.list[0].name, "b") == 0 && slots.list[0].readable);
	steno_slots_free(&slots);
	snprintf(path, sizeof(path), "%s/slots/a", trail);
	file_write(path, good, 30);
	snprintf(path, sizeof(path), "%s/slots/c", trail);
	CHECK(mkfifo(path, 0600) == 0);
	CHECK(steno_slots_read(trail, &slots, &error) && slots.count == 3 && error.what[0] != '\0');
	CHECK(!slots.list[0].readable && slots.list[1].readable && !slots.list[2].readable);
	steno_slots_free(&slots);
}

TEST(slot_parser_survives_any_bytes)
{
	static const char *const seeds[] = {
		good, "pg_steno retention 1\nstream 0 since 1 segments 3 4 blocks 10 20 records 100 200 bytes 1000 "
		"total 200 2000 missing 0 at 0 7 128 31 chain "
		"abababababababababababababababababababababababababababababababab block "
		"abababababababababababababababababababababababababababababababab reason size\n"
	};
	uint64_t	random = test_seed();
	uint64_t	runs = test_parameter("SLOT_RUNS", 20000);
	uint8_t		bytes[400];

	for (; runs > 0; runs--)
	{
		const char *seed = seeds[runs % 2];
		size_t		len = strlen(seed);
		int			changes = (int) test_below(&random, 4);

		memcpy(bytes, seed, len);
		while (changes-- > 0)
			bytes[test_below(&random, len)] = (uint8_t) "0123456789 \nsa\0\xff"[test_below(&random, 16)];
		steno_fuzz_slot(bytes, test_below(&random, 8) == 0 ? test_below(&random, len) : len);
	}
}
