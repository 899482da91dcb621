/*
 * core/test/make_golden.c
 *		usage: make_golden FOLDER: write the golden trails there, in which there
 *		are none.
 */
#include "test/golden.h"
#include "test/test.h"

void
test_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	exit(1);
}

int
main(int argc, char **argv)
{
	if (argc != 2)
	{
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	golden_make(argv[1]);
	return 0;
}
