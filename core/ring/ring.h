/*
 * core/ring/ring.h
 *		The ring: a single-producer single-consumer byte ring in a mapped file,
 *		one for each process of a server that can run SQL.
 *
 * The producer reserves room, encodes a message in place, and publishes it with
 * one release store.  The consumer reads all that is published, and frees it
 * only when it is safe in a file: until then a reader of the ring file finds it
 * there, whoever died.
 *
 * Positions count bytes since the ring was made and never wrap (2^64 bytes);
 * the offset in the data is position mod size.  A message never wraps: where it
 * does not fit before the end of the data, a filler takes the rest.
 *
 * The file (layout version STENO_RING_VERSION; read only by the same version
 * on the same machine, it is not an archive):
 *
 *		StenoRingFile		whole pages of 4 kB
 *		StenoRing[nrings]	headers, each a multiple of the cache line
 *		StenoTemplate[nrings][STENO_TEMPLATES]
 *		data[nrings]		page-aligned, size bytes each
 */
#ifndef STENO_RING_H
#define STENO_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "defs.h"

#define STENO_RING_MAGIC UINT64_C(0x474e49524e455453)	/* "STENRING" */
#define STENO_RING_VERSION 4
#define STENO_CACHE_LINE 64
#define STENO_MAX_WRITERS 64
#define STENO_PAGE 4096
#define STENO_SESSION_MAX 1000
#define STENO_OWN_MAX 2496
#define STENO_INFLIGHT_TEXT 232

/*
 * Have a line brought near, to be written.  A builtin would not do: GCC takes a
 * function of nothing but prefetches for one without effect, and leaves it out.
 */
#if defined(__x86_64__)
#define STENO_PREFETCH_WRITE(p) __asm__ volatile ("prefetchw %0" : : "m" (*(p)))
#elif defined(__aarch64__)
#define STENO_PREFETCH_WRITE(p) __asm__ volatile ("prfm pstl1keep, %0" : : "Q" (*(p)))
#else
#define STENO_PREFETCH_WRITE(p) __builtin_prefetch(p, 1)
#endif

/* A message is at most this share of a ring; bigger records go in parts. */
#define STENO_RING_SHARE 8
#define STENO_RING_MIN (16 * 1024)
#define STENO_RING_MAX (64 * 1024 * 1024)

/*
 * Every message starts with this, at a multiple of 8.  len is the whole message's,
 * rounded up to 8; kind 0 is filler.
 */
typedef struct StenoMessage
{
	uint32_t	len;
	uint16_t	kind;
	uint16_t	flags;
} StenoMessage;

/*
 * What is the same in each record of a prepared statement: brief records
 * (message.h) refer to it.  Written by the ring's producer, before the first
 * record that refers to it is published (the release store of head makes both
 * visible), and changed only after all such records have been freed.  So whoever reads
 * such a record finds what it refers to, also in the file of a dead server.  No
 * other process writes it.
 */
#define STENO_TEMPLATES 6
#define STENO_TEMPLATE_ROOM 304

typedef struct StenoTemplate
{
	uint16_t	version;		/* another one after each change */
	uint16_t	shape_len;		/* bytes */
	uint16_t	text_len;		/* bytes */
	uint16_t	pad;			/* unused */
	uint64_t	needed_until;	/* for the producer: no record from here on refers to it */
	uint8_t		bytes[STENO_TEMPLATE_ROOM]; /* shape, then text */
} StenoTemplate;

/*
 * What a session runs now.  Written by the ring's producer only, with relaxed
 * stores between two increments of version (odd while it changes), so that a
 * live reader (version read before with acquire, after with an acquire fence)
 * can tell a torn copy.  After the producer's death it is read by whoever
 * drains the ring.
 *
 * done is the head at which the statement's own record will be visible; it is
 * set before that head is published.  A dead producer's statement is
 * interrupted when active and (done == 0 or head < done).
 *
 * A staged statement's record stands in the ring already, at position, whole but
 * not published; its text is there and not in text[].  Before anything else
 * overwrites it, the text moves here and staged becomes 0.
 *
 * announced is set, by itself, before the entry shows its statement; a new session
 * sets it back.
 */
typedef struct StenoInFlight
{
	_Atomic uint32_t version;
	uint32_t	active;
	uint64_t	done;
	uint64_t	statement;
	int64_t		time;
	uint32_t	text_len;		/* full length of the statement's text */
	uint32_t	text_kept;		/* bytes of it in text[] */
	uint32_t	staged;
	uint32_t	pad;
	uint64_t	position;
	uint64_t	announced;		/* statement that has a start record; relaxed */
	char		text[STENO_INFLIGHT_TEXT];
} StenoInFlight;

/*
 * Ring header.  Fields are grouped by who writes them, a cache line or more each.
 */
typedef struct StenoRing
{
	/* Producer.  head: release store pairs with the consumer's acquire load. */
	_Alignas(STENO_CACHE_LINE) _Atomic uint64_t head;
	_Atomic uint64_t records;	/* since the ring was made; relaxed */
	_Atomic uint64_t waits;
	_Atomic uint64_t drops;
	_Atomic uint64_t wait_us;

	/*
	 * Set by the consumer before it sleeps deeply, cleared by either side: it
	 * stands here because the producer has this line at hand.
	 */
	_Atomic uint32_t asleep;
	uint32_t	gap_reason;		/* STENO_GAP_*; belongs to gap below */

	/*
	 * Left by a producer that ended with records dropped and no room to say so:
	 * how many, and their sequence numbers.  The next producer, or recovery,
	 * writes the gap record in the ended session's name.
	 */
	uint64_t	gap;
	uint64_t	gap_first;
	uint64_t	gap_last;
	int64_t		gap_start;		/* of its session */
	uint32_t	gap_pid;		/* 0: an older version's */
	uint32_t	gap_described;	/* that session is the last that was described here */

	/*
	 * What the present producer has dropped and not said yet, for recovery, and
	 * when its session began: it may have dropped its own description.
	 */
	uint64_t	own_gap;
	uint64_t	own_first;
	uint64_t	own_last;
	int64_t		owner_start;

	/*
	 * Consumer.  tail: release store pairs with the producer's acquire load,
	 * so that the producer writes into freed bytes only after the consumer
	 * has read them.  pending is where tail will be once the block that the
	 * writer is about to write is whole (see StenoIntent).  durable: all
	 * before it is on disk; never ahead of tail.
	 */
	_Alignas(STENO_CACHE_LINE) _Atomic uint64_t tail;
	uint64_t	pending;
	_Atomic uint64_t durable;
	uint32_t	session_len;	/* of session[] below */
	uint64_t	session_seq;	/* last sequence number before tail */
	uint64_t	session_statement;

	/*
	 * Consumer: how much of orphan_drops below a gap record in the trail counts, and
	 * how much will be once the block that the writer is about to write is whole.
	 */
	uint64_t	orphan_drops_recorded;
	uint64_t	orphan_drops_pending;

	/* Owner: the producer's process; set on attach, 0 on detach. */
	_Alignas(STENO_CACHE_LINE) _Atomic uint32_t owner;
	_Atomic uint32_t owner_flags;

	/*
	 * Owner, when its session ends: records that sessions have dropped since the
	 * ring was made, and that could not even be left in gap above, as that of a
	 * session before was there still.  The consumer records their number.  relaxed
	 */
	_Atomic uint64_t orphan_drops;

	/*
	 * Owner, when its session ends: what orphan_drops will be once own_gap is part of it.
	 * own_gap goes last, so whoever recovers counts it once, as orphan_drops is that or not.
	 */
	uint64_t	orphan_drops_next;

	/*
	 * Owner, before orphan_drops grows: STENO_GAP_* of those that the consumer has not
	 * recorded; STENO_GAP_TRAIL if it is so of any.  relaxed
	 */
	_Atomic uint32_t orphan_drops_reason;

	_Alignas(STENO_CACHE_LINE) StenoInFlight inflight;

	/*
	 * Consumer: the session definition (body of a StenoSessionMessage) in
	 * force at tail, so that a new writer can go on.  It is copied before
	 * tail moves past the session message; a consumer that dies between the
	 * two leaves pending > tail, and recovery takes the definition from the
	 * messages between them.
	 */
	_Alignas(STENO_CACHE_LINE) uint8_t session[STENO_SESSION_MAX];

	/* Producer: what it likes to have in the same page as the rest. */
	_Alignas(STENO_CACHE_LINE) uint8_t own[STENO_OWN_MAX];
} StenoRing;

/* A page each, so that what a statement touches of it lies in one. */
_Static_assert(sizeof(StenoRing) == STENO_PAGE, "size of a ring's header");

/* Why records were dropped. */
#define STENO_GAP_FULL 0		/* the ring was full */
#define STENO_GAP_TRAIL 1		/* and the trail could not be written */

/* Bits of owner_flags. */
#define STENO_OWNER_LINGERS 1	/* outlives the writers: a WAL sender */
#define STENO_OWNER_ENDS 2		/* see steno_ring_owner_ended */

/*
 * What a writer was about to write, set before write() and cleared after its
 * rings' tails have moved: recovery looks whether the block is whole in the
 * file, and then takes pending for tail, so nothing is written twice.
 */
typedef struct StenoIntent
{
	_Alignas(STENO_CACHE_LINE) uint32_t valid;
	uint32_t	stream;
	uint64_t	segment;
	uint64_t	offset;			/* of the block in the segment */
	uint64_t	block;			/* block number */
	uint8_t		hash[STENO_HASH_SIZE];
} StenoIntent;

/*
 * The header of a ring file.  The postmaster writes everything but the intents when it
 * creates the file, and magic last (release): a file without it was never completed.
 * Nothing of that changes afterwards, so all processes read it without a lock.  Each intent
 * belongs to the writer of its number, and the last one to whoever recovers the file.
 */
typedef struct StenoRingFile
{
	uint64_t	magic;			/* STENO_RING_MAGIC */
	uint32_t	version;		/* of this layout */
	uint32_t	nrings;			/* one for each process that can run SQL */
	uint32_t	size;			/* bytes of data in a ring */
	uint32_t	nwriters;		/* ring i belongs to writer i mod nwriters */
	uint32_t	ring_stride;	/* sizeof(StenoRing) of the maker */
	uint32_t	postmaster;		/* process id */
	uint64_t	system_identifier;	/* of the cluster */
	int64_t		created;		/* microseconds since 2000-01-01 UTC */
	uint64_t	rings_offset;	/* where the rings begin */
	uint64_t	data_offset;	/* where their data begin */
	uint64_t	total;			/* bytes of the file */
	uint64_t	templates_offset;	/* where their templates begin */
	StenoIntent intents[STENO_MAX_WRITERS];
} StenoRingFile;

/*
 * A mapped ring file.  Its shape, and where its parts are, are copies: they are read
 * from the file once, checked, and then taken from here, whatever becomes of the file.
 */
typedef struct StenoRings
{
	StenoRingFile *file;
	size_t		mapped;
	uint32_t	nrings;
	uint32_t	size;			/* bytes of data in a ring */
	uint32_t	nwriters;
	StenoRing  *headers;
	StenoTemplate *templates;
	uint8_t    *data;
} StenoRings;

typedef enum StenoRingState
{
	STENO_RING_OPEN,
	STENO_RING_UNFINISHED,		/* its maker was killed: nothing was ever put into it */
	STENO_RING_FAILED			/* errno, and what says why */
} StenoRingState;

/* What is wrong with a ring file, in a few words. */
#define STENO_RING_WHAT 120

/*
 * A new file in an open folder, and one that another run has left there.  Only a file
 * that no other account can have made or changed is mapped (private.h), and only one
 * of this cluster.
 */
extern bool steno_rings_create(StenoRings *rings, int folder, const char *name,
							   uint32_t nrings, uint32_t size, uint32_t nwriters,
							   uint64_t system_identifier, int64_t now,
							   const char **what);
extern StenoRingState steno_rings_open(StenoRings *rings, int folder, const char *name,
									   uint64_t system_identifier, char what[STENO_RING_WHAT]);
extern void steno_rings_close(StenoRings *rings);

/* The header of a file with these rings. */
extern void steno_rings_describe(StenoRingFile *file, uint32_t nrings, uint32_t size,
								 uint32_t nwriters, uint64_t system_identifier, int64_t now);

/*
 * The rings in so many bytes that hold a whole file; NULL, or what is wrong with their
 * header, of which a copy is given that nobody changes meanwhile.
 */
extern const char *steno_rings_attach(StenoRings *rings, void *bytes, uint64_t len,
									  const StenoRingFile *header);
extern uint64_t steno_rings_total(uint32_t nrings, uint32_t size);

static inline StenoRing *
steno_ring_at(const StenoRings *rings, uint32_t i)
{
	return rings->headers + i;
}

static inline StenoTemplate *
steno_ring_templates(const StenoRings *rings, uint32_t i)
{
	return rings->templates + (size_t) i * STENO_TEMPLATES;
}

static inline uint8_t *
steno_ring_data(const StenoRings *rings, uint32_t i)
{
	return rings->data + (size_t) i * rings->size;
}

/* ---- producer ---- */

/*
 * The producer's own view, in its private memory.  head runs ahead of
 * ring->head between reserve and publish.
 */
typedef struct StenoProducer
{
	StenoRing  *ring;
	uint8_t    *data;
	StenoTemplate *templates;
	uint32_t	size;
	uint32_t	max_message;
	uint64_t	head;
	uint64_t	tail;			/* cached; the true tail is never behind it */
	uint64_t	limit;			/* bytes of the ring that steno_ring_reserve fills: size, or less */
} StenoProducer;

static inline void
steno_producer_init(StenoProducer *p, const StenoRings *rings, uint32_t i)
{
	p->ring = steno_ring_at(rings, i);
	p->data = steno_ring_data(rings, i);
	p->templates = steno_ring_templates(rings, i);
	p->size = rings->size;
	p->max_message = p->size / STENO_RING_SHARE;
	p->limit = p->size;
	p->head = atomic_load_explicit(&p->ring->head, memory_order_relaxed);
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
}

/*
 * Room for a message of len bytes (header included, at most max_message), or
 * NULL when the ring is fuller than limit.  Nothing is visible before publish.
 */
static inline void *
steno_ring_reserve(StenoProducer *p, uint32_t len)
{
	uint32_t	offset = (uint32_t) (p->head & (p->size - 1));
	uint32_t	left = p->size - offset;
	uint32_t	need;
	StenoMessage *m;

	len = (len + 7) & ~UINT32_C(7);
	need = len <= left ? len : left + len;
	if (p->head + need - p->tail > p->limit)
	{
		/* pairs with the release store in steno_ring_free */
		p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
		if (p->head + need - p->tail > p->limit)
			return NULL;
	}
	m = (StenoMessage *) (p->data + offset);
	if (len > left)
	{
		m->len = left;
		m->kind = 0;
		m->flags = 0;
		p->head += left;
		m = (StenoMessage *) p->data;
	}
	m->len = len;
	return m;
}

/*
 * Have the next message's lines brought near, to be written: nobody has touched
 * them since the last round of the ring.
 */
static inline void
steno_ring_prefetch(const StenoProducer *p, int lines)
{
	const uint8_t *next = p->data + (p->head & (p->size - 1));
	int			i;

	for (i = 0; i < lines; i++)
		STENO_PREFETCH_WRITE(next + i * STENO_CACHE_LINE);
}

/* The head once a reserved message is published. */
static inline uint64_t
steno_ring_after(const StenoProducer *p, const void *message)
{
	return p->head + ((const StenoMessage *) message)->len;
}

/* Publish the message that was reserved last. */
static inline void
steno_ring_publish(StenoProducer *p, const void *message)
{
	p->head += ((const StenoMessage *) message)->len;
	/* pairs with the acquire load in steno_ring_published */
	atomic_store_explicit(&p->ring->head, p->head, memory_order_release);
}

/* Bytes that the consumer has not freed, as far as the producer knows. */
static inline uint64_t
steno_ring_used(const StenoProducer *p)
{
	return p->head - p->tail;
}

/* ---- consumer ---- */

static inline uint64_t
steno_ring_published(const StenoRing *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_acquire);
}

/* The message at a position below the published head. */
static inline const StenoMessage *
steno_ring_message(const uint8_t *data, uint32_t size, uint64_t position)
{
	return (const StenoMessage *) (data + (position & (size - 1)));
}

/* All before position has been read and is safe. */
static inline void
steno_ring_free(StenoRing *ring, uint64_t position)
{
	atomic_store_explicit(&ring->tail, position, memory_order_release);
}

/* All that was freed so far is on disk. */
static inline void
steno_ring_synced(StenoRing *ring)
{
	uint64_t	tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	/* pairs with the acquire load in steno_wake_wait */
	if (atomic_load_explicit(&ring->durable, memory_order_relaxed) != tail)
		atomic_store_explicit(&ring->durable, tail, memory_order_release);
}

/* ---- in-flight entry ---- */

/*
 * ThreadSanitizer knows no fences.  Under it the entry's bytes are copied with
 * atomics that carry the same order; the compiled code differs, the protocol
 * (version odd, change, version even) does not.
 */
#if defined(__SANITIZE_THREAD__)
#define STENO_NO_FENCES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STENO_NO_FENCES 1
#endif
#endif

#ifdef STENO_NO_FENCES
#define STENO_FENCE(order) ((void) 0)
#define STENO_STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)
#define STENO_LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

static inline void
steno_copy_in(char *to, const char *from, uint32_t len)
{
	while (len-- > 0)
		STENO_STORE(to[len], from[len]);
}

static inline void
steno_copy_out(char *to, const char *from, uint32_t len)
{
	while (len-- > 0)
		to[len] = STENO_LOAD(from[len]);
}
#else
#define STENO_FENCE(order) atomic_thread_fence(order)
#define STENO_STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define STENO_LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define steno_copy_in(to, from, len) memcpy(to, from, len)
#define steno_copy_out(to, from, len) memcpy(to, from, len)
#endif

/*
 * The change of the entry that the functions below share.  v is the entry's version
 * so far, which the producer counts on its own: reading it here would wait for
 * its cache line.  Returns the new one.
 */
static inline uint32_t
steno_inflight_change(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
					  const char *text, uint32_t len, bool staged, uint64_t position)
{
	uint32_t	kept = len < STENO_INFLIGHT_TEXT ? len : STENO_INFLIGHT_TEXT;

	/* it is odd when the entry's last producer died halfway */
	v |= 1;
	atomic_store_explicit(&f->version, v, memory_order_relaxed);
	/* pairs with the reader's acquire fence: odd version before the change */
	STENO_FENCE(memory_order_release);
	STENO_STORE(f->done, 0);
	STENO_STORE(f->statement, statement);
	STENO_STORE(f->time, time);
	STENO_STORE(f->text_len, len);
	STENO_STORE(f->text_kept, kept);
	if (staged)
		STENO_STORE(f->position, position);
	else
		steno_copy_in(f->text, text, kept);

	/*
	 * Recovery does not look at the version.  To it, these two make the
	 * change, in this order, whenever the producer dies.
	 */
	__atomic_store_n(&f->staged, staged, __ATOMIC_RELEASE);
	__atomic_store_n(&f->active, 1, __ATOMIC_RELEASE);
	/* pairs with the reader's first acquire load: the change before even */
	atomic_store_explicit(&f->version, v + 1, memory_order_release);
	return v + 1;
}

/* Producer: a statement starts, or what was staged is no more. */
static inline uint32_t
steno_inflight_begin(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
					 const char *text, uint32_t len)
{
	return steno_inflight_change(f, v, statement, time, text, len, false, 0);
}

/* Producer: a statement starts whose record is staged. */
static inline uint32_t
steno_inflight_stage(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
					 uint64_t position)
{
	return steno_inflight_change(f, v, statement, time, NULL, 0, true, position);
}

/* Producer, before the statement's own record is published. */
static inline void
steno_inflight_done(StenoInFlight *f, uint64_t head)
{
	STENO_STORE(f->done, head);
}

/* Release: recovery must not see this without the head that was published before. */
static inline void
steno_inflight_end(StenoInFlight *f)
{
	__atomic_store_n(&f->active, 0, __ATOMIC_RELEASE);
}

/*
 * Producer, before the last record of its session, while no statement runs: from now
 * on, done is where head will be once that record is published.  The flag goes last:
 * with it, done is never that of a statement.
 */
static inline void
steno_ring_owner_ends(StenoRing *ring)
{
	STENO_STORE(ring->inflight.done, 0);
	atomic_fetch_or(&ring->owner_flags, STENO_OWNER_ENDS);
}

/*
 * Recovery: whether the owner, which is still there, has published the last record of
 * its session, so that nobody writes another one in its place.
 */
static inline bool
steno_ring_owner_ended(const StenoRing *ring)
{
	return (atomic_load(&ring->owner_flags) & STENO_OWNER_ENDS) != 0 && ring->inflight.done != 0 &&
		atomic_load(&ring->head) >= ring->inflight.done;
}

/*
 * Live reader: copy the entry; false when the producer changed it meanwhile,
 * then try again, but not forever: the producer may have died halfway.
 * done and active change without the version, each alone.
 */
static inline bool
steno_inflight_read(const StenoInFlight *f, StenoInFlight *copy)
{
	/* pairs with the producer's last store of version */
	uint32_t	v = atomic_load_explicit(&f->version, memory_order_acquire);

	if (v & 1)
		return false;
	copy->active = STENO_LOAD(f->active);
	copy->done = STENO_LOAD(f->done);
	copy->statement = STENO_LOAD(f->statement);
	copy->time = STENO_LOAD(f->time);
	copy->text_len = STENO_LOAD(f->text_len);
	copy->text_kept = STENO_LOAD(f->text_kept);
	copy->staged = STENO_LOAD(f->staged);
	copy->position = STENO_LOAD(f->position);
	copy->announced = STENO_LOAD(f->announced);
	atomic_store_explicit(&copy->version, v, memory_order_relaxed);
	steno_copy_out(copy->text, f->text, STENO_INFLIGHT_TEXT);
	/* pairs with the producer's release fence: the copy before this look */
	STENO_FENCE(memory_order_acquire);
	return atomic_load_explicit(&f->version, memory_order_relaxed) == v;
}

#endif							/* STENO_RING_H */
