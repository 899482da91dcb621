/*
 * core/test/trail/golden_files_match.c
 *		The golden files are what this code writes: neither may change without
 *		the other, and a released format's never change.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "test/test.h"
#include "test/trail.h"

static int	files;

/* Every file of one folder, but what is named except, is the same in the other. */
static void
compare(const char *a, const char *b, const char *except)
{
	DIR		   *dir = opendir(a);
	struct dirent *entry;

	CHECK(dir != NULL);
	while ((entry = readdir(dir)) != NULL)
	{
		char		pa[1200];
		char		pb[1200];
		struct stat st;
		size_t		la;
		size_t		lb;
		uint8_t    *fa;
		uint8_t    *fb;

		if (entry->d_name[0] == '.' || strcmp(entry->d_name, except) == 0)
			continue;
		snprintf(pa, sizeof(pa), "%s/%s", a, entry->d_name);
		snprintf(pb, sizeof(pb), "%s/%s", b, entry->d_name);
		CHECK(stat(pa, &st) == 0);
		if (S_ISDIR(st.st_mode))
		{
			compare(pa, pb, "");
			continue;
		}
		fa = file_read(pa, &la);
		fb = file_read(pb, &lb);
		if (fb == NULL || la != lb || memcmp(fa, fb, la) != 0)
			test_failed(pb, 0, fb == NULL ? "is missing" : "differs from what is written now");
		free(fa);
		free(fb);
		files++;
	}
	closedir(dir);
}

/*
 * How LZ4 compresses is the library's matter and may change with its version:
 * that trail is compared by what is in it.
 */
TEST(golden_files_match_what_is_written)
{
	golden_make(test_folder());
	compare(test_folder(), STENO_GOLDEN, "lz4");
	compare(STENO_GOLDEN, test_folder(), "lz4");
	CHECK(files > 40);
}

TEST(golden_lz4_trail_holds_what_is_expected)
{
	char		path[600];
	char		written[600];
	size_t		la;
	size_t		lb;
	uint8_t    *a;
	uint8_t    *b;
	FILE	   *f;

	snprintf(written, sizeof(written), "%s/lz4.expected", test_folder());
	f = fopen(written, "w");
	expected_write(f, STENO_GOLDEN "/lz4");
	fclose(f);
	snprintf(path, sizeof(path), "%s/lz4.expected", STENO_GOLDEN);
	a = file_read(path, &la);
	b = file_read(written, &lb);
	CHECK(a != NULL && la == lb && la > 1000 && memcmp(a, b, la) == 0);
	free(a);
	free(b);
}

TEST(golden_trails_are_whole)
{
	trail_ranges_may_be_unknown = false;
	CHECK(trail_verify(STENO_GOLDEN "/ranges", 0, NULL) == 5);
	trail_ranges_may_be_unknown = true;
	CHECK(trail_verify(STENO_GOLDEN "/kinds", 0, NULL) == 1);
	CHECK(trail_verify(STENO_GOLDEN "/fields", 0, NULL) == 1);
	CHECK(trail_verify(STENO_GOLDEN "/values", 0, NULL) == 1);
	CHECK(trail_verify(STENO_GOLDEN "/objects", 0, NULL) == 1);
	CHECK(trail_verify(STENO_GOLDEN "/streams", 0, NULL) == 3);
	CHECK(trail_verify(STENO_GOLDEN "/streams", 1, NULL) == 3);
	CHECK(trail_verify(STENO_GOLDEN "/lz4", 0, NULL) == 2);
	CHECK(trail_verify(STENO_GOLDEN "/parts", 0, NULL) == 2);
	CHECK(trail_verify(STENO_GOLDEN "/parts", 1, NULL) == 1);
	CHECK(trail_verify(STENO_GOLDEN "/later", 0, NULL) == 2);
	CHECK(trail_verify(STENO_GOLDEN "/empty", 0, NULL) == 3);
	CHECK(trail_verify(STENO_GOLDEN "/seals", 0, NULL) == 7);
	CHECK(trail_verify(STENO_GOLDEN "/encrypted", 0, NULL) == 6);
}

TEST(golden_damage_is_found)
{
	const char *const names[] = {"torn_payload", "torn_header", "torn_segment_header", "payload_bit",
		"header_bit", "segment_header_bit", "forged_payload", "removed_block", "swapped_segments",
	"foreign_file", "empty_file"};
	char		path[600];
	size_t		i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		snprintf(path, sizeof(path), "%s/damaged/%s", STENO_GOLDEN, names[i]);
		CHECK(trail_verify(path, 0, NULL) == -1);
	}
}
