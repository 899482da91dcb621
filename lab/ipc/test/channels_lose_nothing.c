/*
 * lab/ipc/test/channels_lose_nothing.c
 *		The laboratory's channels (ipc/): every message comes, whole and in order,
 *		and if one does not, that is noticed; nothing stays behind.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "test/test.h"

static const LabChannel *const channels[] = {
	&lab_pipe, &lab_pipe_mutex, &lab_stream, &lab_stream_mutex, &lab_datagram,
	&lab_file, &lab_uring, &lab_shared_ring, &lab_ring_each
};

#define CHANNELS (sizeof(channels) / sizeof(channels[0]))

/* A case that ends when its messages are sent, however long that takes. */
static LabCase
base(const LabChannel *channel, uint32_t size)
{
	return (LabCase)
	{
		.channel = channel, .processes = 3, .readers = 1, .size = size, .clock_each = true,
		.milliseconds = 100000, .bytes = UINT64_C(1) << 28, .messages = 40, .folder = test_folder()
	};
}

/* What cannot be in one piece must be refused, and other things run if they can. */
static void
check_case(const LabCase *c)
{
	const LabChannel *channel = c->channel;
	bool		alone = c->processes <= c->readers;
	bool		torn = !alone && ((channel == &lab_pipe && c->size > 4096) ||
								  (channel == &lab_stream && c->size > 32768));
	bool		may_refuse = channel == &lab_uring || (channel == &lab_datagram && c->size > 65536);
	LabFigures	f;

	if (!lab_send(c, &f))
	{
		fprintf(stderr, "%s, %u bytes, %u processes, %u readers, batch %u: %s\n", channel->name, c->size,
				c->processes, c->readers, c->batch, f.error);
		CHECK(false);
	}
	CHECK(torn == (f.skipped[0] != '\0') || may_refuse);
	if (f.skipped[0] != '\0')
		return;
	CHECK(f.messages == c->messages * c->processes);
	CHECK(f.seconds > 0);
	CHECK(f.senders.cpu_ns > 0 && f.readers.cpu_ns > 0);
	CHECK(f.delay_99 > 0);
}

TEST(channels_pass_messages_of_all_sizes_on)
{
	static const uint32_t sizes[] = {64, 200, 4096, 4104, 65536, 1048576};
	size_t		i;
	size_t		j;

	for (i = 0; i < CHANNELS; i++)
		for (j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
		{
			LabCase		c = base(channels[i], sizes[j]);

			if (sizes[j] >= 65536)
				c.messages = sizes[j] > 65536 ? 3 : 10;
			check_case(&c);
			c.processes = 1;
			check_case(&c);
		}
}

TEST(channels_have_several_readers_and_batches)
{
	static const uint32_t batches[] = {1, 25};
	size_t		i;
	size_t		j;

	for (i = 0; i < CHANNELS; i++)
		for (j = 0; j < 2; j++)
		{
			LabCase		c = base(channels[i], 512);

			c.batch = batches[j];
			c.messages = 700;
			check_case(&c);
			c.processes = 5;
			c.readers = 2;
			c.clock_each = false;
			check_case(&c);
		}
}

TEST(channels_need_a_process_for_each_reader)
{
	LabCase		c = base(&lab_pipe, 64);
	LabFigures	f;

	c.readers = 4;
	CHECK(lab_send(&c, &f));
	CHECK(strcmp(f.skipped, "fewer processes than readers") == 0);
}

/* On a busy machine, a sender may run for the first time when its time is over. */
TEST(channels_wait_for_the_first_message)
{
	size_t		i;

	for (i = 0; i < CHANNELS; i++)
	{
		LabCase		c = base(channels[i], 512);
		LabFigures	f;

		c.processes = 1;
		c.milliseconds = 5;
		c.fault = LAB_LATE;
		CHECK(lab_send(&c, &f));
		CHECK(f.messages > 0 || (channels[i] == &lab_uring && f.skipped[0] != '\0'));
	}
}

/* ---- what goes wrong is seen ---- */

static void
check_fault(LabCase c, LabFault fault, uint64_t at)
{
	LabFigures	f;

	c.fault = fault;
	c.fault_at = at;
	if (lab_send(&c, &f))
	{
		if (c.channel == &lab_uring && f.skipped[0] != '\0')
			return;
		fprintf(stderr, "%s: fault %d is not seen\n", c.channel->name, (int) fault);
		CHECK(false);
	}
	CHECK(f.error[0] != '\0');
}

TEST(channels_notice_lost_and_harmed_messages)
{
	size_t		i;

	for (i = 0; i < CHANNELS; i++)
	{
		LabCase		c = base(channels[i], 512);

		check_fault(c, LAB_FLIP, 0);
		check_fault(c, LAB_FLIP, 39);
		check_fault(c, LAB_SKIP, 5);
		/* the last one: nothing comes after it */
		check_fault(c, LAB_SKIP, 39);
		check_fault(c, LAB_REPEAT, 7);
		check_fault(c, LAB_DIE, 7);
	}
}

/* In rings these come in parts. */
TEST(channels_notice_harm_in_large_messages)
{
	size_t		i;

	for (i = 0; i < CHANNELS; i++)
	{
		LabCase		c = base(channels[i], 200000);

		c.processes = 1;
		c.messages = 3;
		check_fault(c, LAB_FLIP, 1);
		check_fault(c, LAB_SKIP, 1);
	}
}

TEST(channels_report_what_is_harmed)
{
	LabCase		c = base(&lab_ring_each, 64);
	LabFigures	f;

	c.fault = LAB_FLIP;
	c.fault_at = 3;
	CHECK(!lab_send(&c, &f));
	CHECK(strcmp(f.error, "message 3 of process 0 is damaged") == 0);
	c.fault = LAB_SKIP;
	CHECK(!lab_send(&c, &f));
	CHECK(strcmp(f.error, "message 4 of process 0 came where 3 was due") == 0);
	c.fault_at = 39;
	CHECK(!lab_send(&c, &f));
	CHECK(strcmp(f.error, "process 0 has sent 40 messages, and 39 have come") == 0);
}

/* ---- nothing stays behind ---- */

static void
check_no_files(pid_t pid)
{
	char		prefix[40];
	struct dirent *entry;
	DIR		   *dir;

	snprintf(prefix, sizeof(prefix), "steno-ipc-%d-", (int) pid);
	dir = opendir("/dev/shm");
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		CHECK(strncmp(entry->d_name, prefix, strlen(prefix)) != 0);
	if (dir != NULL)
		closedir(dir);
	dir = opendir(test_folder());
	CHECK(dir != NULL);
	while ((entry = readdir(dir)) != NULL)
		CHECK(entry->d_name[0] == '.');
	closedir(dir);
}

/*
 * Killed at different moments, one of them while rings are being made.  All that is
 * left comes to us, and we wait until it has ended.
 */
TEST(channels_leave_nothing_when_killed)
{
	static const long moments_us[] = {0, 500, 3000, 20000, 60000};
	size_t		i;
	size_t		j;

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	for (i = 0; i < CHANNELS; i++)
		for (j = 0; j < sizeof(moments_us) / sizeof(moments_us[0]); j++)
		{
			struct timespec nap = {0, moments_us[j] * 1000};
			LabCase		c = base(channels[i], 512);
			LabFigures	f;
			pid_t		pid = fork();

			CHECK(pid >= 0);
			if (pid == 0)
			{
				c.messages = 0;
				(void) lab_send(&c, &f);
				_exit(0);
			}
			nanosleep(&nap, NULL);
			CHECK(kill(pid, SIGKILL) == 0);
			/* processes that go on would keep us here */
			while (wait(NULL) > 0 || errno == EINTR)
				;
			CHECK(errno == ECHILD);
			check_no_files(pid);
		}
}
