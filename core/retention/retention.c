/*
 * core/retention/retention.c
 *		Which segments of a trail are to be deleted by policy, and deleting them.
 *
 * Segments of a stream are deleted in order, and among several streams, the one
 * that was closed first.  A segment was closed when its successor was created: that
 * time is in a header that the chain covers, and no record of the segment ended
 * later.  The same header has everything that a deletion record states about what
 * precedes it, so no block is read.  A segment whose successor's header is damaged
 * is deleted together with the successor.
 *
 * deleted.c keeps what was deleted before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "retention/retention.h"

/* ---- the segments that exist ---- */

static int
by_segment(const void *a, const void *b)
{
	uint64_t	x = ((const StenoKeptSegment *) a)->segment;
	uint64_t	y = ((const StenoKeptSegment *) b)->segment;

	return (x > y) - (x < y);
}

static bool
add_kept(StenoKeptStream *s, uint64_t segment, uint64_t bytes)
{
	if (s->count == s->room)
	{
		uint32_t	room = s->room ? s->room * 2 : 64;
		StenoKeptSegment  *list = realloc(s->segments, room * sizeof(StenoKeptSegment));

		if (list == NULL)
			return false;
		s->segments = list;
		s->room = room;
	}
	s->segments[s->count++] = (StenoKeptSegment) {segment, bytes};
	return true;
}

/* The length of a segment that was closed when the earlier list was made; false if it was not. */
static bool
length_before(const StenoKeptStream *before, uint64_t segment, uint64_t *bytes)
{
	StenoKeptSegment key = {segment, 0};
	StenoKeptSegment *found;

	if (before == NULL || before->count == 0 || segment >= before->open)
		return false;
	found = bsearch(&key, before->segments, before->count, sizeof(key), by_segment);
	if (found != NULL)
		*bytes = found->bytes;
	return found != NULL;
}

static bool
list_stream(const char *trail, uint32_t number, const StenoKeptStream *before, StenoKeptStream *s,
			StenoError *error)
{
	char		path[1100];
	DIR		   *dir;
	struct dirent *entry;
	bool		ok = true;

	steno_stream_folder(path, sizeof(path), trail, number);
	dir = opendir(path);
	if (dir == NULL)
		return errno == ENOENT || steno_failed(error, errno, "could not open folder", path);
	s->exists = true;
	for (errno = 0; ok && (entry = readdir(dir)) != NULL; errno = 0)
	{
		uint64_t	segment = steno_segment_of_name(entry->d_name);
		uint64_t	bytes;
		struct stat st;

		if (segment == 0)
			continue;
		if (!length_before(before, segment, &bytes))
		{
			if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			{
				if (errno != ENOENT)
					ok = steno_failed(error, errno, "could not examine segment in folder", path);
				continue;
			}
			bytes = steno_written_bytes(dirfd(dir), entry->d_name, &st);
		}
		if (!add_kept(s, segment, bytes))
			ok = steno_failed(error, ENOMEM, "could not read folder", path);
	}
	if (ok && errno != 0)
		ok = steno_failed(error, errno, "could not read folder", path);
	closedir(dir);
	if (s->count > 1)
		qsort(s->segments, s->count, sizeof(StenoKeptSegment), by_segment);
	if (s->count > 0)
		s->open = s->segments[s->count - 1].segment;
	return ok;
}

bool
steno_kept_list(const char *trail, const StenoKeptTrail *before, StenoKeptTrail *kept,
				StenoError *error)
{
	uint32_t	i;

	memset(kept, 0, sizeof(*kept));
	kept->path = trail;
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (!list_stream(trail, i, before ? &before->streams[i] : NULL, &kept->streams[i], error))
		{
			steno_kept_free(kept);
			return false;
		}
	return true;
}

void
steno_kept_free(StenoKeptTrail *kept)
{
	uint32_t	i;

	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		free(kept->streams[i].segments);
	memset(kept, 0, sizeof(*kept));
}

uint64_t
steno_kept_bytes(const StenoKeptStream *stream, uint64_t from)
{
	uint64_t	bytes = 0;
	uint32_t	i;

	for (i = stream->count; i > 0 && stream->segments[i - 1].segment >= from; i--)
		bytes += stream->segments[i - 1].bytes;
	return bytes;
}

/*
 * Read the header of a segment; false if it is damaged or that of another segment, or
 * if that cannot be found out, and error->what then says why.
 */
static bool
read_segment_header(const char *trail, uint32_t stream, uint64_t segment, StenoSegmentHeader *h,
					StenoError *error)
{
	char		folder[1024];
	char		path[1100];
	uint8_t		bytes[STENO_SEGMENT_HEADER];
	bool		read;
	int			fd;

	steno_stream_folder(folder, sizeof(folder), trail, stream);
	steno_segment_path(path, sizeof(path), folder, segment);
	errno = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	read = fd >= 0 && steno_read_at(fd, bytes, sizeof(bytes), 0);
	if (!read && !steno_errno_is_about_file(errno))
		steno_failed(error, errno, "could not read header of segment", path);
	if (fd >= 0)
		close(fd);
	return read && steno_segment_header_read(bytes, h) &&
		h->stream == stream && h->segment == segment;
}

/* ---- slots ---- */

/* The index of the first segment that was not deleted by policy. */
static uint32_t
first_kept(const StenoKeptStream *s, const StenoDeleted *deleted)
{
	uint32_t	i = 0;

	while (i < s->count && s->segments[i].segment <= deleted->last)
		i++;
	return i;
}

void
steno_kept_forget(StenoKeptTrail *kept, const StenoDeleted deleted[STENO_RETENTION_STREAMS])
{
	uint32_t	i;

	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		StenoKeptStream *s = &kept->streams[i];
		uint32_t	gone = first_kept(s, &deleted[i]);

		if (gone == 0)
			continue;
		s->count -= gone;
		memmove(s->segments, s->segments + gone, s->count * sizeof(StenoKeptSegment));
	}
}

bool
steno_slot_is_lost(const StenoSlot *slot, const StenoKeptTrail *kept,
				   const StenoDeleted deleted[STENO_RETENTION_STREAMS])
{
	uint32_t	i;

	for (i = 0; slot->readable && i < STENO_RETENTION_STREAMS; i++)
	{
		const StenoKeptStream *s = &kept->streams[i];
		uint32_t	first = first_kept(s, &deleted[i]);

		if (first < s->count && steno_slot_wants(slot, i) < s->segments[first].segment)
			return true;
	}
	return false;
}

uint64_t
steno_slot_bytes(const StenoSlot *slot, const StenoKeptTrail *kept)
{
	uint64_t	bytes = 0;
	uint32_t	i;

	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		bytes += steno_kept_bytes(&kept->streams[i], steno_slot_wants(slot, i));
	return bytes;
}

/* ---- planning ---- */

/*
 * How far a stream is planned.  Segments are taken from its head one turn at a
 * time; a turn is a segment and those after it whose headers are damaged.
 */
typedef struct Turn
{
	bool		over;			/* this plan deletes nothing more of it */
	bool		known;			/* next, header and bytes are set */
	uint32_t	head;			/* index of the segment whose turn is next */
	uint32_t	next;			/* index of the next one with a whole header */
	StenoSegmentHeader header;	/* header of that segment */
	uint64_t	bytes;			/* from head up to next */
} Turn;

typedef struct Planning
{
	const StenoKeptTrail *kept;
	const StenoDeleted *deleted;
	const StenoSlots *slots;
	const StenoLimits *limits;
	StenoPlan  *plan;
	bool	   *holds_nothing;	/* by slot: it was lost before, or is by this plan */
	uint64_t	total;			/* remaining bytes */
	StenoError *error;			/* its what: why a header could not be read; empty: there is no error */
	Turn		turns[STENO_RETENTION_STREAMS];
} Planning;

static void
look_ahead(Planning *p, uint32_t stream)
{
	const StenoKeptStream *s = &p->kept->streams[stream];
	Turn	   *t = &p->turns[stream];

	t->known = true;
	t->bytes = 0;
	for (t->next = t->head; t->next < s->count; t->next++)
	{
		if (s->segments[t->next].segment > s->open)
			break;
		if (t->next > t->head &&
			read_segment_header(p->kept->path, stream, s->segments[t->next].segment, &t->header, p->error))
			return;
		/* it may be whole, so it must not be deleted with the segment before it */
		if (p->error->what[0] != '\0')
			break;
		t->bytes += s->segments[t->next].bytes;
	}
	t->over = true;
}

/* The stream whose head was closed first; -1: no head can be deleted. */
static int
first_turn(Planning *p)
{
	int			first = -1;
	int			i;

	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		if (!p->turns[i].over && !p->turns[i].known)
			look_ahead(p, (uint32_t) i);
		if (!p->turns[i].over &&
			(first < 0 || p->turns[i].header.created < p->turns[first].header.created))
			first = i;
	}
	return first;
}

static StenoReason
reason_of(const Planning *p, const Turn *t)
{
	if (p->limits->age > 0 && p->limits->now - t->header.created >= p->limits->age)
		return STENO_REASON_AGE;
	if (p->limits->size > 0 && p->total > p->limits->size)
		return STENO_REASON_SIZE;
	return STENO_REASON_NONE;
}

/*
 * Whether no slot keeps a segment.  A slot that retains more than slot_max_size
 * does not keep it either, but is lost with it, which is then the reason of the
 * deletion.
 */
static bool
slots_agree(const Planning *p, uint32_t stream, const Turn *t, StenoReason *reason)
{
	uint32_t	i;

	for (i = 0; i < p->slots->count; i++)
	{
		const StenoSlot *slot = &p->slots->list[i];

		if (p->holds_nothing[i] || steno_slot_wants(slot, stream) >= t->header.segment)
			continue;
		if (p->limits->slot_max_size < 0 ||
			steno_slot_bytes(slot, p->kept) <= (uint64_t) p->limits->slot_max_size)
			return false;
		*reason = STENO_REASON_SLOT_MAX_SIZE;
	}
	return true;
}

static void
mark_lost(Planning *p, uint32_t stream, const Turn *t)
{
	uint32_t	i;

	for (i = 0; i < p->slots->count; i++)
		if (!p->holds_nothing[i] && steno_slot_wants(&p->slots->list[i], stream) < t->header.segment)
			p->holds_nothing[i] = p->plan->lost[i] = true;
}

/*
 * Plan the deletion of the stream's head, up to t->next.  The contents of the
 * deletion record follow from the header of t->next alone.
 */
static void
delete_head(Planning *p, uint32_t stream, StenoReason reason)
{
	const StenoKeptStream *s = &p->kept->streams[stream];
	const StenoDeleted *before = &p->deleted[stream];
	StenoDeleted *d = &p->plan->next[stream];
	Turn	   *t = &p->turns[stream];
	StenoSegmentHeader first;

	if (d->last == 0)
	{
		*d = (StenoDeleted) {.reason = reason};
		if (before->last > 0)
		{
			d->since = before->since;
			d->first = before->last + 1;
			d->first_block = before->last_block + 1;
			d->first_record = before->last_record + 1;
			d->total_records = before->total_records;
			d->total_bytes = before->total_bytes;
			d->missing = before->missing;
		}
		else
		{
			d->since = d->first = s->segments[t->head].segment;
			if (!read_segment_header(p->kept->path, stream, d->first, &first, p->error))
				first = t->header;	/* damaged: its contents are counted as none */
			d->first_block = first.first_block;
			d->first_record = first.first_record;
		}
		d->last = d->first - 1;
		d->last_record = d->first_record - 1;
	}
	d->missing += t->header.segment - 1 - d->last - (t->next - t->head);
	d->last = t->header.segment - 1;
	d->last_block = t->header.first_block - 1;
	d->total_records += t->header.first_record - 1 - d->last_record;
	d->last_record = t->header.first_record - 1;
	d->bytes += t->bytes;
	d->total_bytes += t->bytes;
	memcpy(d->chain, t->header.previous, STENO_HASH_SIZE);
	p->plan->files += t->next - t->head;
	p->total -= t->bytes;
	t->head = t->next;
	t->known = false;
}

static void
plan_all(Planning *p)
{
	for (;;)
	{
		int			stream = first_turn(p);
		StenoReason reason;
		Turn	   *t;

		if (stream < 0 || p->error->what[0] != '\0')
			return;
		t = &p->turns[stream];
		reason = reason_of(p, t);
		if (reason == STENO_REASON_NONE)
			return;
		if (!slots_agree(p, (uint32_t) stream, t, &reason))
		{
			t->over = true;
			p->plan->kept_by_slots = true;
			continue;
		}
		if (p->plan->files > 0 && p->plan->files + (t->next - t->head) > p->limits->most)
		{
			p->plan->more = true;
			return;
		}
		/* a record has one reason; the next plan begins here, so that the order remains */
		if (p->plan->next[stream].last > 0 && p->plan->next[stream].reason != reason)
		{
			p->plan->more = true;
			return;
		}
		if (reason == STENO_REASON_SLOT_MAX_SIZE)
			mark_lost(p, (uint32_t) stream, t);
		delete_head(p, (uint32_t) stream, reason);
	}
}

bool
steno_retention_plan(const StenoKeptTrail *kept,
					 const StenoDeleted deleted[STENO_RETENTION_STREAMS],
					 const StenoSlots *slots, const StenoLimits *limits, StenoPlan *plan,
					 StenoError *error)
{
	Planning	p = {.kept = kept, .deleted = deleted, .slots = slots, .limits = limits, .plan = plan, .error = error};
	uint32_t	i;

	memset(error, 0, sizeof(*error));
	memset(plan, 0, sizeof(*plan));
	plan->lost = calloc(slots->count + 1, sizeof(bool));
	p.holds_nothing = calloc(slots->count + 1, sizeof(bool));
	if (plan->lost == NULL || p.holds_nothing == NULL)
	{
		free(p.holds_nothing);
		steno_plan_free(plan);
		return steno_failed(error, ENOMEM, "could not plan deletions in", kept->path);
	}
	for (i = 0; i < slots->count; i++)
		p.holds_nothing[i] = steno_slot_is_lost(&slots->list[i], kept, deleted);
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		p.turns[i].head = first_kept(&kept->streams[i], &deleted[i]);
		p.total += steno_kept_bytes(&kept->streams[i], deleted[i].last + 1);
	}
	plan_all(&p);
	plan->left = p.total;
	free(p.holds_nothing);
	if (error->what[0] == '\0')
		return true;
	steno_plan_free(plan);
	return false;
}

/*
 * How much a plan deletes does not matter for what all of them delete, because each goes on
 * where the one before it has ended: a slot that one invalidates holds nothing for the next.
 */
bool
steno_retention_forecast(const StenoKeptTrail *kept,
						 const StenoDeleted deleted[STENO_RETENTION_STREAMS],
						 const StenoSlots *slots, const StenoLimits *limits,
						 StenoForecast *forecast, StenoError *error)
{
	StenoLimits all = *limits;
	StenoDeleted *then = malloc(STENO_RETENTION_STREAMS * sizeof(StenoDeleted));
	StenoPlan	plan;
	bool		more = true;
	bool		ok = then != NULL || steno_failed(error, ENOMEM, "could not plan deletions in", kept->path);
	uint32_t	i;

	memset(forecast, 0, sizeof(*forecast));
	if (ok)
		memcpy(then, deleted, STENO_RETENTION_STREAMS * sizeof(StenoDeleted));
	all.most = UINT32_MAX;
	while (ok && more)
	{
		ok = steno_retention_plan(kept, then, slots, &all, &plan, error);
		if (!ok)
			break;
		for (i = 0; i < STENO_RETENTION_STREAMS; i++)
			if (plan.next[i].last > 0)
			{
				then[i] = plan.next[i];
				forecast->bytes += plan.next[i].bytes;
			}
		forecast->files += plan.files;
		more = plan.more;
		steno_plan_free(&plan);
	}
	free(then);
	return ok;
}

void
steno_plan_free(StenoPlan *plan)
{
	free(plan->lost);
	memset(plan, 0, sizeof(*plan));
}

/* ---- deleting ---- */

bool
steno_deleted_finish(const StenoKeptTrail *kept, uint32_t stream, const StenoDeleted *deleted,
					 StenoError *error)
{
	const StenoKeptStream *s = &kept->streams[stream];
	char		folder[1024];
	char		path[1100];
	bool		any = false;
	bool		ok = true;
	uint32_t	i;

	steno_stream_folder(folder, sizeof(folder), kept->path, stream);
	for (i = 0; ok && i < s->count && s->segments[i].segment <= deleted->last; i++)
	{
		if (s->segments[i].segment < deleted->since)
			continue;
		steno_segment_path(path, sizeof(path), folder, s->segments[i].segment);
		if (unlink(path) == 0)
			any = true;
		else if (errno != ENOENT)
			ok = steno_failed(error, errno, "could not delete segment", path);
	}
	if (any && !steno_sync_folder(folder, error))
		ok = false;
	return ok;
}
