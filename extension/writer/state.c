/*
 * extension/writer/state.c
 *		What this server knows of its trail beside the trail: where its own records
 *		end in each stream, and whether the data directory is the one that wrote them.
 *
 * The file pg_steno.state in the data directory has a header and a slot for each
 * writer, of 512 bytes each, so that no write of one is torn on a disk.  The
 * postmaster reads it at the beginning of each run, before there are writers, and
 * writes the header; then each slot is its writer's.
 *
 * A slot says which stream the writer writes, and which block is the last: it is
 * written before each block.  So a writer that starts can tell its own blocks from
 * those that somebody has put behind them, and misses what was cut off:
 *
 * - after a clean stop, the stream must end with that block;
 * - after a kill, while the ring file of the killed run is there, with that block or,
 *	 when the kill came before the write, with the one before it;
 * - after a loss of the machine, and of its ring file, the stream must have the last
 *	 block that was on disk for sure; nobody can tell how many came after it.
 *
 * A file that was copied, with the data directory or without it, has another inode and
 * time of birth than the header says.  So a base backup is told from a restart.
 *
 * In all these cases what was found is left as it is, unsealed.  The writer begins a
 * new stream, whose first record, of the event "branch", says why, and up to which
 * block the other stream counts.
 *
 * The slots of writers that steno.writers no longer asks for keep their streams.
 * Writer 0 compares these at each start, and records what differs in its own stream.
 */
#include "writer/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "access/xlog.h"
#include "common/controldata_utils.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "load/ring_folder.h"

#define STATE_FILE "pg_steno.state"
#define STATE_MAGIC UINT64CONST(0x315453554e455453) /* "STENUST1" */
#define STATE_UNIT 512
#define STATE_SIZE (STATE_UNIT * (1 + STENO_MAX_WRITERS))

#define HOST_LEN 72
#define DIRECTORY_LEN 152
#define MACHINE_LEN 40
#define RUN_LEN 40

/* Who wrote the trail. */
typedef struct StateHeader
{
	uint64		magic;
	uint64		system_identifier;
	uint64		inode;			/* of this file */
	int64		born;			/* nanoseconds; 0: the file system does not tell */
	uint64		ring_file;		/* the time in the name of the run's ring file */
	char		run[RUN_LEN];	/* random */
	char		machine[MACHINE_LEN];	/* empty: it has no id */
	char		host[HOST_LEN];
	char		directory[DIRECTORY_LEN];	/* the data directory, maybe cut short */
	uint64		sum;
} StateHeader;

/* Flags of a slot. */
#define SLOT_USED 1				/* stream to durable_hash are valid */
#define SLOT_CLEAN 2			/* the run was stopped, and all is on disk */
#define SLOT_FROM 4				/* from_stream to from_hash are valid */
#define SLOT_REPORTED 8			/* the trail says how the stream differs: reason, found */

typedef struct StateSlot
{
	uint64		magic;
	uint64		ring_file;		/* of the run that wrote the block */
	uint32		flags;
	uint32		stream;
	uint64		block;			/* the last one; it may not have been written */
	uint8		hash[STENO_HASH_SIZE];
	uint8		before[STENO_HASH_SIZE];	/* of the block before it */
	uint64		durable;		/* a block that was synced */
	uint8		durable_hash[STENO_HASH_SIZE];

	/* why the stream was begun, until its first record is written */
	uint32		reason;
	uint32		from_stream;
	uint64		from_block;		/* up to which it counts */
	uint8		from_hash[STENO_HASH_SIZE];
	uint64		found;			/* with which it ended */
	char		from_run[RUN_LEN];
	char		from_host[HOST_LEN];
	char		from_directory[DIRECTORY_LEN];
	uint64		sum;
} StateSlot;

StaticAssertDecl(sizeof(StateHeader) <= STATE_UNIT && sizeof(StateSlot) <= STATE_UNIT, "one sector each");

/* Why a stream begins beside another one. */
typedef enum Reason
{
	REASON_NONE,				/* it does not */
	REASON_UNKNOWN,				/* nothing is known of the other one */
	REASON_COPY,				/* it came with a copy of the data directory */
	REASON_FOREIGN,				/* it has blocks behind our last one */
	REASON_CUT,					/* it lacks our last block */
	REASON_ALTERED,				/* it has another one in its place */
	REASON_GONE					/* it is not there */
} Reason;

static const char *const reason_names[] = {
	[REASON_NONE] = "",
	[REASON_UNKNOWN] = "unknown",
	[REASON_COPY] = "copy",
	[REASON_FOREIGN] = "foreign blocks",
	[REASON_CUT] = "cut off",
	[REASON_ALTERED] = "altered",
	[REASON_GONE] = "gone"
};

/* As the postmaster found it: whether a slot's run has left its ring file. */
static bool ring_file_left[STENO_MAX_WRITERS];

/* In a writer. */
static int	state_fd = -1;
static StateHeader header;
static StateSlot slot;
static bool write_failed;

static void
state_path(char path[MAXPGPATH])
{
	snprintf(path, MAXPGPATH, "%s/" STATE_FILE, DataDir);
}

/* ---- the file's bytes ---- */

static uint64
unit_sum(const void *unit, size_t sum_at)
{
	return XXH64(unit, sum_at, GetSystemIdentifier());
}

static bool
read_unit(int fd, int n, void *unit, size_t size, size_t sum_at)
{
	uint64		sum;

	if (!steno_read_at(fd, unit, size, (uint64) n * STATE_UNIT))
		return false;
	memcpy(&sum, (char *) unit + sum_at, sizeof(sum));
	return *(uint64 *) unit == STATE_MAGIC && sum == unit_sum(unit, sum_at);
}

static bool
write_unit(int fd, int n, void *unit, size_t size, size_t sum_at)
{
	uint64		sum;

	*(uint64 *) unit = STATE_MAGIC;
	sum = unit_sum(unit, sum_at);
	memcpy((char *) unit + sum_at, &sum, sizeof(sum));
	return steno_write_at(fd, unit, size, (uint64) n * STATE_UNIT);
}

static bool
read_slot(int fd, int writer, StateSlot *s)
{
	if (read_unit(fd, 1 + writer, s, sizeof(*s), offsetof(StateSlot, sum)))
		return true;
	memset(s, 0, sizeof(*s));
	return false;
}

static bool
write_slot(int fd, int writer, StateSlot *s)
{
	return write_unit(fd, 1 + writer, s, sizeof(*s), offsetof(StateSlot, sum));
}

/* ---- who we are ---- */

/* The inode of an open file, and when it was made: a copy has others. */
static void
identify_file(int fd, StateHeader *h)
{
#ifdef STATX_BTIME
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) == 0)
	{
		h->inode = x.stx_ino;
		h->born = x.stx_mask & STATX_BTIME ? x.stx_btime.tv_sec * INT64CONST(1000000000) + x.stx_btime.tv_nsec : 0;
		return;
	}
#endif
	{
		struct stat st;

		h->inode = fstat(fd, &st) == 0 ? st.st_ino : 0;
		h->born = 0;
	}
}

/* The machine's id, which its clones should not have; empty in most containers. */
static void
identify_machine(char machine[MACHINE_LEN])
{
	int			fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t		n = fd < 0 ? 0 : read(fd, machine, MACHINE_LEN - 1);

	if (fd >= 0)
		close(fd);
	machine[Max(n, 0)] = '\0';
	machine[strcspn(machine, "\n")] = '\0';
}

static void
identify_self(int fd, uint64 ring_file, StateHeader *h)
{
	uint8		random[16];
	int			i;

	memset(h, 0, sizeof(*h));
	h->system_identifier = GetSystemIdentifier();
	h->ring_file = ring_file;
	identify_file(fd, h);
	identify_machine(h->machine);
	if (gethostname(h->host, sizeof(h->host)) != 0)
		h->host[0] = '\0';
	h->host[sizeof(h->host) - 1] = '\0';
	strlcpy(h->directory, DataDir, sizeof(h->directory));
	if (!pg_strong_random(random, sizeof(random)))
		memset(random, 0, sizeof(random));
	for (i = 0; i < (int) sizeof(random); i++)
		snprintf(h->run + 2 * i, 3, "%02x", random[i]);
}

/* Whether the state, and so the trail that it speaks of, was written elsewhere. */
static bool
is_elsewhere(const StateHeader *was, const StateHeader *now)
{
	if (was->system_identifier != now->system_identifier || was->inode != now->inode)
		return true;
	if (was->born != 0 && now->born != 0 && was->born != now->born)
		return true;
	if (was->machine[0] != '\0' && now->machine[0] != '\0' &&
		(strcmp(was->machine, now->machine) != 0 || strcmp(was->host, now->host) != 0))
		return true;
	return false;
}

/* A server that was restored in its old place, files and all. */
static bool
is_restored(void)
{
	char		path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/" BACKUP_LABEL_FILE, DataDir);
	return access(path, F_OK) == 0;
}

/* ---- the postmaster ---- */

/* What has the state file's name may be a pipe, or a device. */
static bool
is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* The slots of another server: each of its streams has a successor here. */
static void
disown(StateSlot *s, const StateHeader *was, Reason reason)
{
	StateSlot	next = {.reason = reason};

	/* a start that was killed may have done so already */
	if (s->flags & (SLOT_USED | SLOT_FROM))
	{
		next.flags = SLOT_FROM;
		next.from_stream = s->flags & SLOT_USED ? s->stream : s->from_stream;
	}
	strlcpy(next.from_run, was->run, sizeof(next.from_run));
	strlcpy(next.from_host, was->host, sizeof(next.from_host));
	strlcpy(next.from_directory, was->directory, sizeof(next.from_directory));
	*s = next;
}

/* Which slots belong to a run whose ring file is still there. */
static void
find_ring_files(int fd)
{
	char	   *prefix = steno_ring_prefix();
	StenoLeftFiles found;
	char	   *failed;
	int			i;
	int			j;

	/* a file that cannot be looked for is taken to be gone: the check is less exact then */
	(void) steno_ring_folders_find(&found, "", &failed);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateSlot	s;
		char	   *name;

		if (!read_slot(fd, i, &s) || !(s.flags & SLOT_USED))
			continue;
		name = psprintf("%s%016llx", prefix, (unsigned long long) s.ring_file);
		for (j = 0; j < found.nfiles; j++)
			if (strcmp(found.files[j].name, name) == 0)
				ring_file_left[i] = true;
		pfree(name);
	}
	steno_ring_folders_close(&found);
	pfree(prefix);
}

static void
refuse(const char *path)
{
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not write state file \"%s\" of the trail: %m", path)));
}

/*
 * A run begins, with a ring file of this time in its name.  first: the postmaster has
 * just started; else its processes are started again after a crash.
 */
void
steno_state_begin(uint64 ring_file, bool first)
{
	char		path[MAXPGPATH];
	StateHeader was;
	StateHeader now;
	StenoError	error;
	Reason		reason = REASON_NONE;
	int			fd;
	int			i;

	state_path(path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, pg_file_create_mode);
	if (fd < 0)
		refuse(path);
	if (!is_regular(fd))
		ereport(FATAL,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("state file \"%s\" of the trail is not a regular file", path),
				 errhint("Move it away. The server then begins new streams.")));
	identify_self(fd, ring_file, &now);
	if (!read_unit(fd, 0, &was, sizeof(was), offsetof(StateHeader, sum)))
	{
		memset(&was, 0, sizeof(was));
		reason = REASON_UNKNOWN;
	}
	else if (first && (is_elsewhere(&was, &now) || is_restored()))
		reason = REASON_COPY;
	memset(ring_file_left, 0, sizeof(ring_file_left));
	if (reason == REASON_NONE)
		find_ring_files(fd);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateSlot	s;

		(void) read_slot(fd, i, &s);
		if (reason != REASON_NONE)
			disown(&s, &was, reason);
		if (!write_slot(fd, i, &s))
			refuse(path);
	}
	/* last: until then, all is as it was */
	if (pg_fsync(fd) != 0 ||
		!write_unit(fd, 0, &now, sizeof(now), offsetof(StateHeader, sum)) ||
		ftruncate(fd, STATE_SIZE) != 0 || pg_fsync(fd) != 0 ||
		!steno_sync_folder(DataDir, &error))
		refuse(path);
	close(fd);
}

/* ---- a writer ---- */

static void
save_slot(int writer, bool sync)
{
	if (write_slot(state_fd, writer, &slot) && (!sync || pg_fdatasync(state_fd) == 0))
	{
		write_failed = false;
		return;
	}
	if (!write_failed)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write state file \"%s\" of the trail: %m", STATE_FILE),
				 errdetail("The next start may take stream %u for altered, and begin a new one.", slot.stream)));
	write_failed = true;
}

/* Other writers choose streams, too. */
static bool
lock_state(bool lock, StenoError *error)
{
	struct flock l = {.l_type = lock ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET};

	while (fcntl(state_fd, F_SETLKW, &l) != 0)
		if (errno != EINTR)
			/* a file system without locks: then writers of one start may choose the same */
			return errno == ENOLCK || errno == EINVAL || errno == ENOTSUP ||
				steno_failed(error, errno, "could not lock state file", STATE_FILE);
	return true;
}

static bool
load_slot(const StenoWriter *w, StenoError *error)
{
	char		path[MAXPGPATH];

	if (state_fd < 0)
	{
		state_path(path);
		state_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		if (state_fd < 0)
			return steno_failed(error, errno, "could not open state file", path);
		if (!is_regular(state_fd))
		{
			close(state_fd);
			state_fd = -1;
			return steno_failed(error, 0, "state file is not a regular file", path);
		}
	}
	if (!read_unit(state_fd, 0, &header, sizeof(header), offsetof(StateHeader, sum)))
		memset(&header, 0, sizeof(header));
	if (!read_slot(state_fd, w->number, &slot))
		slot.reason = REASON_UNKNOWN;
	return true;
}

/* What of the stream is not as the slot says; *known: up to which block it is ours. */
static bool
judge(const StateSlot *s, int writer, const StenoEnd *end, Reason *reason, uint64 *known,
	  uint8 hash[STENO_HASH_SIZE], StenoError *error)
{
	uint64		system = GetSystemIdentifier();
	bool		exact = (s->flags & SLOT_CLEAN) || s->ring_file == header.ring_file || ring_file_left[writer];
	bool		has;

	*reason = REASON_NONE;
	*known = s->block;
	memcpy(hash, s->hash, STENO_HASH_SIZE);
	if (!exact)
	{
		*known = s->durable;
		memcpy(hash, s->durable_hash, STENO_HASH_SIZE);
	}
	if (!steno_stream_has(steno_directory, s->stream, system, *known, hash, &has, error))
		return false;
	if (exact && !(s->flags & SLOT_CLEAN) && s->block > 0 && (!has || end->block < *known))
	{
		/* it was about to be written */
		*known = s->block - 1;
		memcpy(hash, s->before, STENO_HASH_SIZE);
		if (!steno_stream_has(steno_directory, s->stream, system, *known, hash, &has, error))
			return false;
	}
	if (has && end->block >= *known)
	{
		if (exact && end->block > *known)
			*reason = REASON_FOREIGN;
	}
	else if (end->segment == 0)
		*reason = REASON_GONE;
	else
		*reason = end->block < *known ? REASON_CUT : REASON_ALTERED;
	return true;
}

/* A stream that nobody has: the writer's own number if that is free. */
static bool
choose_stream(const StenoWriter *w, uint32 *stream, StenoError *error)
{
	StenoEnd	end;
	uint32		next;
	bool		empty;
	bool		taken;
	int			i;

	if (!steno_trail_streams(steno_directory, &next, &empty, error) ||
		!steno_stream_end(steno_directory, w->number, GetSystemIdentifier(), &end, error))
		return false;
	taken = end.segment > 0 || ((slot.flags & SLOT_USED) && slot.stream == (uint32) w->number && !empty);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateSlot	other;

		if (i == w->number || !read_slot(state_fd, i, &other) || !(other.flags & SLOT_USED))
			continue;
		if (other.stream == (uint32) w->number)
			taken = true;
		if (other.stream < PG_UINT32_MAX)
			next = Max(next, other.stream + 1);
	}
	*stream = taken ? steno_stream_free(steno_directory, next) : (uint32) w->number;
	return true;
}

/* The stream that was there counts up to this block, and another one is begun. */
static void
branch(Reason reason, uint32 from, uint64 block, const uint8 *hash, uint64 found)
{
	slot.reason = reason;
	slot.flags = SLOT_FROM;
	slot.from_stream = from;
	slot.from_block = block;
	memcpy(slot.from_hash, hash, STENO_HASH_SIZE);
	slot.found = found;
}

/* Which stream the writer writes: the slot says so then.  False: it cannot be told yet. */
static bool
find_stream(StenoWriter *w, StenoError *error)
{
	uint32		predecessor = slot.flags & SLOT_USED ? slot.stream :
		slot.flags & SLOT_FROM ? slot.from_stream : (uint32) w->number;
	uint8		hash[STENO_HASH_SIZE];
	uint64		known;
	uint32		stream;
	Reason		reason = slot.reason;
	StenoEnd	end;

	if (!steno_stream_end(steno_directory, predecessor, GetSystemIdentifier(), &end, error))
		return false;
	if (slot.flags & SLOT_USED)
	{
		if (!judge(&slot, w->number, &end, &reason, &known, hash, error))
			return false;
		/* the trail says up to where it counts, whatever has been put right since */
		if (reason == REASON_NONE && (slot.flags & SLOT_REPORTED))
			reason = slot.reason;
		if (reason == REASON_NONE)
		{
			/* what a lost machine has left, and what it has not written */
			slot.block = end.block;
			memcpy(slot.hash, end.hash, STENO_HASH_SIZE);
			slot.flags = SLOT_USED;
			return true;
		}
	}
	else
	{
		/* of another server's stream all counts that is there */
		known = end.block;
		memcpy(hash, end.hash, STENO_HASH_SIZE);
		if (end.segment == 0)
			reason = REASON_NONE;
	}
	if (!choose_stream(w, &stream, error))
		return false;
	if (reason != REASON_NONE)
		branch(reason, predecessor, known, hash, end.block);
	else
		slot.flags = slot.reason = 0;
	slot.flags |= SLOT_USED;
	slot.stream = stream;
	slot.block = slot.durable = 0;
	memset(slot.hash, 0, STENO_HASH_SIZE);
	memset(slot.durable_hash, 0, STENO_HASH_SIZE);
	return true;
}

/* The stream that the writer is to open; false: it cannot be told yet. */
bool
steno_state_stream(StenoWriter *w, uint32 *stream, StenoError *error)
{
	bool		ok;

	if (!load_slot(w, error) || !lock_state(true, error))
		return false;
	ok = find_stream(w, error);
	if (ok)
	{
		slot.ring_file = header.ring_file;
		/* on disk before any block: else a stream that was stopped would have too many */
		save_slot(w->number, true);
		*stream = slot.stream;
	}
	(void) lock_state(false, error);
	return ok;
}

/* The next block of the stream, about to be written, will have this hash. */
void
steno_state_block(const StenoWriter *w, const uint8 hash[STENO_HASH_SIZE])
{
	const StenoStream *stream = &w->stream;

	if (state_fd < 0)
		return;
	if (slot.block != stream->next_block)
		memcpy(slot.before, slot.hash, STENO_HASH_SIZE);
	slot.block = stream->next_block;
	memcpy(slot.hash, hash, STENO_HASH_SIZE);
	save_slot(w->number, false);
}

/*
 * All that was written is on disk.  The file learns of it with the next block, or now
 * when segments before this one may be deleted.
 */
void
steno_state_synced(const StenoWriter *w, bool rotated)
{
	if (state_fd < 0 || slot.block != w->stream.next_block - 1)
		return;
	slot.durable = slot.block;
	memcpy(slot.durable_hash, slot.hash, STENO_HASH_SIZE);
	if (rotated)
		save_slot(w->number, false);
}

/* The run ends, and its last block is on disk. */
void
steno_state_stop(StenoWriter *w)
{
	if (state_fd < 0 || w->stream.dirty || slot.block != w->stream.next_block - 1)
		return;
	slot.flags |= SLOT_CLEAN;
	save_slot(w->number, true);
}

/* ---- records ---- */

static void
hex(char *to, const uint8 *bytes)
{
	int			i;

	for (i = 0; i < STENO_HASH_SIZE; i++)
		snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

/* Which server this is, and which run of it: the pairs' values stay. */
int
steno_state_describe(const char **pairs)
{
	static char system[24];
	static char timeline[16];
	int			n = 0;
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	TimeLineID	tli = Max(control->checkPointCopy.ThisTimeLineID, control->minRecoveryPointTLI);

	pfree(control);
	snprintf(system, sizeof(system), UINT64_FORMAT, GetSystemIdentifier());
	snprintf(timeline, sizeof(timeline), "%u", tli);
	pairs[n++] = "run";
	pairs[n++] = header.run;
	pairs[n++] = "system_identifier";
	pairs[n++] = system;
	pairs[n++] = "timeline";
	pairs[n++] = timeline;
	pairs[n++] = "host";
	pairs[n++] = header.host;
	pairs[n++] = "data_directory";
	pairs[n++] = DataDir;
	return n / 2;
}

/* How the other stream of a slot differs, for the log. */
static int
detail_difference(const StateSlot *s)
{
	unsigned long long first = s->from_block + 1;
	unsigned long long last = s->found;

	if (s->found == s->from_block && s->reason >= REASON_FOREIGN && s->reason != REASON_ALTERED)
		return errdetail("An earlier start has recorded that stream %u, which counts up to block %llu, was not as this server had left it (%s).",
						 s->from_stream, last, reason_names[s->reason]);
	switch ((Reason) s->reason)
	{
		case REASON_COPY:
			return errdetail("The data directory is a copy of \"%s\" on host \"%s\", or was restored from a backup: stream %u, up to block %llu, is that server's.",
							 s->from_directory, s->from_host, s->from_stream, last);
		case REASON_FOREIGN:
			return errdetail("Blocks %llu to %llu of stream %u stand behind the last one that this server has written. They are left as they are, and are not sealed.",
							 first, last, s->from_stream);
		case REASON_CUT:
			return errdetail("Stream %u ends with block %llu, but this server has written it up to block %llu.",
							 s->from_stream, last, first - 1);
		case REASON_ALTERED:
			return errdetail("Block %llu of stream %u is not the one that this server has written.",
							 first - 1, s->from_stream);
		case REASON_GONE:
			return errdetail("Stream %u, which this server has written up to block %llu, is not there.",
							 s->from_stream, first - 1);
		case REASON_NONE:
		case REASON_UNKNOWN:
			break;
	}
	return errdetail("Nothing in the data directory says that this server has written stream %u, or how far.",
					 s->from_stream);
}

static void
report_branch(const StenoWriter *w)
{
	if (slot.stream == slot.from_stream)
	{
		ereport(WARNING,
				(errmsg("stream %u of the trail begins anew", slot.stream),
				 errdetail("This server has written it up to block %llu, and nothing of that is in \"%s\".",
						   (unsigned long long) slot.from_block, steno_directory),
				 errhint("Unless you have changed \"steno.directory\", or moved the trail away, find out who has removed it.")));
		return;
	}
	ereport(slot.reason == REASON_COPY ? LOG : WARNING,
			(errmsg("steno writer %d begins stream %u of the trail beside stream %u",
					w->number, slot.stream, slot.from_stream),
			 detail_difference(&slot),
			 slot.reason == REASON_COPY ? 0 : errhint("Run \"steno verify\", and find out who can write to \"%s\".", steno_directory)));
}

/* A record of the event "branch", of what a slot says of its other stream. */
static void
put_branch(StenoWriter *w, const StateSlot *s, bool unused)
{
	const char *pairs[2 * 18] = {"event", "branch", "version", PG_VERSION};
	char		stream[16];
	char		block[24];
	char		found[24];
	char		hash[2 * STENO_HASH_SIZE + 1];
	int			n = 4;

	snprintf(stream, sizeof(stream), "%u", s->from_stream);
	snprintf(block, sizeof(block), UINT64_FORMAT, s->from_block);
	snprintf(found, sizeof(found), UINT64_FORMAT, s->found);
	hex(hash, s->from_hash);
	pairs[n++] = "reason";
	pairs[n++] = reason_names[s->reason];
	pairs[n++] = "stream";
	pairs[n++] = stream;
	pairs[n++] = "block";
	pairs[n++] = block;
	pairs[n++] = "hash";
	pairs[n++] = hash;
	pairs[n++] = "found";
	pairs[n++] = found;
	if (unused)
	{
		pairs[n++] = "unused";
		pairs[n++] = "true";
	}
	n += 2 * steno_state_describe(pairs + n);
	if (s->reason == REASON_COPY)
	{
		pairs[n++] = "from_run";
		pairs[n++] = s->from_run;
		pairs[n++] = "from_host";
		pairs[n++] = s->from_host;
		pairs[n++] = "from_directory";
		pairs[n++] = s->from_directory;
	}
	steno_writer_server(w, pairs, n / 2);
}

/* A stream that was just begun says beside which one.  Returns false when we are to leave. */
bool
steno_state_tell(StenoWriter *w)
{
	if (slot.reason == REASON_NONE || w->stream.next_block > 1)
		return true;
	report_branch(w);
	put_branch(w, &slot, false);
	return steno_writer_write(w);
}

/* ---- streams that no writer uses any more ---- */

/* What a writer that was killed had not synced: the stream's last segment at most. */
static bool
sync_segment(uint32 stream, uint64 segment, StenoError *error)
{
	char		folder[1024];
	char		path[1100];
	int			fd;
	bool		ok;

	if (segment == 0)
		return true;
	steno_stream_folder(folder, sizeof(folder), steno_directory, stream);
	steno_segment_path(path, sizeof(path), folder, segment);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return steno_failed(error, errno, "could not open segment", path);
	ok = pg_fsync(fd) == 0 || steno_failed(error, errno, "could not sync segment", path);
	close(fd);
	return ok && steno_sync_folder(folder, error);
}

static bool
save_unused(int writer, StateSlot *s, StenoError *error)
{
	bool		ok;

	if (!lock_state(true, error))
		return false;
	ok = (write_slot(state_fd, writer, s) && pg_fdatasync(state_fd) == 0) ||
		steno_failed(error, errno, "could not write state file", STATE_FILE);
	return lock_state(false, error) && ok;
}

/*
 * Compare the stream of a slot that no writer uses, in the way of those that are in
 * use.  After that its end is known exactly, also when its ring file has gone; so it is
 * noted like that of a clean stop.  A difference is reported once.
 */
static bool
compare_unused(StenoWriter *w, int writer, StateSlot *s, StenoError *error)
{
	uint64		system = GetSystemIdentifier();
	uint8		hash[STENO_HASH_SIZE];
	uint64		known;
	Reason		reason;
	StenoEnd	end;

	if (!steno_stream_end(steno_directory, s->stream, system, &end, error) ||
		!judge(s, writer, &end, &reason, &known, hash, error))
	{
		/* in the place of its folder there is something else */
		if (error->error != ENOTDIR)
			return false;
		memset(&end, 0, sizeof(end));
		reason = REASON_GONE;
		known = s->flags & SLOT_CLEAN ? s->block : s->durable;
		memcpy(hash, s->flags & SLOT_CLEAN ? s->hash : s->durable_hash, STENO_HASH_SIZE);
	}
	if (reason == REASON_NONE)
	{
		if (s->flags & SLOT_CLEAN)
			return true;
		if (!sync_segment(s->stream, end.segment, error))
			return false;
		s->block = s->durable = end.block;
		memcpy(s->hash, end.hash, STENO_HASH_SIZE);
		memcpy(s->durable_hash, end.hash, STENO_HASH_SIZE);
		s->flags |= SLOT_CLEAN;
		return save_unused(writer, s, error);
	}
	if ((s->flags & SLOT_REPORTED) && s->reason == reason && s->found == end.block)
		return true;
	s->reason = reason;
	s->from_stream = s->stream;
	s->from_block = known;
	memcpy(s->from_hash, hash, STENO_HASH_SIZE);
	s->found = end.block;
	ereport(WARNING,
			(errmsg("stream %u of the trail, which no writer uses any more, is not as this server has left it", s->stream),
			 detail_difference(s),
			 errhint("Unless you have changed \"steno.directory\", or moved the trail away, run \"steno verify\", and find out who can write to \"%s\".",
					 steno_directory)));
	put_branch(w, s, true);
	if (!steno_writer_write(w))
		steno_writer_exit();	/* the next start finds it again */
	s->block = s->durable = known;
	memcpy(s->hash, hash, STENO_HASH_SIZE);
	memcpy(s->durable_hash, hash, STENO_HASH_SIZE);
	s->flags |= SLOT_CLEAN | SLOT_REPORTED;
	return save_unused(writer, s, error);
}

/*
 * Writer 0, once in a run.  A stream that cannot be read holds nobody up: the next
 * start looks again.
 */
void
steno_state_compare_unused(StenoWriter *w)
{
	int			i;

	for (i = steno_writers; i < STENO_MAX_WRITERS && state_fd >= 0; i++)
	{
		StenoError	error = {0};
		StateSlot	s;

		if (!read_slot(state_fd, i, &s) || !(s.flags & SLOT_USED) || s.block == 0 ||
			compare_unused(w, i, &s, &error))
			continue;
		errno = error.error;
		ereport(WARNING,
				(errcode_for_file_access(),
				 error.error != 0 ?
				 errmsg("could not compare stream %u of the trail, which no writer uses any more: %s \"%s\": %m",
						s.stream, error.what, error.path) :
				 errmsg("could not compare stream %u of the trail, which no writer uses any more: %s \"%s\"",
						s.stream, error.what, error.path),
				 errhint("The next start tries again. Run \"steno verify\".")));
	}
}
