/*
 * core/test/ring/private_places_are_checked.c
 *		Folders and ring files in a folder where every account may write: what
 *		another account has made there, or can change, is not used.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/private.h"
#include "ring/ring.h"
#include "test/test.h"

#define STRANGER 65534
#define RINGS 2
#define SIZE (16 * 1024)

static int	parent;
static char why[120];

/* As /dev/shm is. */
static void
make_parent(void)
{
	/* that of all tests is closed to others */
	CHECK(chmod(test_folder(), 0755) == 0);
	CHECK(chdir(test_folder()) == 0 && mkdir("shm", 0700) == 0 && chmod("shm", 01777) == 0);
	parent = open("shm", O_RDONLY | O_DIRECTORY);
	CHECK(parent >= 0 && fchdir(parent) == 0);
}

static bool
opens(const char *name)
{
	int			fd = steno_private_open_folder(parent, name, why, sizeof(why));

	if (fd >= 0)
		CHECK(close(fd) == 0);
	return fd >= 0;
}

static bool
refused(const char *name, const char *reason)
{
	why[0] = '\0';
	return !opens(name) && errno == EPERM && strstr(why, reason) != NULL;
}

static void
make_file(const char *name)
{
	StenoRings	rings;
	const char *what;

	CHECK(steno_rings_create(&rings, parent, name, RINGS, SIZE, 0, 1, 11, 12, &what));
	steno_rings_close(&rings);
}

static bool
file_refused(const char *name, const char *reason)
{
	StenoRings	rings;
	char		what[STENO_RING_WHAT] = "";

	return steno_rings_open(&rings, parent, name, 11, what) == STENO_RING_FAILED && rings.file == NULL &&
		errno == EPERM && strstr(what, reason) != NULL;
}

/* Have another account do it; false: only root can. */
static bool
as_stranger(void (*act) (void))
{
	int			status;
	pid_t		pid;

	if (geteuid() != 0)
	{
		fprintf(stderr, "skipped: what another account has made (needs root)\n");
		return false;
	}
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
	{
		CHECK(setgid(STRANGER) == 0 && setuid(STRANGER) == 0);
		act();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return true;
}

TEST(private_folder_is_opened_when_it_is_ours)
{
	struct stat st;

	make_parent();
	CHECK(!opens("none") && errno == ENOENT);
	CHECK(mkdir("ours", 0700) == 0 && opens("ours"));

	/* others could look into it: not any more */
	CHECK(chmod("ours", 0755) == 0 && opens("ours"));
	CHECK(stat("ours", &st) == 0 && (st.st_mode & 07777) == 0700);
}

TEST(private_folder_that_others_can_write_is_refused)
{
	make_parent();
	CHECK(mkdir("group", 0700) == 0 && chmod("group", 0770) == 0 && refused("group", "mode 0770"));
	CHECK(mkdir("all", 0700) == 0 && chmod("all", 01777) == 0 && refused("all", "mode 1777"));
}

TEST(private_folder_is_no_link_and_no_file)
{
	make_parent();
	CHECK(mkdir("ours", 0700) == 0 && symlink("ours", "link") == 0 && refused("link", "symbolic link"));
	CHECK(symlink("nowhere", "dangling") == 0 && refused("dangling", "symbolic link"));
	CHECK(close(creat("file", 0600)) == 0 && refused("file", "file of user ID"));
	CHECK(mkfifo("fifo", 0600) == 0 && refused("fifo", "special file"));
}

static void
make_folder(void)
{
	CHECK(mkdir("theirs", 0700) == 0);
	CHECK(symlink("/", "their link") == 0);
	make_file("their file");
}

TEST(private_folder_of_another_account_is_refused)
{
	make_parent();
	if (!as_stranger(make_folder))
		return;
	CHECK(refused("theirs", "user ID 65534"));
	CHECK(chmod("theirs", 0777) == 0 && refused("theirs", "user ID 65534"));
	CHECK(refused("their link", "symbolic link of user ID 65534"));
	CHECK(file_refused("their file", "user ID 65534"));
}

/* Whose process may look into nothing of theirs, is refused as well. */
static void
look_from_outside(void)
{
	CHECK(refused("closed", "user ID 0"));
}

TEST(private_folder_that_is_closed_to_us_is_refused)
{
	make_parent();
	CHECK(mkdir("closed", 0700) == 0);
	(void) as_stranger(look_from_outside);
}

TEST(ring_file_that_others_can_change_is_refused)
{
	StenoRings	rings;
	char		what[STENO_RING_WHAT];

	make_parent();
	make_file("ours");
	CHECK(steno_rings_open(&rings, parent, "ours", 11, what) == STENO_RING_OPEN);
	steno_rings_close(&rings);
	CHECK(chmod("ours", 0660) == 0 && file_refused("ours", "mode 0660"));
	CHECK(chmod("ours", 0602) == 0 && file_refused("ours", "mode 0602"));
	CHECK(chmod("ours", 0600) == 0 && link("ours", "twice") == 0);
	CHECK(file_refused("ours", "2 links") && file_refused("twice", "2 links"));
	CHECK(mkdir("folder", 0700) == 0);
	CHECK(steno_rings_open(&rings, parent, "folder", 11, what) == STENO_RING_FAILED && errno == EISDIR);
	CHECK(mkfifo("fifo", 0600) == 0 && file_refused("fifo", "special file"));
	CHECK(symlink("ours", "link") == 0);
	CHECK(steno_rings_open(&rings, parent, "link", 11, what) == STENO_RING_FAILED && errno == ELOOP);
	/* nor is one made over anything */
	CHECK(symlink("new", "to a new one") == 0);
	{
		const char *failed;

		CHECK(!steno_rings_create(&rings, parent, "to a new one", RINGS, SIZE, 0, 1, 11, 12, &failed));
		CHECK(errno == EEXIST && access("new", F_OK) != 0);
	}
}

TEST(ring_folder_that_others_can_empty_is_known)
{
	make_parent();
	CHECK(!steno_private_is_exposed(parent));	/* sticky */
	CHECK(fchmod(parent, 0777) == 0 && steno_private_is_exposed(parent));
	CHECK(fchmod(parent, 0755) == 0 && !steno_private_is_exposed(parent));
	if (geteuid() == 0)
		CHECK(fchown(parent, STRANGER, STRANGER) == 0 && steno_private_is_exposed(parent));
}
