/*
 * core/ring.c
 *		The ring file: made once at the start of a server, opened again by
 *		whoever drains what a server that died has left.
 *
 * The rings themselves are in ring.h, inline: their code runs in every
 * statement.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring.h"

/*
 * The file's own unit, not the machine's: a file must not depend on the page
 * size, and 64 kB pages only cost alignment, not correctness.
 */
#define RING_PAGE UINT64_C(4096)
#define ROUND_UP(n) (((n) + RING_PAGE - 1) & ~(RING_PAGE - 1))

_Static_assert(sizeof(StenoRing) % STENO_CACHE_LINE == 0, "ring headers must not share a cache line");
_Static_assert(sizeof(StenoTemplate) % STENO_CACHE_LINE == 0, "nor what brief records refer to");
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

/* Bytes of a file with these rings. */
uint64_t
steno_rings_total(uint32_t nrings, uint32_t size)
{
	return data_offset(nrings) + (uint64_t) nrings * size;
}

static bool
shape_is_valid(uint32_t nrings, uint32_t size, uint32_t nwriters)
{
	return nrings > 0 && size >= STENO_RING_MIN && (size & (size - 1)) == 0 &&
		nwriters > 0 && nwriters <= STENO_MAX_WRITERS;
}

/*
 * Give the file its blocks now: a store into a hole of a full file system is a
 * SIGBUS, in some statement, later.
 */
static int
allocate(int fd, uint64_t total)
{
	int			error;

	do
		error = posix_fallocate(fd, 0, (off_t) total);
	while (error == EINTR);
	return error;
}

static bool
map(StenoRings *rings, int fd, uint64_t total)
{
	void	   *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return false;
	rings->file = p;
	rings->mapped = total;
	return true;
}

/* The fresh file is all zeros, and zeros are empty rings. */
static void
describe(StenoRingFile *file, uint32_t nrings, uint32_t size, uint32_t nwriters,
		 uint64_t system_identifier, int64_t now)
{
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
	file->total = steno_rings_total(nrings, size);
	/* last: a file without it was never finished, and holds nothing */
	file->magic = STENO_RING_MAGIC;
}

bool
steno_rings_create(StenoRings *rings, const char *path, uint32_t nrings,
				   uint32_t size, uint32_t nwriters,
				   uint64_t system_identifier, int64_t now, const char **what)
{
	uint64_t	total = steno_rings_total(nrings, size);
	int			fd;
	int			error;

	rings->file = NULL;
	rings->mapped = 0;
	if (!shape_is_valid(nrings, size, nwriters) || total > SIZE_MAX)
	{
		*what = "invalid number or size of rings";
		errno = EINVAL;
		return false;
	}
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
	{
		*what = "could not create ring file";
		return false;
	}
	error = allocate(fd, total);
	if (error != 0)
		*what = "could not allocate ring file";
	else if (!map(rings, fd, total))
	{
		error = errno;
		*what = "could not map ring file";
	}
	close(fd);
	if (error != 0)
	{
		unlink(path);
		errno = error;
		return false;
	}
	describe(rings->file, nrings, size, nwriters, system_identifier, now);
	return true;
}

/*
 * Whether every offset that steno_ring_at and steno_ring_data can come to lies
 * in a file of this size.  The maker computes them, so they must be the very
 * same.
 */
static const char *
invalid(const StenoRingFile *file, uint64_t size)
{
	if (file->magic != STENO_RING_MAGIC)
		return "not a ring file";
	if (file->version != STENO_RING_VERSION ||
		file->ring_stride != sizeof(StenoRing))
		return "ring file of another version";
	if (!shape_is_valid(file->nrings, file->size, file->nwriters) ||
		file->rings_offset != rings_offset() ||
		file->templates_offset != templates_offset(file->nrings) ||
		file->data_offset != data_offset(file->nrings) ||
		file->total != steno_rings_total(file->nrings, file->size) ||
		file->total != size)
		return "ring file is damaged";
	return NULL;
}

bool
steno_rings_open(StenoRings *rings, const char *path, const char **what)
{
	struct stat st;
	int			fd;
	int			error = 0;

	rings->file = NULL;
	rings->mapped = 0;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
	{
		*what = "could not open ring file";
		return false;
	}
	if (fstat(fd, &st) != 0)
	{
		error = errno;
		*what = "could not examine ring file";
	}
	else if (!S_ISREG(st.st_mode) || (uint64_t) st.st_size < sizeof(StenoRingFile))
	{
		error = EINVAL;
		*what = "not a ring file";
	}
	else if (!map(rings, fd, (uint64_t) st.st_size))
	{
		error = errno;
		*what = "could not map ring file";
	}
	else if ((*what = invalid(rings->file, (uint64_t) st.st_size)) != NULL)
	{
		error = EINVAL;
		steno_rings_close(rings);
	}
	close(fd);
	errno = error;
	return error == 0;
}

/*
 * Whether this is a ring file that its maker, killed, had not finished: nothing was
 * ever put into it.
 */
bool
steno_rings_unfinished(const char *path)
{
	uint64_t	magic = 0;
	int			fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t		n;

	if (fd < 0)
		return false;
	n = pread(fd, &magic, sizeof(magic), offsetof(StenoRingFile, magic));
	close(fd);
	return n == 0 || (n == sizeof(magic) && magic == 0);
}

/* The file stays. */
void
steno_rings_close(StenoRings *rings)
{
	if (rings->file != NULL)
		munmap(rings->file, rings->mapped);
	rings->file = NULL;
	rings->mapped = 0;
}
