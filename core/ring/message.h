/*
 * core/ring/message.h
 *		The layout of the messages in a ring: records before the writer encodes them
 *		compactly.
 *
 * A message is a fixed part followed by byte strings, in the order of their lengths
 * in the fixed part.  The producer encodes it in place, in the ring; the writer
 * turns it into an item of a block (block.h).
 */
#ifndef STENO_MESSAGE_H
#define STENO_MESSAGE_H

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "codec.h"
#include "ring/ring.h"

/*
 * Kind STENO_KIND_DEF_SESSION: the session that the following messages belong to.
 * Its body is that of a session definition in the trail from the start time on:
 * start time, process ID, keys and values.
 */
typedef struct StenoSessionMessage
{
	StenoMessage m;
	uint32_t	body_len;
	uint32_t	pad;
	uint64_t	seq;			/* the session's last sequence number before this message */
	uint64_t	statement;		/* its last finished top-level statement before this message */
	/* body follows */
} StenoSessionMessage;

/* Offsets in the body. */
#define STENO_SESSION_START 0	/* int64: start time */
#define STENO_SESSION_PID 8		/* uint32 */
#define STENO_SESSION_FACTS 12	/* key, string ... */

/* Room for a session's id: 16 and 8 hexadecimal digits, a dot, and the end. */
#define STENO_SESSION_ID 26

/* The text that names a session, as %c of log_line_prefix shows it.  start: microseconds since 2000. */
static inline void
steno_session_id(char to[STENO_SESSION_ID], int64_t start, uint32_t pid)
{
	int64_t		second = start / 1000000 - (start % 1000000 < 0);

	snprintf(to, STENO_SESSION_ID, "%" PRIx64 ".%" PRIx32, second + 946684800, pid);
}

/*
 * Bits of StenoRecordMessage.m.flags.  PARTS, CUT and ENDING announce optional fixed
 * parts between StenoRecordMessage and the strings, in this order.
 */
#define STENO_MESSAGE_PARTS 1	/* StenoParts */
#define STENO_MESSAGE_CUT 2		/* StenoCut */
#define STENO_MESSAGE_VALUES 4	/* the record has VALUES, even if their length is 0 */
#define STENO_MESSAGE_BRIEF 8	/* the message is a StenoBriefMessage or a StenoCommitMessage */
#define STENO_MESSAGE_ENDING 128	/* StenoEnding */

/* A bit of records, brief ones and others: the last bytes of the message are StenoTimes. */
#define STENO_MESSAGE_TIMES 512

/* Bits of StenoBriefMessage.m.flags, besides the two before. */
#define STENO_MESSAGE_XID 32	/* it has a transaction ID */
#define STENO_MESSAGE_NUMBERS 64	/* it has StenoBriefNumbers */
#define STENO_MESSAGE_NESTED 256	/* it has StenoBriefNesting */

/* The only bit of StenoDataMessage.m.flags. */
#define STENO_MESSAGE_CHUNK 16	/* the bytes are in a chunk, which follows as StenoChunkNumber */

#define STENO_NONE64 UINT64_MAX
#define STENO_NONE32 UINT32_MAX

/* Kinds 1-63: a record. */
typedef struct StenoRecordMessage
{
	StenoMessage m;
	uint64_t	seq;			/* 0: not numbered */
	int64_t		time;
	uint64_t	duration;		/* microseconds; STENO_NONE64: none */
	uint64_t	rows;			/* STENO_NONE64: none */
	uint64_t	statement;		/* 0: none */
	uint32_t	substatement;
	uint16_t	depth;
	uint8_t		outcome;
	uint8_t		extra_count;	/* pairs in the extra string */
	uint32_t	xid;			/* with xid_epoch 0: none */
	char		sqlstate[6];	/* five characters; first byte 0: no error */
	uint8_t		audited;		/* STENO_AUDITED_*; 0: by session alone */
	uint8_t		pad;
	/* lengths of the strings that follow, in this order */
	uint32_t	shape_len;		/* body of a shape definition; 0: none */
	uint32_t	text_len;		/* STENO_NONE32: no text */
	uint32_t	nulls_len;
	uint32_t	values_len;
	uint32_t	message_len;
	uint32_t	extra_len;		/* pairs of strings, encoded as in the trail */
	uint32_t	xid_epoch;		/* upper half of the 64-bit transaction ID */
} StenoRecordMessage;

/*
 * Make a record that has nothing but a kind, a number and a time.  What else it has is filled in; its strings
 * follow, and steno_message_end is told where they end.
 */
static inline void
steno_message_init(StenoRecordMessage *m, uint16_t kind, uint64_t seq, int64_t time)
{
	memset(m, 0, sizeof(*m));
	m->m.kind = kind;
	m->seq = seq;
	m->time = time;
	m->duration = STENO_NONE64;
	m->rows = STENO_NONE64;
	m->text_len = STENO_NONE32;
}

/* Put a shape that has nothing but a class; p is where the shape goes. */
static inline uint8_t *
steno_message_put_class(StenoRecordMessage *m, uint8_t *p, int class)
{
	m->shape_len = STENO_BARE_SHAPE;
	memcpy(p, steno_bare_shapes[class], STENO_BARE_SHAPE);
	return p + STENO_BARE_SHAPE;
}

static inline void
steno_message_set_xid(StenoRecordMessage *m, uint64_t xid)
{
	m->xid = (uint32_t) xid;
	m->xid_epoch = (uint32_t) (xid >> 32);
}

/* The record ends before p.  Its length is a multiple of 8, for which there must be space. */
static inline void
steno_message_end(StenoRecordMessage *m, const uint8_t *p)
{
	m->m.len = ((uint32_t) (p - (const uint8_t *) m) + 7) & ~7u;
}

/*
 * The record of a statement that succeeded and is executed again and again: a client's,
 * or one of a function.  It differs from the statement's other records only in its
 * numbers, its parameter values, and perhaps a part of its text, such as a constant: shape
 * and text are in one of the ring's templates.  Its sequence number follows that of the
 * ring's record before it, and so does its statement number, unless StenoBriefNumbers has
 * another one.
 *
 * After the values, at a multiple of 8, the flags announce the transaction ID (8
 * bytes), StenoBriefNumbers and StenoBriefNesting, in this order.  So the first two can
 * be appended when a client's statement ends, and nothing has to be moved.
 */
typedef struct StenoBriefMessage
{
	StenoMessage m;
	int64_t		time;
	uint32_t	duration;		/* STENO_NONE32: none */
	uint32_t	rows;			/* STENO_NONE32: none */
	uint16_t	version;		/* of the template */
	uint8_t		template;
	uint8_t		values_len;
	uint8_t		values[];		/* StenoBriefValues */
} StenoBriefMessage;

/*
 * Numbers of templates that every ring has, without space for them: those of BEGIN and
 * COMMIT.  Their shape follows from the number, and the values are the text.
 */
#define STENO_BRIEF_BEGIN 254
#define STENO_BRIEF_COMMIT 255
#define STENO_CONTROL_SHAPE 11	/* the longer of their shapes */

/* Write the shape; returns its length. */
static inline uint32_t
steno_control_shape(uint8_t template, uint8_t *shape)
{
	uint8_t		len = template == STENO_BRIEF_BEGIN ? 5 : 6;

	shape[0] = STENO_CLASS_TRANSACTION;
	shape[1] = 0;				/* no query id */
	shape[2] = len;
	memcpy(shape + 3, template == STENO_BRIEF_BEGIN ? "BEGIN" : "COMMIT", len);
	shape[3 + len] = 0;			/* no relations */
	shape[4 + len] = 0;			/* no parameters */
	return 5u + len;
}

/* Numbers that StenoBriefMessage does not imply, or has no space for. */
typedef struct StenoBriefNumbers
{
	uint64_t	statement;
	uint64_t	duration;		/* as in StenoRecordMessage */
	uint64_t	rows;
} StenoBriefNumbers;

/*
 * Where the statement of a brief record ran, if it is not a client's own.  Functions often have
 * variables that a statement does not use, and which are NULL then.
 */
typedef struct StenoBriefNesting
{
	uint32_t	substatement;	/* as in StenoRecordMessage, like depth */
	uint16_t	depth;
	uint16_t	nulls_len;		/* the first so many bytes of values say which ones are NULL */
} StenoBriefNesting;

#define STENO_BRIEF_FIXED offsetof(StenoBriefMessage, values)

/* What the values of a brief record consist of. */
typedef struct StenoBriefValues
{
	const uint8_t *text;		/* the record's own part of its text */
	uint32_t	text_len;
	const uint8_t *values;		/* NULLs, and the values of parameters */
	uint32_t	values_len;
} StenoBriefValues;

/* varies: texts of the template differ, so that the values begin with the length of a part of the text, and it. */
static inline StenoBriefValues
steno_brief_values(const StenoBriefMessage *b, bool varies)
{
	uint32_t	own = varies ? 1u + b->values[0] : 0;
	StenoBriefValues v = {b->values + 1, varies ? b->values[0] : 0, b->values + own, b->values_len - own};

	return v;
}

_Static_assert(STENO_BRIEF_FIXED == 28 && sizeof(StenoBriefNumbers) == 24 && sizeof(StenoBriefNesting) == 8,
			   "layout of brief records");

/* Length of a brief record without what the flags announce. */
static inline uint32_t
steno_brief_len(uint32_t values_len)
{
	return (uint32_t) ((STENO_BRIEF_FIXED + values_len + 7) & ~7u);
}

/* Write a brief record at b: all but its length, its template's version, numbers, values and what follows these. */
static inline void
steno_brief_encode(StenoBriefMessage *b, uint16_t flags, int64_t time, uint8_t template, uint8_t values_len)
{
	b->m.kind = STENO_KIND_STATEMENT;
	b->m.flags = STENO_MESSAGE_BRIEF | flags;
	b->time = time;
	b->template = template;
	b->values_len = values_len;
}

/*
 * What is said apart of the time that a statement took, if there is anything to say.  They stand at the
 * end of the message, so that they can be appended when the statement ends.
 */
typedef struct StenoTimes
{
	uint64_t	analysis;		/* microseconds of the duration; 0: not told apart */
	uint64_t	plan;			/* likewise */
	uint64_t	commit;			/* microseconds after the duration; 0: none */
	uint64_t	elapsed;		/* microseconds from time to the end of the last work; STENO_NONE64: duration */
} StenoTimes;

_Static_assert(sizeof(StenoTimes) == 32, "layout of times");

/* The times of a record that is whole; zeros and STENO_NONE64: it has none. */
static inline StenoTimes
steno_message_times(const StenoMessage *m)
{
	StenoTimes	t = {.elapsed = UINT64_MAX};

	if (m->flags & STENO_MESSAGE_TIMES)
		memcpy(&t, (const uint8_t *) m + m->len - sizeof(t), sizeof(t));
	return t;
}

/* The most that follows the values of a client's statement. */
#define STENO_BRIEF_MORE (sizeof(uint64_t) + sizeof(StenoBriefNumbers) + sizeof(StenoTimes))

/* The transaction ID of a brief record; 0: none. */
static inline uint64_t
steno_brief_xid(const StenoBriefMessage *b)
{
	uint64_t	xid = 0;

	if (b->m.flags & STENO_MESSAGE_XID)
		memcpy(&xid, (const uint8_t *) b + steno_brief_len(b->values_len), sizeof(xid));
	return xid;
}

/*
 * The numbers of a brief record.  statement is what it implies: the number after
 * the last finished top-level statement before it.
 */
static inline StenoBriefNumbers
steno_brief_numbers(const StenoBriefMessage *b, uint64_t statement)
{
	StenoBriefNumbers n;

	if (b->m.flags & STENO_MESSAGE_NUMBERS)
	{
		memcpy(&n, (const uint8_t *) b + steno_brief_len(b->values_len) +
			   (b->m.flags & STENO_MESSAGE_XID ? sizeof(uint64_t) : 0), sizeof(n));
		return n;
	}
	n.statement = statement;
	n.duration = b->duration != STENO_NONE32 ? b->duration : STENO_NONE64;
	n.rows = b->rows != STENO_NONE32 ? b->rows : STENO_NONE64;
	return n;
}

/* Where the statement of a brief record ran; zeros: it is a client's own. */
static inline StenoBriefNesting
steno_brief_nesting(const StenoBriefMessage *b)
{
	StenoBriefNesting n = {0};

	if (b->m.flags & STENO_MESSAGE_NESTED)
		memcpy(&n, (const uint8_t *) b + steno_brief_len(b->values_len) +
			   (b->m.flags & STENO_MESSAGE_XID ? sizeof(uint64_t) : 0) +
			   (b->m.flags & STENO_MESSAGE_NUMBERS ? sizeof(StenoBriefNumbers) : 0), sizeof(n));
	return n;
}

/*
 * The brief record, of kind transaction, of a commit.  All other fields are those of
 * a record of class transaction without text; the sequence number follows that of
 * the ring's record before it.
 */
typedef struct StenoCommitMessage
{
	StenoMessage m;
	int64_t		time;
	uint64_t	xid;
	uint64_t	lsn;			/* where the WAL record of the commit begins */
	uint32_t	lsn_len;		/* its length */
	uint32_t	timeline;
	uint32_t	duration;
	uint32_t	statements;
} StenoCommitMessage;

_Static_assert(sizeof(StenoCommitMessage) == 48, "layout of brief commits");

/* The 64-bit transaction ID of a record that is not brief; 0: none. */
static inline uint64_t
steno_message_xid(const StenoRecordMessage *m)
{
	return (uint64_t) m->xid_epoch << 32 | m->xid;
}

/* Number of bytes that were sent ahead in data parts, for text, values and message. */
typedef struct StenoParts
{
	uint64_t	bytes[STENO_PARTS];
} StenoParts;

/* Full length and hash of a text that was truncated because of a setting. */
typedef struct StenoCut
{
	uint64_t	len;
	uint8_t		hash[STENO_HASH_SIZE];
} StenoCut;

/* How a transaction ended. */
typedef struct StenoEnding
{
	uint64_t	lsn;			/* where the WAL record of the commit begins; 0: not known */
	uint64_t	lsn_end;		/* and ends */
	uint64_t	statements;		/* STENO_NONE64: not known */
	uint32_t	timeline;
	uint8_t		event;			/* STENO_EVENT_*; 0: not known */
	uint8_t		pad[3];
} StenoEnding;

/* Kind STENO_KIND_DATA: a part of the record with this sequence number. */
typedef struct StenoDataMessage
{
	StenoMessage m;
	uint64_t	seq;
	uint32_t	part;			/* STENO_PART_* */
	uint32_t	len;
	/* bytes follow, or StenoChunkNumber */
} StenoDataMessage;

/* The chunk that has the bytes of a data message, from the chunk's beginning (chunk.h). */
typedef struct StenoChunkNumber
{
	uint32_t	number;
	uint32_t	pad;
} StenoChunkNumber;

static inline uint32_t
steno_data_chunk(const StenoDataMessage *d)
{
	return ((const StenoChunkNumber *) (d + 1))->number;
}

/*
 * Whether a message is whole: its length is possible, and it contains its strings.
 * left is the number of bytes from its start to the end of the ring's data or of
 * the published messages, whichever is less.  The consumer of a living producer
 * need not check this; recovery must, before it passes a message of a dead server
 * to the block builder.
 */
static inline bool
steno_message_is_whole(const StenoMessage *m, uint64_t left)
{
	uint64_t	need = sizeof(StenoMessage);

	if (left < sizeof(StenoMessage) || m->len > left || (m->len & 7) != 0)
		return false;
	if (m->kind > 0 && m->kind < STENO_KIND_DATA)
	{
		const StenoRecordMessage *r = (const StenoRecordMessage *) m;

		if ((m->flags & STENO_MESSAGE_BRIEF) && m->kind == STENO_KIND_TRANSACTION)
			return m->len >= sizeof(StenoCommitMessage);
		if (m->flags & STENO_MESSAGE_BRIEF)
		{
			const StenoBriefMessage *b = (const StenoBriefMessage *) m;

			if (m->len < STENO_BRIEF_FIXED)
				return false;
			need = steno_brief_len(b->values_len);
			need += (m->flags & STENO_MESSAGE_XID) ? sizeof(uint64_t) : 0;
			need += (m->flags & STENO_MESSAGE_NUMBERS) ? sizeof(StenoBriefNumbers) : 0;
			need += (m->flags & STENO_MESSAGE_NESTED) ? sizeof(StenoBriefNesting) : 0;
			need += (m->flags & STENO_MESSAGE_TIMES) ? sizeof(StenoTimes) : 0;
			return m->len >= need && m->kind == STENO_KIND_STATEMENT &&
				steno_brief_nesting(b).nulls_len <= b->values_len &&
				(b->template < STENO_TEMPLATES || b->template >= STENO_BRIEF_BEGIN);
		}
		need = sizeof(StenoRecordMessage);
		if (m->len < need)
			return false;
		need += (m->flags & STENO_MESSAGE_PARTS) ? sizeof(StenoParts) : 0;
		need += (m->flags & STENO_MESSAGE_CUT) ? sizeof(StenoCut) : 0;
		need += (m->flags & STENO_MESSAGE_ENDING) ? sizeof(StenoEnding) : 0;
		need += (m->flags & STENO_MESSAGE_TIMES) ? sizeof(StenoTimes) : 0;
		need += r->text_len != STENO_NONE32 ? r->text_len : 0;
		need += (uint64_t) r->shape_len + r->nulls_len + r->values_len +
			r->message_len + r->extra_len;
	}
	else if (m->kind == STENO_KIND_DATA)
	{
		need = sizeof(StenoDataMessage);
		if (m->len < need)
			return false;
		if (!(m->flags & STENO_MESSAGE_CHUNK))
			need += ((const StenoDataMessage *) m)->len;
		else if (((const StenoDataMessage *) m)->len > STENO_CHUNK)
			return false;
		else
			need += sizeof(StenoChunkNumber);
	}
	else if (m->kind == STENO_KIND_DEF_SESSION)
	{
		const StenoSessionMessage *s = (const StenoSessionMessage *) m;

		need = sizeof(StenoSessionMessage);
		if (m->len < need || s->body_len < STENO_SESSION_FACTS || s->body_len > STENO_SESSION_MAX)
			return false;
		need += s->body_len;
	}
	return m->len >= need;
}

/* Whether a brief record whose text varies has its part of it; that of a dead server may be damaged. */
static inline bool
steno_brief_has_text(const StenoBriefMessage *b)
{
	return b->values[0] < b->values_len;
}

/* Whether records of a template have texts that differ. */
static inline bool
steno_template_varies(const StenoTemplate *t)
{
	return t->own_at != 0;
}

/* The template that a brief record refers to; NULL if the ring does not have it. */
static inline const StenoTemplate *
steno_brief_template(const StenoBriefMessage *b, const StenoTemplate *templates)
{
	const StenoTemplate *t;

	/* the ring of a dead server may be damaged */
	if (templates == NULL || b->template >= STENO_TEMPLATES)
		return NULL;
	t = &templates[b->template];
	if (t->version != b->version || t->shape_len == 0 ||
		(uint32_t) t->shape_len + t->text_len > STENO_TEMPLATE_ROOM)
		return NULL;
	if (steno_template_varies(t) && (t->own_at > t->text_len + 1 || !steno_brief_has_text(b)))
		return NULL;
	return t;
}

/* Write the text of a brief record that has this template; returns its end. */
static inline uint8_t *
steno_brief_text(const StenoTemplate *t, const StenoBriefValues *v, uint8_t *p)
{
	const uint8_t *text = t->bytes + t->shape_len;
	uint32_t	before = steno_template_varies(t) ? t->own_at - 1u : t->text_len;

	memcpy(p, text, before);
	p += before;
	memcpy(p, v->text, v->text_len);
	p += v->text_len;
	memcpy(p, text + before, t->text_len - before);
	return p + (t->text_len - before);
}

/* Space for the full record that any brief one stands for. */
typedef union StenoWhole
{
	StenoRecordMessage m;
	uint8_t		bytes[sizeof(StenoRecordMessage) + STENO_TEMPLATE_ROOM + UINT8_MAX + 8 + sizeof(StenoTimes)];
} StenoWhole;

/* The full form of a brief commit. */
static inline const StenoRecordMessage *
steno_commit_whole(const StenoCommitMessage *c, uint64_t seq, StenoWhole *room)
{
	StenoRecordMessage *r = &room->m;
	uint8_t    *p = (uint8_t *) (r + 1);
	StenoEnding ending = {
		.lsn = c->lsn, .lsn_end = c->lsn + c->lsn_len, .statements = c->statements, .timeline = c->timeline,
		.event = STENO_EVENT_COMMIT
	};

	steno_message_init(r, c->m.kind, seq, c->time);
	r->m.flags = STENO_MESSAGE_ENDING;
	r->duration = c->duration;
	steno_message_set_xid(r, c->xid);
	memcpy(p, &ending, sizeof(ending));
	steno_message_end(r, steno_message_put_class(r, p + sizeof(ending), STENO_CLASS_TRANSACTION));
	return r;
}

/*
 * The full form of a record: a brief one is expanded in room, any other is returned
 * unchanged.  templates are those of the record's ring; seq and statement are the
 * numbers that a brief record implies.
 */
static inline const StenoRecordMessage *
steno_message_whole(const StenoMessage *m, const StenoTemplate *templates, uint64_t seq,
					uint64_t statement, StenoWhole *room)
{
	const StenoBriefMessage *b = (const StenoBriefMessage *) m;
	const StenoTemplate *t;
	StenoBriefNumbers n;
	StenoBriefNesting nesting;
	StenoBriefValues v;
	uint64_t	xid;
	StenoRecordMessage *r = &room->m;
	uint8_t    *p = (uint8_t *) (r + 1);

	if (!(m->flags & STENO_MESSAGE_BRIEF))
		return (const StenoRecordMessage *) m;
	if (m->kind == STENO_KIND_TRANSACTION)
		return steno_commit_whole((const StenoCommitMessage *) m, seq, room);
	t = steno_brief_template(b, templates);
	n = steno_brief_numbers(b, statement);
	nesting = steno_brief_nesting(b);
	xid = steno_brief_xid(b);
	steno_message_init(r, m->kind, seq, b->time);
	r->m.flags = m->flags & STENO_MESSAGE_VALUES;
	r->duration = n.duration;
	r->rows = n.rows;
	r->statement = n.statement;
	r->substatement = nesting.substatement;
	r->depth = nesting.depth;
	steno_message_set_xid(r, xid);
	if (b->template >= STENO_BRIEF_BEGIN)
	{
		r->shape_len = steno_control_shape(b->template, p);
		r->text_len = b->values_len;
		p += r->shape_len;
		memcpy(p, b->values, b->values_len);
		p += b->values_len;
	}
	else if (t)
	{
		v = steno_brief_values(b, steno_template_varies(t));
		r->shape_len = t->shape_len;
		r->text_len = t->text_len + v.text_len;
		r->nulls_len = nesting.nulls_len <= v.values_len ? nesting.nulls_len : 0;
		r->values_len = v.values_len - r->nulls_len;
		memcpy(p, t->bytes, t->shape_len);
		p = steno_brief_text(t, &v, p + t->shape_len);
		memcpy(p, v.values, v.values_len);
		p += v.values_len;
	}
	else
		/* values cannot be interpreted without their types, which are in the shape */
		r->m.flags &= ~STENO_MESSAGE_VALUES;
	steno_message_end(r, p);
	if (m->flags & STENO_MESSAGE_TIMES)
	{
		const StenoTimes times = steno_message_times(m);

		r->m.flags |= STENO_MESSAGE_TIMES;
		memcpy(room->bytes + r->m.len, &times, sizeof(times));
		r->m.len += sizeof(times);
	}
	return r;
}

/*
 * Update the last sequence number, and the number of the last finished top-level
 * statement, by a record: the next one of its session is expected to follow them.
 */
static inline void
steno_message_advance(const StenoMessage *m, uint64_t *seq, uint64_t *statement)
{
	const StenoRecordMessage *r = (const StenoRecordMessage *) m;

	if ((m->flags & STENO_MESSAGE_BRIEF) && m->kind == STENO_KIND_TRANSACTION)
	{
		*seq += 1;
		return;
	}
	if (m->flags & STENO_MESSAGE_BRIEF)
	{
		const StenoBriefMessage *b = (const StenoBriefMessage *) m;

		*statement = steno_brief_numbers(b, *statement + 1).statement - (steno_brief_nesting(b).depth > 0);
		*seq += 1;
		return;
	}
	if (r->seq != 0)
		*seq = r->seq;
	if (m->kind <= STENO_KIND_START)
		*statement = m->kind == STENO_KIND_STATEMENT && r->depth == 0 ? r->statement : r->statement - 1;
}

/*
 * The staged record that a dead producer's in-flight entry points to.  NULL if
 * there is none, or the bytes there are not the record of the entry's statement.
 * It may be brief: what identifies it then is its time, to the microsecond.
 */
static inline const StenoMessage *
steno_inflight_record(const StenoInFlight *f, const uint8_t *data, uint32_t size)
{
	uint32_t	offset = (uint32_t) (f->position & (size - 1));
	const StenoMessage *m = (const StenoMessage *) (data + offset);
	const StenoRecordMessage *r = (const StenoRecordMessage *) m;
	const StenoBriefMessage *b = (const StenoBriefMessage *) m;

	if (!f->staged || (offset & 7) != 0 || !steno_message_is_whole(m, size - offset) ||
		m->kind != STENO_KIND_STATEMENT)
		return NULL;
	if (m->flags & STENO_MESSAGE_BRIEF)
		return b->time == f->time && steno_brief_numbers(b, f->statement).statement == f->statement ? m : NULL;
	return r->time == f->time && r->statement == f->statement ? m : NULL;
}

/*
 * Reset a copy of a staged record to what was known at the statement's start.  At
 * its end, the session fills in the other fields and the message of a failure in
 * place; if it does so while the record is copied, the copy may have any part of
 * that.  The message is the last string, so removing it moves no other.
 */
static inline void
steno_message_begun(StenoRecordMessage *m, uint8_t outcome)
{
	m->duration = STENO_NONE64;
	m->rows = STENO_NONE64;
	m->xid = 0;
	m->xid_epoch = 0;
	m->outcome = outcome;
	m->sqlstate[0] = '\0';
	m->message_len = 0;
	m->m.flags &= (uint16_t) ~STENO_MESSAGE_TIMES;
}

#endif							/* STENO_MESSAGE_H */
