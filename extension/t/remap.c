/*
 * extension/t/remap.c
 *		A library for LD_PRELOAD: an mremap() that can map shared pages of a file once more, at another
 *		place, as Linux does for an old size of 0.  Valgrind refuses that, and sessions without it have
 *		no brief records.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *
map_again(char *from, size_t size, void *to)
{
	void	   *result = MAP_FAILED;
	FILE	   *maps = fopen("/proc/self/maps", "r");
	char		line[5000];

	while (maps && fgets(line, sizeof(line), maps))
	{
		char	   *begin;
		char	   *end;
		unsigned long offset;
		char		path[4096];
		int			fd;

		if (sscanf(line, "%p-%p %*s %lx %*s %*s %4095s", (void **) &begin, (void **) &end, &offset, path) != 4 ||
			from < begin || from + size > end)
			continue;
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			break;
		result = mmap(to, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
					  (off_t) offset + (from - begin));
		close(fd);
		break;
	}
	if (maps)
		fclose(maps);
	return result;
}

void *
mremap(void *from, size_t old_size, size_t size, int flags,...)
{
	void	   *to = NULL;
	va_list		args;

	va_start(args, flags);
	if (flags & MREMAP_FIXED)
		to = va_arg(args, void *);
	va_end(args);
	if (old_size == 0 && to != NULL)
		return map_again(from, size, to);
	return (void *) syscall(SYS_mremap, from, old_size, size, flags, to);
}
