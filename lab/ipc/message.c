/*
 * lab/ipc/message.c
 *		The contents of a message, and the reader's checks.
 *
 * Every byte is determined by the sender and the message's number, so that the reader
 * detects messages that are lost, duplicated, out of order, torn or mixed with others:
 *
 *		header		32 bytes: length, sender, number, time, and a checksum of these
 *		text		a part of a table, chosen by sender and number
 *		end			8 bytes: the header's checksum, inverted
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ipc/ipc.h"

typedef struct Header
{
	uint32_t	len;
	uint32_t	sender;
	uint64_t	seq;
	uint64_t	time;			/* ns, or 0 */
	uint64_t	check;
} Header;

#define END sizeof(uint64_t)

/* If the clock is not read for each message, it is read for one in this many, to measure delays. */
#define CLOCK_STEP 64

_Static_assert(sizeof(Header) == 32, "header of a message");
_Static_assert(LAB_SMALLEST >= sizeof(Header) + END, "smallest message");

/* Places in the table where a text can begin. */
#define PLACES 1024

static uint64_t table[LAB_LARGEST / sizeof(uint64_t) + PLACES];

/* splitmix64 */
static uint64_t
mix(uint64_t z)
{
	z += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Called before any process starts, because they share the table. */
void
lab_messages_init(void)
{
	size_t		i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		table[i] = mix(i);
}

static const uint8_t *
text_of(uint32_t sender, uint64_t seq)
{
	return (const uint8_t *) &table[(sender * UINT64_C(40503) + seq) % PLACES];
}

static uint64_t
check_of(const Header *h)
{
	uint64_t	a = h->seq * UINT64_C(0x9e3779b97f4a7c15) + h->time;
	uint64_t	b = ((uint64_t) h->sender << 32 | h->len) * UINT64_C(0xbf58476d1ce4e5b9);

	return a ^ (a >> 29) ^ b;
}

/* to has space for c->size bytes and is aligned to 8. */
void
lab_fill(const LabCase *c, uint32_t sender, uint64_t seq, uint8_t *to)
{
	Header		h = {c->size, sender, seq, c->clock_each || seq % CLOCK_STEP == 0 ? lab_now() : 0, 0};
	uint64_t	end;

	h.check = check_of(&h);
	end = ~h.check;
	memcpy(to, &h, sizeof(h));
	memcpy(to + sizeof(h), text_of(sender, seq), c->size - sizeof(h) - END);
	memcpy(to + c->size - END, &end, END);
	if (c->fault == LAB_FLIP && sender == 0 && seq == c->fault_at)
		to[(sizeof(h) + c->size - END) / 2] ^= 4;
}

/* Check the header: intact, in order, and of a sender of this link. */
static void
check_header(LabReader *r, const Header *h, uint32_t len)
{
	const LabCase *c = r->c;

	if (len < sizeof(*h) || h->len != c->size || h->sender >= c->processes || h->check != check_of(h))
		lab_fail("damaged header after %llu messages", (unsigned long long) r->member->count);
	if (h->seq != r->next[h->sender])
		lab_fail("message %llu of process %u came where %llu was due", (unsigned long long) h->seq,
				 h->sender, (unsigned long long) r->next[h->sender]);
}

static void
received(LabReader *r, const Header *h)
{
	r->next[h->sender]++;
	r->member->count++;
	if (r->c->clock_each || r->taken == 0)
		r->now = lab_now();
	if (h->time != 0)
		lab_histogram_add(&r->delays, r->now > h->time ? r->now - h->time : 0);
	r->taken++;
}

void
lab_take(LabReader *r, const uint8_t *bytes, uint32_t len)
{
	Header		h;
	uint64_t	end;

	if (len != r->c->size)
		lab_fail("message of %u bytes where all have %u", len, r->c->size);
	memcpy(&h, bytes, sizeof(h));
	check_header(r, &h, len);
	memcpy(&end, bytes + len - END, END);
	if (end != ~h.check ||
		memcmp(bytes + sizeof(h), text_of(h.sender, h.seq), len - sizeof(h) - END) != 0)
		lab_fail("message %llu of process %u is damaged", (unsigned long long) h.seq, h.sender);
	received(r, &h);
}

/*
 * Of a message in parts, only the first part contains the header: the expected end and the
 * time are kept until the end arrives.
 */
void
lab_take_piece(LabReader *r, uint32_t sender, const uint8_t *bytes, uint32_t len)
{
	static uint64_t *ends;		/* inverted checksums that are expected, and times */
	uint32_t	at = r->at[sender];
	uint32_t	size = r->c->size;
	uint32_t	from = at;
	uint32_t	to = at + len;
	const uint8_t *text;
	Header		h;

	if (at == 0 && len == size)
	{
		lab_take(r, bytes, len);
		return;
	}
	if (ends == NULL && (ends = calloc(r->c->processes, 2 * sizeof(*ends))) == NULL)
		lab_fail("out of memory");
	if (to > size)
		lab_fail("pieces of %u bytes where a message has %u", to, size);
	if (at == 0)
	{
		memcpy(&h, bytes, len < sizeof(h) ? len : sizeof(h));
		check_header(r, &h, len);
		if (h.sender != sender)
			lab_fail("message of process %u came from process %u", h.sender, sender);
		ends[2 * sender] = ~h.check;
		ends[2 * sender + 1] = h.time;
		from = sizeof(h);
	}
	text = text_of(sender, r->next[sender]);
	if (to == size)
		to -= END;
	if (to > from && memcmp(bytes + (from - at), text + (from - sizeof(h)), to - from) != 0)
		lab_fail("message %llu of process %u is damaged", (unsigned long long) r->next[sender], sender);
	r->at[sender] = at + len;
	if (at + len < size)
		return;
	if (memcmp(bytes + len - END, &ends[2 * sender], END) != 0)
		lab_fail("message %llu of process %u is damaged at its end",
				 (unsigned long long) r->next[sender], sender);
	r->at[sender] = 0;
	h.sender = sender;
	h.time = ends[2 * sender + 1];
	received(r, &h);
}

/* One call for a batch; /dev/null accepts everything. */
void
lab_pass_on(LabReader *r, const struct iovec *pieces, int n)
{
	if (n > 0 && writev(r->sink, pieces, n) < 0)
		lab_fail("could not pass messages on: %s", strerror(errno));
	r->taken = 0;
}

/* ---- the laboratory's own cost ---- */

#define OWN_RUNS 7
#define OWN_NS 500000

/*
 * Nanoseconds that making and checking a message take by themselves, without a channel:
 * the minimum of several runs.  They are included in every channel's processor time, so
 * that comparisons can subtract them.
 */
double
lab_own_cost(const LabCase *c)
{
	LabMember		member = {0};
	uint64_t   *next = calloc(c->processes, sizeof(*next));
	uint8_t    *buffer = aligned_alloc(64, (c->size + 63) & ~UINT32_C(63));
	LabReader	r = {.c = c, .member = &member, .next = next, .sink = -1};
	double		least = 0;
	int			i;

	if (next == NULL || buffer == NULL)
		lab_fail("out of memory");
	for (i = 0; i < OWN_RUNS; i++)
	{
		uint64_t	begin = lab_now();
		uint64_t	end = begin;
		uint64_t	n = 0;
		double		each;

		while (end - begin < OWN_NS)
		{
			uint32_t	j;

			for (j = 0; j < 8 && (j == 0 || c->size < 65536); j++, n++)
			{
				lab_fill(c, 0, next[0], buffer);
				lab_take(&r, buffer, c->size);
			}
			end = lab_now();
		}
		each = (double) (end - begin) / (double) n;
		if (i == 0 || each < least)
			least = each;
	}
	free(next);
	free(buffer);
	return least;
}

/* ---- histograms ---- */

void
lab_histogram_add(LabHistogram *h, uint64_t ns)
{
	uint32_t	bucket;

	if (ns < LAB_STEPS)
		bucket = (uint32_t) ns;
	else
	{
		uint32_t	power = 63 - (uint32_t) __builtin_clzll(ns);

		bucket = (power - 3) * LAB_STEPS + (uint32_t) ((ns >> (power - 4)) & (LAB_STEPS - 1));
	}
	if (bucket >= LAB_BUCKETS)
		bucket = LAB_BUCKETS - 1;
	h->counts[bucket]++;
	h->all++;
}

/* The middle of the bucket that contains this quantile; 0 if there are no values. */
double
lab_histogram_at(const LabHistogram *h, double share)
{
	uint64_t	seen = 0;
	uint32_t	i;

	for (i = 0; i < LAB_BUCKETS; i++)
	{
		seen += h->counts[i];
		if (h->all > 0 && (double) seen >= share * (double) h->all)
			break;
	}
	if (i == LAB_BUCKETS)
		return 0;
	if (i < LAB_STEPS)
		return i;
	return ((double) (LAB_STEPS + i % LAB_STEPS) + 0.5) * (double) (UINT64_C(1) << (i / LAB_STEPS - 1));
}
