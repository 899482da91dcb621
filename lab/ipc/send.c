/*
 * lab/ipc/send.c
 *		A case of sending: links, readers, senders, the time it takes, and whether
 *		everything that was sent has arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/ipc.h"

/* How often the parent polls, and how many senders' states it samples. */
#define LOOK_US 20000
#define LOOKS 32

/* Senders continue until this many messages have arrived, within limits. */
#define LEAST 32
#define STRETCH 8

/* A case that takes longer than this has lost a message or a wake-up. */
#define PATIENCE_NS (UINT64_C(60) * 1000000000)

/* A running case.  Shared parts are mapped before the processes are forked. */
typedef struct Run
{
	LabCase		c;
	LabGroup	group;
	LabLink    *links;
	uint64_t   *next;			/* shared: number of messages received from each sender */
	LabHistogram *delays;		/* shared, one for each reader */
	uint32_t	look;			/* the next sender to be sampled */
} Run;

static const LabChannel *const channels[] = {
	&lab_pipe, &lab_pipe_mutex, &lab_stream, &lab_stream_mutex, &lab_datagram,
	&lab_file, &lab_uring, &lab_shared_ring, &lab_ring_each
};

#define CHANNELS (sizeof(channels) / sizeof(channels[0]))

const LabChannel *
lab_channel(const char *name)
{
	size_t		i;

	for (i = 0; i < CHANNELS; i++)
		if (strcmp(channels[i]->name, name) == 0)
			return channels[i];
	return NULL;
}

/* ---- the processes ---- */

static void
close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Readers see the end of a channel only when no process has the sender's end open. */
static void
close_ends(Run *run, bool in, bool out, uint32_t but)
{
	uint32_t	i;

	for (i = 0; i < run->c.readers; i++)
	{
		if (in)
			close_end(&run->links[i].in);
		if (out && i != but)
			close_end(&run->links[i].out);
	}
}

static void
reader_body(void *arg, uint32_t i)
{
	Run		   *run = arg;
	LabReader  *r = calloc(1, sizeof(*r));
	LabUsage	begin;

	if (r == NULL)
		lab_fail("out of memory");
	close_ends(run, run->c.channel->finish == NULL, true, i);
	r->c = &run->c;
	r->member = &run->group.shared->members[i];
	r->shared = run->group.shared;
	r->next = run->next;
	r->at = calloc(run->c.processes, sizeof(*r->at));
	r->sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (r->at == NULL || r->sink < 0)
		lab_fail("could not open \"/dev/null\": %s", strerror(errno));
	lab_begin(r->shared, &begin);
	run->c.channel->receive(&run->links[i], r);
	lab_end(r->member, &begin);
	memcpy(&run->delays[i], &r->delays, sizeof(r->delays));
}

static void
send_all(Run *run, LabLink *link, LabMember *member, uint32_t sender)
{
	const LabCase *c = &run->c;
	uint64_t	most = c->bytes / c->size / c->processes;
	uint64_t	seq;

	if (most == 0)
		most = 1;
	if (c->messages > 0 && c->messages < most)
		most = c->messages;
	for (seq = 0; seq < most; seq++)
	{
		bool		fault = c->fault != LAB_NO_FAULT && sender == 0 && seq == c->fault_at;

		if (fault && c->fault == LAB_LATE)
			lab_nap(c->milliseconds * 1000 * 2 * STRETCH);
		if (atomic_load_explicit(&run->group.shared->stop, memory_order_relaxed) != 0)
			break;
		if (fault && c->fault == LAB_SKIP)
			continue;
		if (fault && c->fault == LAB_DIE)
			raise(SIGKILL);
		if (!c->channel->send(link, sender, seq))
			break;
		if (fault && c->fault == LAB_REPEAT)
			c->channel->send(link, sender, seq);
	}
	member->count = seq;
}

static void
sender_body(void *arg, uint32_t i)
{
	Run		   *run = arg;
	uint32_t	sender = i - run->c.readers;
	LabLink    *link = &run->links[sender % run->c.readers];
	LabMember  *member = &run->group.shared->members[i];
	LabUsage	begin;

	close_ends(run, false, true, UINT32_MAX);
	/* allocates the pages now, not while the time is measured */
	if ((link->buffer = aligned_alloc(4096, (run->c.size + 4095) & ~UINT32_C(4095))) == NULL)
		lab_fail("out of memory");
	memset(link->buffer, 1, run->c.size);
	if (run->c.channel->begin != NULL)
		run->c.channel->begin(link, sender);
	lab_begin(run->group.shared, &begin);
	send_all(run, link, member, sender);
	if (run->c.channel->flush != NULL)
		run->c.channel->flush(link, sender);
	lab_end(member, &begin);
}

/* ---- the parent ---- */

static void
look_at_states(Run *run, LabFigures *f)
{
	const LabMember *members = run->group.shared->members + run->c.readers;
	uint32_t	i;

	for (i = 0; i < LOOKS && i < run->c.processes; i++)
	{
		const LabMember *member = &members[run->look++ % run->c.processes];
		char		state = member->gone ? 0 : lab_state(member->pid);

		if (state == 0 || state == 'Z')
			continue;
		f->looks++;
		f->uninterruptible += state == 'D';
	}
}

/* Readers update their counts as they receive. */
static uint64_t
come_so_far(const Run *run)
{
	uint64_t	n = 0;
	uint32_t	i;

	for (i = 0; i < run->c.readers; i++)
		n += __atomic_load_n(&run->group.shared->members[i].count, __ATOMIC_RELAXED);
	return n;
}

/*
 * Whether senders may stop when their time is over.  If a message takes as long as the
 * case, a few of them have no significance, and none would be no result at all: on a busy
 * machine, it may take arbitrarily long until the first sender runs.
 */
static bool
is_enough(const Run *run, bool late)
{
	uint64_t	n = come_so_far(run);

	return n >= LEAST || (late && n > 0);
}

/* Wait until these processes have exited. */
static bool
await(Run *run, LabFigures *f, uint32_t from, uint32_t to, uint64_t stop_at, uint64_t give_up)
{
	uint64_t	late = stop_at + (STRETCH - 1) * run->c.milliseconds * UINT64_C(1000000);

	for (;;)
	{
		uint64_t	now = lab_now();

		if (!lab_group_look(&run->group, f->error))
			return false;
		if (lab_group_running(&run->group, from, to) == 0)
			return true;
		if (now >= give_up)
		{
			snprintf(f->error, LAB_REASON, "%u processes have not come to their end",
					 lab_group_running(&run->group, from, to));
			return false;
		}
		if (now >= stop_at && is_enough(run, now >= late))
			atomic_store(&run->group.shared->stop, 1);
		look_at_states(run, f);
		lab_nap(now < stop_at && stop_at - now < LOOK_US * UINT64_C(1000) ? (stop_at - now) / 1000 + 1 :
				now < stop_at ? LOOK_US : 1000);
	}
}

static bool
start_all(Run *run, LabFigures *f)
{
	uint32_t	i;

	for (i = 0; i < run->c.readers; i++)
		if (!lab_group_start(&run->group, i, reader_body, run, f->error))
			return false;
	for (i = 0; i < run->c.processes; i++)
		if (!lab_group_start(&run->group, run->c.readers + i, sender_body, run, f->error))
			return false;
	if (run->c.channel->finish == NULL)
		close_ends(run, true, true, UINT32_MAX);
	return lab_group_go(&run->group, f->error);
}

/* For each sender, all messages that were sent must have arrived. */
static bool
add_up(Run *run, LabFigures *f, uint64_t began)
{
	const LabMember *members = run->group.shared->members;
	LabHistogram all = {{0}, 0};
	uint64_t	last = began;
	uint32_t	i;
	uint32_t	j;

	for (i = 0; i < run->c.readers; i++)
	{
		lab_usage_add(&f->readers, &members[i].usage);
		f->messages += members[i].count;
		if (members[i].end_ns > last)
			last = members[i].end_ns;
		for (j = 0; j < LAB_BUCKETS; j++)
			all.counts[j] += run->delays[i].counts[j];
		all.all += run->delays[i].all;
	}
	for (i = 0; i < run->c.processes; i++)
	{
		const LabMember *member = &members[run->c.readers + i];

		lab_usage_add(&f->senders, &member->usage);
		if (member->count != run->next[i])
		{
			snprintf(f->error, LAB_REASON, "process %u has sent %llu messages, and %llu have come", i,
					 (unsigned long long) member->count, (unsigned long long) run->next[i]);
			return false;
		}
	}
	f->seconds = (double) (last - began) / 1e9;
	f->delay_50 = lab_histogram_at(&all, 0.5);
	f->delay_99 = lab_histogram_at(&all, 0.99);
	return true;
}

static bool
measure(Run *run, LabFigures *f)
{
	uint32_t	readers = run->c.readers;
	uint64_t	began;
	uint64_t	give_up;
	uint32_t	i;

	if (!start_all(run, f))
		return false;
	began = run->group.began_ns;
	give_up = began + run->c.milliseconds * UINT64_C(1000000) + PATIENCE_NS;
	if (!await(run, f, readers, run->group.n, began + run->c.milliseconds * UINT64_C(1000000), give_up))
		return false;
	atomic_store(&run->group.shared->done, 1);
	for (i = 0; i < readers && run->c.channel->finish != NULL; i++)
		run->c.channel->finish(&run->links[i]);
	return await(run, f, 0, readers, give_up, give_up) && add_up(run, f, began);
}

static bool
open_links(Run *run, LabFigures *f)
{
	const LabCase *c = &run->c;
	uint32_t	i;

	for (i = 0; i < c->readers; i++)
		run->links[i] = (LabLink)
		{
			.c = &run->c, .shared = run->group.shared, .number = i, .in = -1, .out = -1,
			.senders = c->processes / c->readers + (i < c->processes % c->readers)
		};
	for (i = 0; i < c->readers; i++)
	{
		const char *what = "could not open a channel";

		if (!c->channel->open(&run->links[i], &what))
		{
			snprintf(f->error, LAB_REASON, "%s: %s", what, strerror(errno));
			return false;
		}
	}
	return true;
}

static bool
prepare(Run *run, LabFigures *f)
{
	const LabCase *c = &run->c;

	run->links = calloc(c->readers, sizeof(*run->links));
	run->next = lab_shared_memory(c->processes * sizeof(*run->next));
	run->delays = lab_shared_memory(c->readers * sizeof(*run->delays));
	if (run->links != NULL && run->next != NULL && run->delays != NULL)
		return lab_group_open(&run->group, c->readers + c->processes, f->error);
	snprintf(f->error, LAB_REASON, "out of memory");
	return false;
}

static void
clean_up(Run *run)
{
	uint32_t	i;

	lab_group_close(&run->group);
	if (run->links != NULL)
	{
		close_ends(run, true, true, UINT32_MAX);
		for (i = 0; i < run->c.readers; i++)
			if (run->links[i].own != NULL)
				munmap(run->links[i].own, run->links[i].own_size);
	}
	free(run->links);
	if (run->next != NULL)
		munmap(run->next, run->c.processes * sizeof(*run->next));
	if (run->delays != NULL)
		munmap(run->delays, run->c.readers * sizeof(*run->delays));
}

/* Each sender holds one message, its copy in transit, and what the channel buffers. */
static const char *
too_big(const LabCase *c, char *reason)
{
	uint64_t	need = UINT64_C(2) * c->processes * c->size;
	uint64_t	have = (uint64_t) sysconf(_SC_AVPHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);

	if (need < have)
		return NULL;
	snprintf(reason, LAB_REASON, "%u messages of %u bytes at once need more memory than is free",
			 c->processes, c->size);
	return reason;
}

static const char *
refuses(const LabCase *c, char *reason)
{
	if (c->processes < c->readers)
		return "fewer processes than readers";
	if (too_big(c, reason) != NULL)
		return reason;
	return c->channel->refuses != NULL ? c->channel->refuses(c, reason) : NULL;
}

bool
lab_send(const LabCase *c, LabFigures *figures)
{
	Run			run = {.c = *c};
	char		reason[LAB_REASON];
	const char *why = refuses(c, reason);
	bool		ok;

	memset(figures, 0, sizeof(*figures));
	if (why != NULL)
	{
		snprintf(figures->skipped, LAB_REASON, "%s", why);
		return true;
	}
	lab_messages_init();
	if (c->fault == LAB_NO_FAULT)
		figures->own_ns = lab_own_cost(c);
	ok = prepare(&run, figures) && open_links(&run, figures) && measure(&run, figures);
	if (run.group.refused)
	{
		memcpy(figures->skipped, figures->error, LAB_REASON);
		figures->error[0] = '\0';
		ok = true;
	}
	clean_up(&run);
	return ok;
}
