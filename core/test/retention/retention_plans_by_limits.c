/*
 * core/test/retention/retention_plans_by_limits.c
 *		What goes by size, by age and in spite of slots; what stays; and what the
 *		records and the state file say of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "retention/retention.h"
#include "scan.h"
#include "test/test.h"
#include "test/trail.h"

#define DAY (INT64_C(86400) * 1000000)

static char trail[300];
static StenoKeptTrail kept;
static StenoDeleted deleted[STENO_RETENTION_STREAMS];
static StenoSlots slots;
static StenoPlan plan;
static StenoLimits limits;
static StenoError error;

/*
 * A stream of n closed segments, each closed a day after the one before, the first
 * at this time, and an open one.
 */
static void
write_stream(uint32_t number, int n, int64_t closed)
{
	Trail		t;
	int			i;

	memset(&t, 0, sizeof(t));
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
	if (number > 0)
	{
		steno_stream_close(&t.stream);
		CHECK(steno_stream_open(&t.stream, trail, number, TRAIL_SYSTEM, 150000, 0600, NULL, TRAIL_NOW, 0,
								&t.found, &t.error));
	}
	for (i = 0; i < n; i++)
	{
		trail_must_append(&t, 10);
		CHECK(steno_stream_rotate(&t.stream, closed + i * DAY, &t.error));
	}
	trail_must_append(&t, 10);
	trail_close(&t);
}

static void
make_plan(void)
{
	static StenoKeptTrail before;

	steno_kept_free(&before);
	before = kept;
	steno_plan_free(&plan);
	CHECK(steno_kept_list(trail, &before, &kept, &error));
	CHECK(steno_retention_plan(&kept, deleted, &slots, &limits, &plan, &error));
}

static void
begin(int n)
{
	memset(deleted, 0, sizeof(deleted));
	memset(&slots, 0, sizeof(slots));
	steno_kept_free(&kept);
	limits = (StenoLimits) {.slot_max_size = -1, .now = TRAIL_NOW, .most = 1000};
	write_stream(0, n, TRAIL_NOW - 10 * DAY);
}

static uint64_t
first_kept_by(uint64_t size)
{
	limits.size = size;
	make_plan();
	return plan.next[0].last + 1;
}

static void
slot_at(uint64_t segment)
{
	static StenoSlot slot;

	memset(&slot, 0, sizeof(slot));
	slot.readable = true;
	slot.count = 1;
	slot.positions[0] = (StenoSlotPosition) {0, segment, 1};
	slots = (StenoSlots) {&slot, 1};
}

TEST(retention_keeps_everything_without_limits)
{
	begin(5);
	make_plan();
	CHECK(plan.files == 0 && plan.next[0].last == 0 && !plan.more);
}

TEST(retention_by_size_keeps_no_more_than_that)
{
	uint64_t	all;
	uint64_t	one;

	begin(5);
	make_plan();
	all = steno_kept_bytes(&kept.streams[0], 1);
	one = kept.streams[0].segments[0].bytes;
	CHECK(first_kept_by(all) == 1);
	CHECK(first_kept_by(all - 1) == 2 && plan.next[0].reason == STENO_REASON_SIZE);
	CHECK(first_kept_by(all - one) == 2);
	CHECK(first_kept_by(all - one - 1) == 3 && plan.files == 2);
	/* the open segment stays */
	CHECK(first_kept_by(1) == 6 && plan.files == 5);
	/* and so does one that a writer says it has open */
	limits.most = 2;
	CHECK(first_kept_by(1) == 3 && plan.more);
}

/* A file of this length costs nobody anything, and history is not to go for it. */
TEST(retention_does_not_count_what_was_never_written)
{
	uint64_t	all;
	char		path[600];

	begin(5);
	make_plan();
	all = steno_kept_bytes(&kept.streams[0], 1);
	segment_name(path, sizeof(path), trail, 0, 2);
	CHECK(truncate(path, (off_t) 1 << 43) == 0);
	segment_name(path, sizeof(path), trail, 0, 500);
	CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0 && truncate(path, (off_t) 1 << 43) == 0);
	segment_name(path, sizeof(path), trail, 0, 501);
	CHECK(mkfifo(path, 0600) == 0);
	steno_kept_free(&kept);
	/* the rest of the sector, or page, that the truncated file's last byte is in */
	CHECK(first_kept_by(all + 65536) == 1);
}

TEST(retention_never_takes_an_open_segment)
{
	begin(5);
	limits.size = 1;
	make_plan();
	kept.streams[0].open = 3;
	steno_plan_free(&plan);
	CHECK(steno_retention_plan(&kept, deleted, &slots, &limits, &plan, &error));
	CHECK(plan.next[0].last == 2);
	kept.streams[0].open = 0;
	steno_plan_free(&plan);
	CHECK(steno_retention_plan(&kept, deleted, &slots, &limits, &plan, &error));
	CHECK(plan.files == 0);
}

TEST(retention_by_age_counts_from_the_closing)
{
	begin(5);					/* closed 10, 9, 8, 7, 6 days ago */
	limits.age = 8 * DAY;
	make_plan();
	CHECK(plan.next[0].last == 3 && plan.next[0].reason == STENO_REASON_AGE);
	limits.now--;
	make_plan();
	CHECK(plan.next[0].last == 2);
}

/* Oldest first, whichever stream it is of; a slot holds its own stream up alone. */
TEST(retention_takes_streams_in_the_order_of_time)
{
	begin(4);					/* closed 10, 9, 8, 7 days ago */
	write_stream(1, 4, TRAIL_NOW - 9 * DAY - DAY / 2);	/* 9.5, 8.5, 7.5, 6.5 */
	make_plan();
	limits.size = steno_kept_bytes(&kept.streams[0], 1) + steno_kept_bytes(&kept.streams[1], 1) -
		kept.streams[0].segments[0].bytes - kept.streams[0].segments[1].bytes -
		kept.streams[1].segments[0].bytes;
	make_plan();
	CHECK(plan.next[0].last == 2 && plan.next[1].last == 1);
	slot_at(1);
	slots.list[0].positions[0].segment = 1;
	slots.list[0].positions[1] = (StenoSlotPosition) {1, 99, 1};
	slots.list[0].count = 2;
	make_plan();
	CHECK(plan.next[0].last == 0 && plan.next[1].last == 3);
	/* of a stream that it does not name, a slot wants all */
	slots.list[0].count = 1;
	make_plan();
	CHECK(plan.files == 0);
}

TEST(retention_says_what_went)
{
	StenoDeleted first;
	StenoSegmentHeader h;
	uint8_t    *bytes;
	size_t		len;
	char		path[400];

	begin(5);
	limits.age = 9 * DAY;
	make_plan();
	first = plan.next[0];
	CHECK(first.since == 1 && first.first == 1 && first.last == 2);
	CHECK(first.first_block == 1 && first.last_block == 2);
	CHECK(first.first_record == 1 && first.last_record == 20 && first.total_records == 20);
	CHECK(first.bytes == kept.streams[0].segments[0].bytes + kept.streams[0].segments[1].bytes);
	segment_name(path, sizeof(path), trail, 0, 3);
	bytes = file_read(path, &len);
	CHECK(steno_segment_header_read(bytes, &h));
	CHECK(memcmp(h.previous, first.chain, STENO_HASH_SIZE) == 0);
	free(bytes);
	CHECK(steno_deleted_finish(&kept, 0, &first, &error));
	deleted[0] = first;
	/* what comes next goes on from there */
	limits.age = 7 * DAY;
	make_plan();
	CHECK(kept.streams[0].count == 4 && plan.next[0].since == 1 && plan.next[0].first == 3);
	CHECK(plan.next[0].last == 4 && plan.next[0].first_block == 3 && plan.next[0].total_records == 40);
	CHECK(plan.next[0].total_bytes == first.bytes + plan.next[0].bytes && plan.next[0].missing == 0);
}

TEST(retention_does_not_cover_up_holes)
{
	char		path[400];

	begin(5);
	segment_name(path, sizeof(path), trail, 0, 2);
	CHECK(unlink(path) == 0);
	limits.size = 1;
	make_plan();
	CHECK(plan.next[0].last == 5 && plan.next[0].missing == 1 && plan.files == 4);
	segment_name(path, sizeof(path), trail, 0, 1);
	CHECK(unlink(path) == 0);
	make_plan();
	CHECK(plan.next[0].since == 3 && plan.next[0].missing == 0);
}

/* Without the header of its successor, nobody can say what a segment had. */
TEST(retention_takes_a_segment_with_its_damaged_successor)
{
	char		path[400];
	size_t		len;
	uint8_t    *bytes;

	begin(5);
	segment_name(path, sizeof(path), trail, 0, 2);
	bytes = file_read(path, &len);
	bytes[70] ^= 1;
	file_write(path, bytes, len);
	free(bytes);
	limits.age = 9 * DAY + 1;	/* 1 alone is old enough */
	make_plan();
	CHECK(plan.files == 0);
	limits.age = 9 * DAY;
	make_plan();
	CHECK(plan.next[0].last == 2 && plan.next[0].last_block == 2);
}

TEST(retention_respects_slots)
{
	begin(5);
	limits.size = 1;
	slot_at(3);
	make_plan();
	CHECK(plan.next[0].last == 2 && !plan.lost[0]);
	/* more than a slot may keep: what it does not want goes first, by size */
	limits.slot_max_size = (int64_t) steno_kept_bytes(&kept.streams[0], 3);
	make_plan();
	CHECK(plan.next[0].last == 2 && !plan.lost[0]);
	limits.slot_max_size--;
	make_plan();
	CHECK(plan.next[0].last == 2 && plan.more && !plan.lost[0]);
	CHECK(steno_deleted_finish(&kept, 0, &plan.next[0], &error));
	deleted[0] = plan.next[0];
	make_plan();
	CHECK(plan.lost[0] && plan.next[0].reason == STENO_REASON_SLOT_MAX_SIZE && plan.next[0].last == 3);
	/* lost, it keeps nothing */
	CHECK(!steno_slot_is_lost(&slots.list[0], &kept, deleted));
	CHECK(steno_deleted_finish(&kept, 0, &plan.next[0], &error));
	deleted[0] = plan.next[0];
	limits.slot_max_size = -1;
	make_plan();
	CHECK(steno_slot_is_lost(&slots.list[0], &kept, deleted));
	CHECK(plan.next[0].last == 5 && plan.next[0].reason == STENO_REASON_SIZE && !plan.lost[0]);
}

static StenoForecast
forecast(void)
{
	StenoForecast f;

	CHECK(steno_retention_forecast(&kept, deleted, &slots, &limits, &f, &error));
	return f;
}

/* What is announced is what one plan after the other deletes. */
TEST(retention_foresees_what_invalidated_slots_release)
{
	uint64_t	all;

	begin(9);
	slot_at(3);
	make_plan();
	all = steno_kept_bytes(&kept.streams[0], 1);
	CHECK(forecast().files == 0 && forecast().bytes == 0);
	limits.size = steno_kept_bytes(&kept.streams[0], 7);
	CHECK(forecast().files == 2);
	limits.slot_max_size = (int64_t) steno_kept_bytes(&kept.streams[0], 3) - 1;
	make_plan();
	CHECK(plan.files == 2 && plan.more);
	CHECK(forecast().files == 6 && forecast().bytes == all - limits.size);
	limits.most = 1;
	CHECK(forecast().files == 6);
}

/* A header that cannot be read now may be whole: its segment is not deleted with the one before it. */
TEST(retention_waits_for_descriptors)
{
	begin(5);
	limits.age = 9 * DAY;
	make_plan();
	CHECK(plan.files == 2);
	steno_plan_free(&plan);
	trail_use_up_descriptors(true);
	CHECK(!steno_retention_plan(&kept, deleted, &slots, &limits, &plan, &error) && error.error == EMFILE);
	CHECK(plan.files == 0 && plan.next[0].last == 0);
	trail_use_up_descriptors(false);
	make_plan();
	CHECK(plan.files == 2);
}

TEST(retention_state_is_not_believed_without_the_record)
{
	StenoDeleted loaded[STENO_RETENTION_STREAMS];

	begin(5);
	limits.size = 1;
	make_plan();
	CHECK(steno_deleted_load(trail, loaded, &error) && loaded[0].last == 0);
	plan.next[0].at_segment = 6;
	plan.next[0].at_offset = STENO_SEGMENT_HEADER;
	plan.next[0].at_block = 6;
	CHECK(steno_deleted_store(trail, 0600, plan.next, NULL, &error));
	CHECK(steno_deleted_load(trail, loaded, &error) && loaded[0].last == 0);
}

static int	lines;

static void
count_line(void *arg, uint32_t stream, const StenoDeleted *d)
{
	const StenoDeleted *want = arg;

	CHECK(stream == 0);
	if (lines++ == 0)
		CHECK(d->last == want->last && d->at_offset == want->at_offset && d->reason == want->reason &&
			  memcmp(d->chain, want->chain, STENO_HASH_SIZE) == 0);
}

TEST(retention_state_is_written_and_read)
{
	StenoDeleted before[STENO_RETENTION_STREAMS];
	char		path[400];
	uint8_t    *bytes;
	size_t		len;

	begin(5);
	limits.age = 9 * DAY;
	make_plan();
	memcpy(before, plan.next, sizeof(before));
	limits.age = 7 * DAY;
	make_plan();
	plan.next[0].at_offset = UINT32_MAX + UINT64_C(5);
	CHECK(steno_deleted_store(trail, 0600, plan.next, before, &error));
	snprintf(path, sizeof(path), "%s/retention", trail);
	bytes = file_read(path, &len);
	CHECK(steno_deleted_parse((char *) bytes, len, count_line, &plan.next[0]) && lines == 2);
	free(bytes);
}
