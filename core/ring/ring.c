/*
 * core/ring/ring.c
 *		The ring file: created at the start of a server, and opened again to drain
 *		what a server that died has left in it.
 *
 * The rings themselves are in ring.h, inline, because their code runs in every
 * statement.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/private.h"
#include "ring/ring.h"

/*
 * The unit of the file's layout, independent of the machine's page size.  On a
 * machine with 64 kB pages, parts of the file are not page-aligned, which is slower
 * but correct.
 */
#define RING_PAGE UINT64_C(4096)
/* A file with holes is copied in units of so many bytes. */
#define COPY_UNIT UINT64_C(65536)

#define ROUND_UP(n) (((n) + RING_PAGE - 1) & ~(RING_PAGE - 1))

_Static_assert(sizeof(StenoRing) % STENO_CACHE_LINE == 0, "ring headers must not share a cache line");
_Static_assert(sizeof(StenoTemplate) % STENO_CACHE_LINE == 0, "templates must not share a cache line");
_Static_assert(sizeof(StenoMessage) == 8, "messages are multiples of 8");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the ring needs lock-free 64-bit atomics");

static uint64_t
rings_offset(void)
{
	return ROUND_UP((uint64_t) sizeof(StenoRingFile));
}

static uint64_t
templates_offset(uint32_t nrings)
{
	return rings_offset() + (uint64_t) nrings * sizeof(StenoRing);
}

static uint64_t
data_offset(uint32_t nrings)
{
	return ROUND_UP(templates_offset(nrings) +
					(uint64_t) nrings * STENO_TEMPLATES * sizeof(StenoTemplate));
}

static uint64_t
chunk_states_offset(uint32_t nrings, uint32_t size)
{
	return ROUND_UP(data_offset(nrings) + (uint64_t) nrings * size);
}

static uint64_t
chunks_offset(uint32_t nrings, uint32_t size, uint32_t nchunks)
{
	return ROUND_UP(chunk_states_offset(nrings, size) + (uint64_t) nchunks * sizeof(uint64_t));
}

/* Size of a file with these rings and chunks. */
uint64_t
steno_rings_total(uint32_t nrings, uint32_t size, uint32_t nchunks)
{
	return chunks_offset(nrings, size, nchunks) + (uint64_t) nchunks * STENO_CHUNK;
}

static bool
shape_is_valid(uint32_t nrings, uint32_t size, uint32_t nchunks, uint32_t nwriters)
{
	return nrings > 0 && nrings <= STENO_RINGS_MAX && nchunks <= STENO_CHUNKS_MAX &&
		size >= STENO_RING_MIN && size <= STENO_RING_MAX && (size & (size - 1)) == 0 &&
		nwriters > 0 && nwriters <= STENO_MAX_WRITERS;
}

/*
 * Allocate the file's blocks now.  If the file system were full, a later store into
 * a hole would raise SIGBUS, in the middle of some statement.
 */
static int
allocate_ring_file(int fd, uint64_t total)
{
	int			error;

	do
		error = posix_fallocate(fd, 0, (off_t) total);
	while (error == EINTR);
	return error;
}

/*
 * What is wrong with the header, or NULL if every offset that steno_ring_at and
 * steno_ring_data can compute lies in a file of this size.  All offsets follow from
 * the number and size of the rings, so they must equal those that we compute.
 */
static const char *
wrong_header(const StenoRingFile *file, uint64_t size)
{
	if (file->magic != STENO_RING_MAGIC)
		return "not a ring file";
	if (file->version != STENO_RING_VERSION ||
		file->ring_stride != sizeof(StenoRing))
		return "ring file of another version";
	if (!shape_is_valid(file->nrings, file->size, file->chunks, file->nwriters) ||
		file->rings_offset != rings_offset() ||
		file->templates_offset != templates_offset(file->nrings) ||
		file->data_offset != data_offset(file->nrings) ||
		file->chunk_size != STENO_CHUNK ||
		file->chunks_offset != chunks_offset(file->nrings, file->size, file->chunks) ||
		file->total != steno_rings_total(file->nrings, file->size, file->chunks) ||
		file->total != size)
		return "ring file is damaged";
	return NULL;
}

const char *
steno_rings_attach(StenoRings *rings, void *bytes, uint64_t len, const StenoRingFile *header)
{
	const char *what = wrong_header(header, len);

	if (what != NULL)
		return what;
	rings->file = bytes;
	rings->mapped = len;
	rings->nrings = header->nrings;
	rings->size = header->size;
	rings->nwriters = header->nwriters;
	rings->nchunks = header->chunks;
	rings->headers = (StenoRing *) ((char *) bytes + rings_offset());
	rings->templates = (StenoTemplate *) ((char *) bytes + templates_offset(header->nrings));
	rings->data = (uint8_t *) bytes + data_offset(header->nrings);
	rings->chunk_states = (_Atomic uint64_t *)
		((char *) bytes + chunk_states_offset(header->nrings, header->size));
	rings->chunks = (uint8_t *) bytes + chunks_offset(header->nrings, header->size, header->chunks);
	return NULL;
}

static bool
map_ring_file(StenoRings *rings, int fd, const StenoRingFile *header)
{
	void	   *p = mmap(NULL, header->total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return false;
	(void) steno_rings_attach(rings, p, header->total, header);
	return true;
}

/* Read bytes of the file; what a shorter file lacks is zeros. */
static bool
read_bytes(int fd, void *to, size_t len, uint64_t offset)
{
	size_t		done = 0;

	memset(to, 0, len);
	while (done < len)
	{
		ssize_t		n = pread(fd, (char *) to + done, len - done, (off_t) (offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (n == 0)
			break;
		done += (size_t) n;
	}
	return true;
}

/* Where the next bytes are that are not in a hole; the end if there are none. */
static uint64_t
next_data(int fd, uint64_t from, uint64_t end)
{
#ifdef SEEK_DATA
	off_t		data = lseek(fd, (off_t) from, SEEK_DATA);

	if (data >= 0)
		return (uint64_t) data < end ? (uint64_t) data : end;
	if (errno == ENXIO)
		return end;
#else
	(void) fd;
#endif
	return from < end ? from : end;
}

/*
 * Copy everything but the headers from the file into private memory, over the
 * mapping; holes cost nothing.
 */
static bool
copy_contents(StenoRings *rings, int fd)
{
	uint64_t	at = templates_offset(rings->nrings);
	char	   *bytes = (char *) rings->file;

	if (mmap(bytes + at, rings->mapped - at, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return false;
	while ((at = next_data(fd, at, rings->mapped)) < rings->mapped)
	{
		uint64_t	n = rings->mapped - at < COPY_UNIT ? rings->mapped - at : COPY_UNIT;

		if (!read_bytes(fd, bytes + at, n, at))
			return false;
		at += n;
	}
	return true;
}

/*
 * Map a file that was left.  It has holes if its server has given memory back
 * (left.h), or if it is a copy.  An access to a hole in a mapping needs memory, and
 * would be a SIGBUS if the file system is full.  So only the headers of such a file
 * are mapped, to which recovery writes, and the rest is a copy.
 */
static bool
map_left_file(StenoRings *rings, int fd, const struct stat *st, const StenoRingFile *header)
{
	int			error;

	if ((uint64_t) st->st_blocks * 512 >= header->total)
		return map_ring_file(rings, fd, header);
	error = allocate_ring_file(fd, templates_offset(header->nrings));
	if (error == 0 && map_ring_file(rings, fd, header))
	{
		if (copy_contents(rings, fd))
			return true;
		error = errno;
		steno_rings_close(rings);
	}
	if (error != 0)
		errno = error;
	return false;
}

/* A new file is all zeros, which are empty rings, so only its header is written. */
void
steno_rings_describe(StenoRingFile *file, uint32_t nrings, uint32_t size, uint32_t nchunks,
					 uint32_t nwriters, uint64_t system_identifier, int64_t now)
{
	memset(file, 0, sizeof(*file));
	file->magic = STENO_RING_MAGIC;
	file->version = STENO_RING_VERSION;
	file->nrings = nrings;
	file->size = size;
	file->nwriters = nwriters;
	file->ring_stride = sizeof(StenoRing);
	file->postmaster = (uint32_t) getpid();
	file->system_identifier = system_identifier;
	file->created = now;
	file->rings_offset = rings_offset();
	file->templates_offset = templates_offset(nrings);
	file->data_offset = data_offset(nrings);
	file->chunks_offset = chunks_offset(nrings, size, nchunks);
	file->chunks = nchunks;
	file->chunk_size = STENO_CHUNK;
	file->total = steno_rings_total(nrings, size, nchunks);
}

/* Store the magic last: a file without it was never finished, so no ring of it was ever used. */
static void
publish_header(StenoRingFile *file, const StenoRingFile *header)
{
	size_t		after = offsetof(StenoRingFile, version);

	memcpy((char *) file + after, (const char *) header + after, offsetof(StenoRingFile, intents) - after);
	__atomic_store_n(&file->magic, header->magic, __ATOMIC_RELEASE);
}

bool
steno_rings_create(StenoRings *rings, int folder, const char *name, uint32_t nrings,
				   uint32_t size, uint32_t nchunks, uint32_t nwriters,
				   uint64_t system_identifier, int64_t now, const char **what)
{
	uint64_t	total = steno_rings_total(nrings, size, nchunks);
	StenoRingFile header;
	int			fd;
	int			error;

	memset(rings, 0, sizeof(*rings));
	if (!shape_is_valid(nrings, size, nchunks, nwriters) || total > SIZE_MAX)
	{
		*what = "invalid number or size of rings";
		errno = EINVAL;
		return false;
	}
	fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
	{
		*what = "could not create ring file";
		return false;
	}
	steno_rings_describe(&header, nrings, size, nchunks, nwriters, system_identifier, now);
	error = allocate_ring_file(fd, total);
	if (error != 0)
		*what = "could not allocate ring file";
	else if (!map_ring_file(rings, fd, &header))
	{
		error = errno;
		*what = "could not map ring file";
	}
	close(fd);
	if (error != 0)
	{
		unlinkat(folder, name, 0);
		errno = error;
		return false;
	}
	publish_header(rings->file, &header);
	return true;
}

static StenoRingState
check_and_map(StenoRings *rings, int fd, uint64_t system_identifier, char what[STENO_RING_WHAT])
{
	StenoRingFile header;
	struct stat st;
	const char *wrong;

	if (fstat(fd, &st) != 0)
		snprintf(what, STENO_RING_WHAT, "could not examine ring file");
	else if (!steno_private_file(&st, what, STENO_RING_WHAT))
		errno = EPERM;
	/* an access to a mapping past the end of the file would raise SIGBUS */
	else if (!read_bytes(fd, &header, sizeof(header), 0))
		snprintf(what, STENO_RING_WHAT, "could not read ring file");
	else if (header.magic == 0)
		return STENO_RING_UNFINISHED;
	else if ((wrong = wrong_header(&header, (uint64_t) st.st_size)) != NULL ||
			 (wrong = header.system_identifier != system_identifier ?
			  "ring file of another cluster" : NULL) != NULL)
	{
		snprintf(what, STENO_RING_WHAT, "%s", wrong);
		errno = EINVAL;
	}
	else if (!map_left_file(rings, fd, &st, &header))
		snprintf(what, STENO_RING_WHAT, "could not map ring file");
	else
		return STENO_RING_OPEN;
	return STENO_RING_FAILED;
}

StenoRingState
steno_rings_open(StenoRings *rings, int folder, const char *name, uint64_t system_identifier,
				 char what[STENO_RING_WHAT])
{
	StenoRingState state;
	int			error;
	int			fd;

	memset(rings, 0, sizeof(*rings));
	fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
	{
		snprintf(what, STENO_RING_WHAT, "could not open ring file");
		return STENO_RING_FAILED;
	}
	state = check_and_map(rings, fd, system_identifier, what);
	error = errno;
	close(fd);
	errno = error;
	return state;
}

/* The file is kept. */
void
steno_rings_close(StenoRings *rings)
{
	if (rings->file != NULL)
		munmap(rings->file, rings->mapped);
	memset(rings, 0, sizeof(*rings));
}
