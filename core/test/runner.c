/*
 * core/test/runner.c
 *		Runs the registered tests, one process each, and counts.
 *
 * usage: runner [-t] [name part ...]; -t takes the threaded tests only.
 *		  runner -g FOLDER; writes the golden trails into an empty folder.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/trail.h"
#include "test/test.h"

static TestCase *tests;
static char folder[200];
static uint64_t seed;

void
test_register(TestCase *t)
{
	TestCase  **p = &tests;

	while (*p != NULL && strcmp((*p)->name, t->name) < 0)
		p = &(*p)->next;
	t->next = *p;
	*p = t;
}

void
test_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s (seed %llu)\n", file, line, what, (unsigned long long) seed);
	fflush(stderr);
	_exit(1);
}

const char *
test_folder(void)
{
	return folder;
}

uint64_t
test_parameter(const char *name, uint64_t otherwise)
{
	char		variable[100];
	const char *value;

	snprintf(variable, sizeof(variable), "STENO_TEST_%s", name);
	value = getenv(variable);
	return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

uint64_t
test_seed(void)
{
	return seed;
}

static void
remove_tree(const char *path)
{
	DIR		   *dir = opendir(path);
	struct dirent *entry;
	char		child[600];

	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		if (unlink(child) != 0)
			remove_tree(child);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

static bool
run(const TestCase *t)
{
	const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	pid_t		pid;
	int			status;

	snprintf(folder, sizeof(folder), "%s/steno-test-XXXXXX", base);
	if (mkdtemp(folder) == NULL)
		return false;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		/* a test that hangs has failed */
		alarm(150);
		t->run();
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = -1;
	remove_tree(folder);
	return status == 0;
}

/* Whether a test is to run: all, or those that have one of the parts in their names, or in that of their file. */
static bool
selected(const TestCase *t, bool threaded, int n, char **parts)
{
	const char *slash = strrchr(t->file, '/');
	const char *file = slash ? slash + 1 : t->file;
	int			i;

	if (threaded && !t->threaded)
		return false;
	for (i = 0; i < n; i++)
		if (strstr(t->name, parts[i]) != NULL || strstr(file, parts[i]) != NULL)
			return true;
	return n == 0;
}

int
main(int argc, char **argv)
{
	bool		threaded = argc > 1 && strcmp(argv[1], "-t") == 0;
	int			first = threaded ? 2 : 1;
	int			passed = 0;
	int			failed = 0;
	const TestCase *t;

	if (argc == 3 && strcmp(argv[1], "-g") == 0)
	{
		golden_make(argv[2]);
		return 0;
	}
	seed = test_parameter("SEED", (uint64_t) time(NULL));
	for (t = tests; t != NULL; t = t->next)
	{
		struct timespec a;
		struct timespec b;
		bool		ok;

		if (!selected(t, threaded, argc - first, argv + first))
			continue;
		clock_gettime(CLOCK_MONOTONIC, &a);
		ok = run(t);
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%-8s%s (%.1f s)\n", ok ? "ok" : "FAILED", t->name,
			   (double) (b.tv_sec - a.tv_sec) + (double) (b.tv_nsec - a.tv_nsec) / 1e9);
		*(ok ? &passed : &failed) += 1;
	}
	printf("%d passed, %d failed\n", passed, failed);
	if (passed + failed == 0)
		fprintf(stderr, "no test has that in its name\n");
	return passed > 0 && failed == 0 ? 0 : 1;
}
