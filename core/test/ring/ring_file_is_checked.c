/*
 * core/test/ring/ring_file_is_checked.c
 *		The ring file: made whole or not at all, and opened only when every
 *		offset in it lies in the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/chunk.h"
#include "test/test.h"

static char path[300];
static char what[STENO_RING_WHAT];

static StenoRingState
open_file(StenoRings *rings)
{
	what[0] = '\0';
	return steno_rings_open(rings, AT_FDCWD, path, 11, what);
}

static void
make(StenoRings *rings)
{
	const char *what;

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(steno_rings_create(rings, AT_FDCWD, path, 5, 32 * 1024, 2, 3, 11, 12, &what));
}

TEST(ring_file_has_the_layout_that_it_says)
{
	StenoRings	rings;
	StenoRings	again;
	struct stat st;

	make(&rings);
	CHECK(stat(path, &st) == 0);
	CHECK((st.st_mode & 0777) == 0600);
	CHECK((uint64_t) st.st_size == steno_rings_total(5, 32 * 1024, 2));
	/* allocated, not a hole */
	CHECK((uint64_t) st.st_blocks * 512 >= (uint64_t) st.st_size);
	CHECK(rings.file->rings_offset % 4096 == 0 && rings.file->data_offset % 4096 == 0);
	CHECK(rings.file->rings_offset >= sizeof(StenoRingFile));
	CHECK((uint8_t *) steno_ring_at(&rings, 4) + sizeof(StenoRing) <= steno_ring_data(&rings, 0));
	CHECK(steno_chunk_bytes(&rings, 1) + STENO_CHUNK == (uint8_t *) rings.file + st.st_size);
	CHECK(((uintptr_t) steno_ring_at(&rings, 1) % STENO_CACHE_LINE) == 0);
	CHECK(rings.file->postmaster == (uint32_t) getpid());

	CHECK(open_file(&again) == STENO_RING_OPEN);
	steno_ring_data(&rings, 3)[17] = 42;
	CHECK(steno_ring_data(&again, 3)[17] == 42);
	CHECK(again.file->system_identifier == 11 && again.file->created == 12 && again.file->nwriters == 3);
	steno_rings_close(&rings);
	steno_rings_close(&again);
	CHECK(again.file == NULL);
}

TEST(ring_file_is_never_made_over_another)
{
	StenoRings	rings;
	StenoRings	second;
	const char *what = NULL;

	make(&rings);
	CHECK(!steno_rings_create(&second, AT_FDCWD, path, 5, 32 * 1024, 2, 3, 11, 12, &what));
	CHECK(errno == EEXIST && what != NULL);
	CHECK(access(path, F_OK) == 0);
}

TEST(ring_file_refuses_impossible_shapes)
{
	StenoRings	rings;
	const char *what;

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(!steno_rings_create(&rings, AT_FDCWD, path, 0, 32 * 1024, 0, 1, 1, 1, &what) && errno == EINVAL);
	CHECK(!steno_rings_create(&rings, AT_FDCWD, path, 1, 8 * 1024, 0, 1, 1, 1, &what) && errno == EINVAL);
	CHECK(!steno_rings_create(&rings, AT_FDCWD, path, 1, 33 * 1024, 0, 1, 1, 1, &what) && errno == EINVAL);
	CHECK(!steno_rings_create(&rings, AT_FDCWD, path, 1, 32 * 1024, 0, 0, 1, 1, &what) && errno == EINVAL);
	CHECK(!steno_rings_create(&rings, AT_FDCWD, path, 1, 32 * 1024, 0, 65, 1, 1, &what) && errno == EINVAL);
	CHECK(access(path, F_OK) != 0);
}

/* A full file system must show here, and not as a SIGBUS later. */
TEST(ring_file_that_cannot_be_allocated_is_not_left_behind)
{
	struct rlimit limit = {64 * 1024, RLIM_INFINITY};
	StenoRings	rings;
	const char *what = NULL;

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(!steno_rings_create(&rings, AT_FDCWD, path, 5, 32 * 1024, 2, 3, 11, 12, &what));
	CHECK((errno == EFBIG || errno == ENOSPC) && what != NULL);
	CHECK(access(path, F_OK) != 0);
}

static void
refused_when(void (*change) (StenoRingFile *))
{
	StenoRings	rings;

	unlink(path);
	make(&rings);
	change(rings.file);
	steno_rings_close(&rings);
	CHECK(open_file(&rings) == STENO_RING_FAILED);
	CHECK(errno == EINVAL && what[0] != '\0' && rings.file == NULL);
}

#define CHANGE(name, statement) \
	static void name(StenoRingFile *f) { statement; }

CHANGE(change_magic, f->magic++)
CHANGE(change_version, f->version++)
CHANGE(change_stride, f->ring_stride += 64)
CHANGE(change_size, f->size *= 2)
CHANGE(change_odd_size, f->size--)
CHANGE(change_rings, f->nrings++)
CHANGE(change_no_rings, f->nrings = 0)
CHANGE(change_writers, f->nwriters = 65)
CHANGE(change_rings_offset, f->rings_offset += 4096)
CHANGE(change_data_offset, f->data_offset += 4096)
CHANGE(change_total, f->total -= 4096)
CHANGE(change_cluster, f->system_identifier++)

TEST(ring_file_with_a_wrong_header_is_refused)
{
	refused_when(change_magic);
	refused_when(change_version);
	refused_when(change_stride);
	refused_when(change_size);
	refused_when(change_odd_size);
	refused_when(change_rings);
	refused_when(change_no_rings);
	refused_when(change_writers);
	refused_when(change_rings_offset);
	refused_when(change_data_offset);
	refused_when(change_total);
	refused_when(change_cluster);
}

TEST(ring_file_of_another_length_is_refused)
{
	StenoRings	rings;

	make(&rings);
	steno_rings_close(&rings);
	CHECK(truncate(path, (off_t) steno_rings_total(5, 32 * 1024, 2) - 1) == 0);
	CHECK(open_file(&rings) == STENO_RING_FAILED && errno == EINVAL);
	CHECK(truncate(path, 100) == 0);
	CHECK(open_file(&rings) == STENO_RING_FAILED && errno == EINVAL);
	CHECK(unlink(path) == 0);
	CHECK(open_file(&rings) == STENO_RING_FAILED && errno == ENOENT);
}

TEST(ring_file_that_was_never_finished_is_known)
{
	StenoRings	rings;

	make(&rings);
	rings.file->magic = 0;
	steno_rings_close(&rings);
	CHECK(open_file(&rings) == STENO_RING_UNFINISHED);
	CHECK(truncate(path, 0) == 0);
	CHECK(open_file(&rings) == STENO_RING_UNFINISHED);
	CHECK(unlink(path) == 0);
	make(&rings);
	change_magic(rings.file);
	steno_rings_close(&rings);
	CHECK(open_file(&rings) == STENO_RING_FAILED);
}

/* The file's own numbers are not asked again: what becomes of them changes nothing. */
TEST(ring_file_has_its_shape_read_once)
{
	StenoRings	rings;
	StenoRing  *last;
	uint8_t    *data;

	make(&rings);
	last = steno_ring_at(&rings, 4);
	data = steno_ring_data(&rings, 4);
	memset(rings.file, 0xff, sizeof(*rings.file));
	CHECK(rings.nrings == 5 && rings.size == 32 * 1024 && rings.nwriters == 3);
	CHECK(steno_ring_at(&rings, 4) == last && steno_ring_data(&rings, 4) == data);
}

/* A hole of a full file system would be a SIGBUS when it is read. */
TEST(ring_file_with_holes_is_not_filled_to_be_read)
{
	uint64_t	total = steno_rings_total(5, 32 * 1024, 2);
	StenoRings	rings;
	StenoRingFile header;
	struct stat st;
	off_t		data;
	int			fd;

	make(&rings);
	header = *rings.file;
	data = steno_ring_data(&rings, 3) - (uint8_t *) rings.file;
	steno_rings_close(&rings);
	CHECK(unlink(path) == 0);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && write(fd, &header, sizeof(header)) == (ssize_t) sizeof(header));
	CHECK(ftruncate(fd, (off_t) total) == 0 && pwrite(fd, "message", 8, data) == 8);
	CHECK(open_file(&rings) == STENO_RING_OPEN);
	CHECK(strcmp((char *) steno_ring_data(&rings, 3), "message") == 0);
	CHECK(steno_ring_data(&rings, 4)[0] == 0 && rings.chunks[STENO_CHUNK] == 0);
	CHECK(fstat(fd, &st) == 0 && (uint64_t) st.st_blocks * 512 < total / 2);

	/* what recovery writes is in the file */
	steno_ring_at(&rings, 4)->gap = 7;
	steno_rings_close(&rings);
	CHECK(open_file(&rings) == STENO_RING_OPEN && steno_ring_at(&rings, 4)->gap == 7);
	steno_rings_close(&rings);
}
