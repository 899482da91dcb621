/*
 * extension/t/memory.c
 *		Memory that runs out, as ends_outlive_short_memory.pl asks for it.
 *
 * A library for LD_PRELOAD.  While the file STENO_MEMORY is there, the process whose id
 * is in it gets no piece of memory as large as it says, in bytes, or larger, up to the
 * second size if there is one.  What was refused is counted in the file's length: a line
 * for each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Smaller ones are not asked for: every process would look at the file all the time. */
#define LEAST 9000

extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *old, size_t size);

static bool
is_refused(size_t size)
{
	const char *path = getenv("STENO_MEMORY");
	int			save_errno = errno;
	char		text[64];
	char	   *end;
	ssize_t		n = 0;
	long		most;
	int			fd;
	bool		refused;

	if (size < LEAST || path == NULL || (fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC)) < 0)
	{
		errno = save_errno;
		return false;
	}
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	refused = strtol(text, &end, 10) == getpid() && size >= (size_t) strtol(end, &end, 10);
	most = strtol(end, NULL, 10);
	if (most > 0 && size > (size_t) most)
		refused = false;
	if (refused && write(fd, "refused\n", 8) != 8)
		abort();
	close(fd);
	errno = refused ? ENOMEM : save_errno;
	return refused;
}

void *
malloc(size_t size)
{
	return is_refused(size) ? NULL : __libc_malloc(size);
}

void *
realloc(void *old, size_t size)
{
	return is_refused(size) ? NULL : __libc_realloc(old, size);
}
