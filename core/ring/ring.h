/*
 * core/ring/ring.h
 *		The ring: a single-producer, single-consumer ring of bytes in a mapped file,
 *		one for each process of a server that can run SQL.
 *
 * The producer reserves space, encodes a message in place, and publishes it with
 * one release store.  The consumer reads all published messages, and frees them
 * only when they are in the trail: until then, they can be read from the ring file,
 * whichever process dies.
 *
 * Positions count bytes since the ring was created and never wrap (2^64 bytes); the
 * offset in the data is position mod size.  A message never wraps: if it does not
 * fit before the end of the data, a filler takes the remaining bytes.
 *
 * The file (layout version STENO_RING_VERSION; it is no archive: only the same
 * version on the same machine reads it):
 *
 *		StenoRingFile		whole pages of 4 kB
 *		StenoRing[nrings]	headers, each a multiple of the cache line
 *		StenoTemplate[nrings][STENO_TEMPLATES]
 *		data[nrings]		page-aligned, size bytes each
 *		states of chunks	page-aligned, one word each (chunk.h)
 *		chunks				page-aligned, STENO_CHUNK bytes each
 */
#ifndef STENO_RING_H
#define STENO_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "defs.h"

#define STENO_RING_MAGIC UINT64_C(0x474e49524e455453)	/* "STENRING" */
#define STENO_RING_VERSION 10
#define STENO_CACHE_LINE 64
#define STENO_MAX_WRITERS 64
#define STENO_PAGE 4096
#define STENO_SESSION_MAX 1000
#define STENO_OWN_MAX 2496
#define STENO_INFLIGHT_TEXT 232

/*
 * Prefetch a cache line for writing.  Not by __builtin_prefetch: GCC considers a
 * function that contains only prefetches to have no effect, and omits its calls.
 */
#if defined(__x86_64__)
#define STENO_PREFETCH_WRITE(p) __asm__ volatile ("prefetchw %0" : : "m" (*(p)))
#elif defined(__aarch64__)
#define STENO_PREFETCH_WRITE(p) __asm__ volatile ("prfm pstl1keep, %0" : : "Q" (*(p)))
#else
#define STENO_PREFETCH_WRITE(p) __builtin_prefetch(p, 1)
#endif

/* A message is at most 1/STENO_RING_SHARE of a ring; bigger records send parts ahead. */
#define STENO_RING_SHARE 8
#define STENO_RING_MIN (16 * 1024)
#define STENO_RING_MAX (64 * 1024 * 1024)

/* A chunk has a part of a large record that did not have to go through its ring (chunk.h). */
#define STENO_CHUNK (64 * 1024)
#define STENO_CHUNKS_MAX 1024

/* As many rings as a server can have processes (MAX_BACKENDS is 2^18 - 1). */
#define STENO_RINGS_MAX ((1 << 18) - 1)

/*
 * The beginning of every message, at a multiple of 8.  len is the length of the
 * whole message, a multiple of 8; kind 0 is filler.
 */
typedef struct StenoMessage
{
	uint32_t	len;
	uint16_t	kind;
	uint16_t	flags;
} StenoMessage;

/*
 * The parts that all records of one statement have in common: of a prepared one, of one of a
 * function, or of one that a client sends again and again, perhaps with other constants.  Brief
 * records (message.h) refer to them.  Only the ring's producer writes it: before it
 * publishes the first record that refers to it (the release store of head makes
 * both visible), and again only after all such records have been freed.  So every
 * reader of such a record, also in the file of a dead server, finds the template
 * that it refers to.
 */
#define STENO_TEMPLATES 16			/* whole pages */
#define STENO_TEMPLATE_ROOM 1008

typedef struct StenoTemplate
{
	uint16_t	version;		/* differs after each change */
	uint16_t	shape_len;		/* bytes */
	uint16_t	text_len;		/* bytes, of the text or of what all texts have in common */
	uint16_t	own_at;			/* 0: all records have this text; else, so many bytes of it, plus 1, come
								 * before what each record has of its own */
	uint64_t	needed_until;	/* used by the producer: no record at or after this position refers
								 * to it */
	uint8_t		bytes[STENO_TEMPLATE_ROOM]; /* shape, then text */
} StenoTemplate;

/*
 * What a session is running.  Only the ring's producer writes it, with relaxed
 * stores between two increments of version (odd while it changes).  A reader
 * detects a torn copy by reading version before the copy, with acquire, and again
 * after an acquire fence.  After the producer's death, recovery reads it.
 *
 * done is the head at which the statement's own record will be visible; it is set
 * before that head is published.  The statement of a dead producer was interrupted
 * if active && (done == 0 || head < done).
 *
 * The record of a staged statement is already in the ring, at position, complete
 * but not published; its text is there and not in text[].  Before anything else
 * overwrites it, the text is copied here and staged becomes 0.
 *
 * announced does not change with version: it is set before the entry shows its
 * statement, and reset by a new session.
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

/* What the producer must do when it has published a message. */
#define STENO_RING_ASLEEP 1		/* wake the consumer */
#define STENO_RING_UNWATCHED 2	/* tell the consumer that this ring has messages */

/*
 * Ring header.  Fields are grouped by the process that writes them, each group in
 * cache lines of its own.
 */
typedef struct StenoRing
{
	/* Producer.  head: release store pairs with the consumer's acquire load. */
	_Alignas(STENO_CACHE_LINE) _Atomic uint64_t head;
	_Atomic uint64_t records;	/* since the ring was created; relaxed, as are the next three */
	_Atomic uint64_t waits;
	_Atomic uint64_t drops;
	_Atomic uint64_t wait_us;

	/*
	 * STENO_RING_ bits, set by the consumer before it sleeps long, or stops looking
	 * at this ring; cleared by either side.  They are here because the producer has
	 * this cache line anyway.
	 */
	_Atomic uint32_t asleep;
	uint32_t	gap_reason;		/* STENO_GAP_*; belongs to gap below */

	/*
	 * Left by a producer that ended when it had dropped records and the ring had no
	 * space for their gap record: their count and sequence numbers.  The consumer, or
	 * recovery, writes the gap record for the ended session, and its disconnect record
	 * if gap_ended below says so.  A producer writes these fields only while gaps_left
	 * equals gaps_recorded (acquire), and then increments gaps_left (release).
	 */
	uint64_t	gap;			/* may be 0: only the disconnect record is missing */
	uint64_t	gap_first;
	uint64_t	gap_last;
	int64_t		gap_start;		/* start time of that session */
	uint32_t	gap_pid;		/* its process ID; 0: written by an older version */
	uint32_t	gap_sqlstate;	/* of what ended it, packed as in the server; 0: nothing unusual */

	/*
	 * For recovery: what the current producer has dropped without a gap record so
	 * far, and when its session started, because its session message may be among
	 * the dropped ones.
	 */
	uint64_t	own_gap;
	uint64_t	own_first;
	uint64_t	own_last;
	int64_t		owner_start;

	_Atomic uint64_t gaps_left; /* how often the fields above have been set since the ring was
								 * created */

	/*
	 * Consumer.  tail: release store pairs with the producer's acquire load, so
	 * that the producer writes into freed bytes only after the consumer has read
	 * them.  pending is where tail will be once the block that the writer is about
	 * to write is complete (see StenoIntent).  durable: everything before it is on
	 * disk; never ahead of tail.
	 */
	_Alignas(STENO_CACHE_LINE) _Atomic uint64_t tail;
	uint64_t	pending;
	_Atomic uint64_t durable;
	uint32_t	session_len;	/* of session[] below */
	uint64_t	session_seq;	/* last sequence number before tail */
	uint64_t	session_statement;

	/*
	 * Consumer: how many of orphan_drops below gap records in the trail account
	 * for, now, and once the block that the writer is about to write is complete.
	 */
	uint64_t	orphan_drops_recorded;
	uint64_t	orphan_drops_pending;

	/* Owner: ID of the producer's process; set on attach, 0 after detach. */
	_Alignas(STENO_CACHE_LINE) _Atomic uint32_t owner;
	_Atomic uint32_t owner_flags;

	/*
	 * Owner, when its session ends: number of records dropped since the ring was
	 * created that could not be left in gap above, because it still had those of an
	 * earlier session.  The consumer writes their gap record.  Relaxed.
	 */
	_Atomic uint64_t orphan_drops;

	/*
	 * Owner, when its session ends: the value of orphan_drops once own_gap has been
	 * added to it.  own_gap is reset last, so recovery can tell by comparing the
	 * two whether own_gap has been added, and counts it once.
	 */
	uint64_t	orphan_drops_next;

	/*
	 * Owner, before it increases orphan_drops: STENO_GAP_* of the drops that have
	 * no gap record yet; STENO_GAP_TRAIL if that is the reason of any.  Relaxed.
	 */
	_Atomic uint32_t orphan_drops_reason;

	int64_t		gap_ended;		/* belongs to gap above: when that session ended; 0: it has a
								 * disconnect record, or needs none */

	/*
	 * Consumer: how many of gaps_left are in the trail (release store, when the block
	 * is written), and once the block that the writer is about to write is complete.
	 */
	_Atomic uint64_t gaps_recorded;
	uint64_t	gaps_pending;

	_Alignas(STENO_CACHE_LINE) StenoInFlight inflight;

	/*
	 * Consumer: the session definition (body of a StenoSessionMessage) in force at
	 * tail, so that a new writer can continue.  It is copied before tail moves past
	 * the session message.  A consumer that dies between the two leaves pending >
	 * tail, and recovery takes the definition from the messages between them.
	 */
	_Alignas(STENO_CACHE_LINE) uint8_t session[STENO_SESSION_MAX];

	/* Producer: private state that it keeps in the same page as the rest. */
	_Alignas(STENO_CACHE_LINE) uint8_t own[STENO_OWN_MAX];
} StenoRing;

/* One page per header, so that a statement touches only one page of it. */
_Static_assert(sizeof(StenoRing) == STENO_PAGE, "size of a ring's header");

/* Consumer, or a producer of its own ring: whether a gap is left there whose record is not in the trail. */
static inline bool
steno_ring_has_gap(const StenoRing *ring)
{
	return atomic_load_explicit(&ring->gaps_left, memory_order_acquire) !=
		atomic_load_explicit(&ring->gaps_recorded, memory_order_acquire);
}

/* Why records were dropped. */
#define STENO_GAP_FULL 0		/* the ring was full, although the trail could be written */
#define STENO_GAP_TRAIL 1		/* the ring was full because the trail could not be written */

/* Bits of owner_flags. */
#define STENO_OWNER_LINGERS 1	/* may outlive the writers: a WAL sender */
#define STENO_OWNER_ENDS 2		/* see steno_ring_owner_ended */

/*
 * The block that a writer was about to write; set before write() and cleared after
 * the tails of its rings have moved.  If recovery finds the complete block in the
 * file, it takes pending for tail, so that nothing is written twice.
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
 * The header of a ring file.  The postmaster writes everything but the intents when
 * it creates the file, and magic last (release): a file without it was never
 * completed.  Nothing of that changes afterwards, so all processes read it without
 * a lock.  Each intent belongs to the writer of its number, and the last one to the
 * process that recovers the file.
 */
typedef struct StenoRingFile
{
	uint64_t	magic;			/* STENO_RING_MAGIC */
	uint32_t	version;		/* of this layout */
	uint32_t	nrings;			/* one for each process that can run SQL */
	uint32_t	size;			/* bytes of data in a ring */
	uint32_t	nwriters;		/* ring i belongs to writer i mod nwriters */
	uint32_t	ring_stride;	/* sizeof(StenoRing) in the program that created the file */
	uint32_t	postmaster;		/* process id */
	uint64_t	system_identifier;	/* of the cluster */
	int64_t		created;		/* microseconds since 2000-01-01 UTC */
	uint64_t	rings_offset;	/* where the rings begin */
	uint64_t	data_offset;	/* where their data begin */
	uint64_t	total;			/* bytes of the file */
	uint64_t	templates_offset;	/* where their templates begin */
	uint64_t	chunks_offset;	/* where the chunks begin */
	uint32_t	chunks;			/* their number; may be 0 */
	uint32_t	chunk_size;		/* STENO_CHUNK in the program that created the file */
	StenoIntent intents[STENO_MAX_WRITERS];
} StenoRingFile;

/*
 * A mapped ring file.  Number and size of its rings, and the addresses of its
 * parts, are copies: they are read from the file once and checked.  Later changes
 * of the file's header therefore cannot lead outside the mapping.
 */
typedef struct StenoRings
{
	StenoRingFile *file;
	size_t		mapped;
	uint32_t	nrings;
	uint32_t	size;			/* bytes of data in a ring */
	uint32_t	nwriters;
	uint32_t	nchunks;
	StenoRing  *headers;
	StenoTemplate *templates;
	uint8_t    *data;
	_Atomic uint64_t *chunk_states;
	uint8_t    *chunks;
} StenoRings;

typedef enum StenoRingState
{
	STENO_RING_OPEN,
	STENO_RING_UNFINISHED,		/* the postmaster died while it created the file, so the rings are
								 * empty */
	STENO_RING_FAILED			/* errno and what give the reason */
} StenoRingState;

/* Size of the buffer for a description of what is wrong with a ring file. */
#define STENO_RING_WHAT 120

/*
 * Create a ring file in an open folder, or open one that another run has left
 * there.  A file is mapped only if no other account can have created or changed it
 * (private.h), and it is of this cluster.
 */
extern bool steno_rings_create(StenoRings *rings, int folder, const char *name,
							   uint32_t nrings, uint32_t size, uint32_t nchunks,
							   uint32_t nwriters, uint64_t system_identifier,
							   int64_t now, const char **what);
extern StenoRingState steno_rings_open(StenoRings *rings, int folder, const char *name,
									   uint64_t system_identifier, char what[STENO_RING_WHAT]);
extern void steno_rings_close(StenoRings *rings);

/* Fill in the header of a file with these rings. */
extern void steno_rings_describe(StenoRingFile *file, uint32_t nrings, uint32_t size,
								 uint32_t nchunks, uint32_t nwriters, uint64_t system_identifier, int64_t now);

/*
 * Set up access to the rings in len bytes that contain a whole file; returns NULL,
 * or what is wrong with the header.  header is a private copy, which cannot change
 * between check and use.
 */
extern const char *steno_rings_attach(StenoRings *rings, void *bytes, uint64_t len,
									  const StenoRingFile *header);
extern uint64_t steno_rings_total(uint32_t nrings, uint32_t size, uint32_t nchunks);

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
 * The producer's state, in its private memory.  head is ahead of ring->head between
 * reserve and publish.
 */
typedef struct StenoProducer
{
	StenoRing  *ring;
	uint8_t    *data;
	StenoTemplate *templates;
	uint32_t	size;
	uint32_t	max_message;
	uint64_t	head;
	uint64_t	tail;			/* cached; the ring's tail is never behind it */
	uint64_t	limit;			/* how many bytes of the ring steno_ring_reserve may fill: size or
								 * less */
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
 * Reserve space for a message of len bytes (header included, at most max_message);
 * NULL if that would fill the ring beyond limit.  Nothing is visible to the
 * consumer before publish.
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
	if (STENO_RARELY(p->head + need - p->tail > p->limit))
	{
		/* pairs with the release store in steno_ring_free */
		p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
		if (p->head + need - p->tail > p->limit)
			return NULL;
	}
	m = (StenoMessage *) (p->data + offset);
	if (STENO_RARELY(len > left))
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
 * Prefetch the cache lines of the next message for writing.  They are in no cache:
 * nobody has touched them since the ring last came round to them.
 */
static inline void
steno_ring_prefetch(const StenoProducer *p, int lines)
{
	const uint8_t *next = p->data + (p->head & (p->size - 1));
	int			i;

	for (i = 0; i < lines; i++)
		STENO_PREFETCH_WRITE(next + i * STENO_CACHE_LINE);
}

/* Where head will be once a reserved message is published. */
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

/* Number of bytes that the consumer has not freed, by the cached tail. */
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

/*
 * Everything before position has been read and is in the trail.  Pairs with the
 * acquire load in steno_ring_reserve.
 */
static inline void
steno_ring_free(StenoRing *ring, uint64_t position)
{
	atomic_store_explicit(&ring->tail, position, memory_order_release);
}

/* Everything that was freed so far is on disk. */
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
 * ThreadSanitizer does not understand fences.  For it, the entry's bytes are copied
 * with atomic operations that impose the same order; the compiled code differs, but
 * the protocol (version odd, change, version even) is the same.
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
 * Change the entry, for the functions below.  v is the entry's current version, of
 * which the producer keeps a copy: reading it here would wait for the cache line.
 * Returns the new version.
 */
static inline uint32_t
steno_inflight_change(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
					  const char *text, uint32_t len, uint32_t kept, bool staged, uint64_t position)
{
	/* it is odd if the entry's last producer died in the middle of a change */
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
	 * Recovery does not look at version: it must find a consistent entry whenever
	 * the producer dies, so the change takes effect by these two stores, in this
	 * order.
	 */
	__atomic_store_n(&f->staged, staged, __ATOMIC_RELEASE);
	__atomic_store_n(&f->active, 1, __ATOMIC_RELEASE);
	/* pairs with the reader's first acquire load: the change before even */
	atomic_store_explicit(&f->version, v + 1, memory_order_release);
	return v + 1;
}

/*
 * Producer: a statement starts without a staged record, or gives up the one it had.  kept: bytes of
 * its text that go into the entry, at most STENO_INFLIGHT_TEXT; only the caller knows where a character ends.
 */
static inline uint32_t
steno_inflight_begin_cut(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
						 const char *text, uint32_t len, uint32_t kept)
{
	return steno_inflight_change(f, v, statement, time, text, len, kept, false, 0);
}

/* The same for a text of single bytes. */
static inline uint32_t
steno_inflight_begin(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
					 const char *text, uint32_t len)
{
	return steno_inflight_begin_cut(f, v, statement, time, text, len,
									len < STENO_INFLIGHT_TEXT ? len : STENO_INFLIGHT_TEXT);
}

/* Producer: a statement with a staged record starts. */
static inline uint32_t
steno_inflight_stage(StenoInFlight *f, uint32_t v, uint64_t statement, int64_t time,
					 uint64_t position)
{
	return steno_inflight_change(f, v, statement, time, NULL, 0, 0, true, position);
}

/* Producer, before it publishes the statement's own record. */
static inline void
steno_inflight_done(StenoInFlight *f, uint64_t head)
{
	STENO_STORE(f->done, head);
}

/*
 * Producer.  A release store: recovery must not see it without the head that was
 * published before.
 */
static inline void
steno_inflight_end(StenoInFlight *f)
{
	__atomic_store_n(&f->active, 0, __ATOMIC_RELEASE);
}

/* Values of active. */
#define STENO_INFLIGHT_RUNS 1
#define STENO_INFLIGHT_WAITS 2	/* a portal waits for its client, which has what it has asked for */
#define STENO_INFLIGHT_COUNTED 3	/* likewise, and the staged record has the numbers of that */

/*
 * Producer: the statement of the entry waits for its client.  A release store: recovery must not see it
 * without the numbers.
 */
static inline void
steno_inflight_wait(StenoInFlight *f, bool counted)
{
	__atomic_store_n(&f->active, counted ? STENO_INFLIGHT_COUNTED : STENO_INFLIGHT_WAITS, __ATOMIC_RELEASE);
}

/* Producer: it runs again. */
static inline void
steno_inflight_run(StenoInFlight *f)
{
	__atomic_store_n(&f->active, STENO_INFLIGHT_RUNS, __ATOMIC_RELEASE);
}

/* Whether a statement runs, by what active is. */
static inline bool
steno_inflight_runs(uint32_t active)
{
	return active == STENO_INFLIGHT_RUNS;
}

/*
 * Producer, before the last record of its session, while no statement is running:
 * from now on, done is where head will be once that record is published.  The flag
 * is set last: while it is set, done is never that of a statement.
 */
static inline void
steno_ring_owner_ends(StenoRing *ring)
{
	STENO_STORE(ring->inflight.done, 0);
	atomic_fetch_or(&ring->owner_flags, STENO_OWNER_ENDS);
}

/*
 * Recovery: whether the owner, which has not detached, has published the last
 * record of its session, so that recovery must not write one for it.
 */
static inline bool
steno_ring_owner_ended(const StenoRing *ring)
{
	return (atomic_load(&ring->owner_flags) & STENO_OWNER_ENDS) != 0 && ring->inflight.done != 0 &&
		atomic_load(&ring->head) >= ring->inflight.done;
}

/*
 * Reader of a running producer: copy the entry; false if the producer changed it
 * meanwhile.  The caller may then try again, but not forever: the producer may have
 * died in the middle of a change.  done and active also change by themselves,
 * without version.
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
	/* pairs with the producer's release fence: the copy is complete before this load */
	STENO_FENCE(memory_order_acquire);
	return atomic_load_explicit(&f->version, memory_order_relaxed) == v;
}

#endif							/* STENO_RING_H */
