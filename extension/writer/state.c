/*
 * extension/writer/state.c
 *		The state file: where this server's own records end in each stream, and
 *		which data directory they come from.
 *
 * The file pg_steno.state in the data directory has a header and an entry for each
 * writer, in sectors of 512 bytes, so that no write of one is torn on a disk.  The
 * postmaster reads it at the beginning of each run, before there are writers, and
 * writes the header; then each entry is its writer's.
 *
 * An entry has the stream that the writer writes and its last block; it is written
 * before each block.  A writer that starts can therefore distinguish its own blocks
 * from those that somebody has appended, and notices if blocks were cut off:
 *
 * - after a clean stop, the stream must end with that block;
 * - after a kill, while the ring file of the killed run is there, with that block or,
 *	 when the kill came before the write, with the one before it;
 * - after a crash of the machine, which loses its ring file, the stream must have the
 *	 last block that was surely on disk; how many came after it is unknown.
 *
 * The sector after the entries has where the server's WAL ended at its last stop
 * (base/last_stop.c), the next one of which trail's directory all of this is, and the one after
 * that what was lost in all runs; writer 0 writes that once a second, if it has changed.  When a
 * run begins with another directory, the state of the former one is kept in a file of its
 * own, until that trail is used again (use_state_of_trail).  The last sector has which ring files
 * can be of runs that had recorded in another trail (branch.c).
 *
 * A copy of the file, with the data directory or without it, has another inode and
 * creation time than its header states.  This distinguishes a base backup from a
 * restart.
 *
 * If a stream differs, it is left unchanged and unsealed, and the writer begins a
 * new one (branch.c).  Entries of writers that no longer exist, because
 * steno.writers was reduced, keep their streams; writer 0 compares these at each
 * start.
 */
#include "writer/writer.h"

#include <fcntl.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "access/xlog.h"
#include "common/controldata_utils.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/guc.h"

#include "base/ring_folder.h"

#define STATE_FILE "pg_steno.state"
#define STATE_MAGIC UINT64CONST(0x315453554e455453) /* "STENUST1" */
#define STATE_SECTOR 512
/* Sector of the last stop, after those of the entries. */
#define STOP_SECTOR (1 + STENO_MAX_WRITERS)
/* Sector of the trail, after that. */
#define TRAIL_SECTOR (STOP_SECTOR + 1)
/* Sector of losses. */
#define LOSSES_SECTOR (TRAIL_SECTOR + 1)
/* Sector of runs that may have recorded elsewhere. */
#define ELSEWHERE_SECTOR (LOSSES_SECTOR + 1)
#define STATE_SIZE (STATE_SECTOR * (ELSEWHERE_SECTOR + 1))

/*
 * The first sector: which server has written the trail.  The postmaster writes it
 * when a run begins, after all entries; writers only read it.  A copy of the file
 * has another inode.
 */
typedef struct StateHeader
{
	uint64		magic;
	uint64		system_identifier;
	uint64		inode;			/* of this file */
	int64		born;			/* when it was created, in nanoseconds; 0: the file system does not
								 * record that */
	uint64		ring_file;		/* the time in the name of the run's ring file */
	char		run[STENO_RUN_LEN];	/* random; new at each start */
	char		machine[STENO_MACHINE_LEN];	/* the machine's ID; empty: it has none */
	char		host[STENO_HOST_LEN];
	char		directory[STENO_DATA_DIRECTORY_LEN];	/* the data directory, possibly truncated */
	uint64		sum;			/* XXH64 of everything before, with the system identifier */
} StateHeader;

/* Flags of an entry. */
#define ENTRY_USED 1			/* stream to durable_hash are valid */
#define ENTRY_CLEAN 2			/* the run was stopped cleanly, and everything is on disk */
#define ENTRY_BRANCHED 4		/* from is valid */
#define ENTRY_RECORDED 8		/* the trail has recorded how the stream differs: from.reason,
								 * from.found */

/*
 * The end of a writer's stream: one sector each.  Written only by that writer, except that
 * the postmaster rewrites all entries when a run begins, before there are writers, and that
 * writer 0 settles entries of numbers that no writer has.
 */
typedef struct StateEntry
{
	uint64		magic;
	uint64		ring_file;		/* that of the run that wrote the block */
	uint32		flags;
	uint32		stream;
	uint64		block;			/* number of the last block, which may not have been written */
	uint8		hash[STENO_HASH_SIZE];
	uint8		before[STENO_HASH_SIZE];	/* hash of the block before it */
	uint64		durable;		/* number of the last block that is known to be synced */
	uint8		durable_hash[STENO_HASH_SIZE];

	StenoBranch from;			/* the stream that this one replaces, until its first record is
								 * written */
	uint64		sum;
} StateEntry;

/* The directory of the trail that all of this is about.  Written by the postmaster when a run begins. */
typedef struct StateTrail
{
	uint64		magic;
	StenoTrailPlace	place;
	uint64		sum;
} StateTrail;

/* Written by writer 0 when it has stopped; the first process of the next run takes it. */
typedef struct StateStop
{
	uint64		magic;
	StenoStop	stop;
	uint64		sum;
} StateStop;

/* What was lost in the runs of this server. */
typedef struct StateLosses
{
	uint64		magic;
	StenoLosses losses;
	uint64		sum;
} StateLosses;

/* Which runs can have recorded in another trail than this one.  Written by the postmaster when a run begins. */
typedef struct StateElsewhere
{
	uint64		magic;
	uint64		before;			/* those whose ring files have an earlier time in their names */
	uint64		sum;
} StateElsewhere;

StaticAssertDecl(sizeof(StateHeader) <= STATE_SECTOR && sizeof(StateEntry) <= STATE_SECTOR &&
				 sizeof(StateTrail) <= STATE_SECTOR && sizeof(StateLosses) <= STATE_SECTOR &&
				 sizeof(StateElsewhere) <= STATE_SECTOR, "one sector each");
StaticAssertDecl(offsetof(StateEntry, from) == 136 && offsetof(StateEntry, sum) == 456, "layout of the state file");

static const StenoStop no_stop;

/* Set by the postmaster and inherited: whether the ring file of the entry's run still exists. */
static bool ring_file_left[STENO_MAX_WRITERS];

/* Set by the postmaster and inherited: runs whose ring files are older can have recorded in another trail. */
static uint64 elsewhere_before;

/* State of a writer: the open file, and its entry there. */
static int	state_file = -1;
static StateHeader header;
static StateEntry entry;
static bool write_failed;

static void
state_path(char path[MAXPGPATH])
{
	snprintf(path, MAXPGPATH, "%s/" STATE_FILE, DataDir);
}

/* ---- the file's bytes ---- */

static uint64
sector_sum(const void *unit, size_t sum_at)
{
	return XXH64(unit, sum_at, GetSystemIdentifier());
}

static bool
read_state_sector(int fd, int n, void *unit, size_t size, size_t sum_at)
{
	uint64		sum;

	if (!steno_read_at(fd, unit, size, (uint64) n * STATE_SECTOR))
		return false;
	memcpy(&sum, (char *) unit + sum_at, sizeof(sum));
	return *(uint64 *) unit == STATE_MAGIC && sum == sector_sum(unit, sum_at);
}

static bool
write_state_sector(int fd, int n, void *unit, size_t size, size_t sum_at)
{
	uint64		sum;

	*(uint64 *) unit = STATE_MAGIC;
	sum = sector_sum(unit, sum_at);
	memcpy((char *) unit + sum_at, &sum, sizeof(sum));
	return steno_write_at(fd, unit, size, (uint64) n * STATE_SECTOR);
}

static bool
read_state_entry(int fd, int writer, StateEntry *s)
{
	if (read_state_sector(fd, 1 + writer, s, sizeof(*s), offsetof(StateEntry, sum)))
		return true;
	memset(s, 0, sizeof(*s));
	return false;
}

static bool
write_state_entry(int fd, int writer, StateEntry *s)
{
	return write_state_sector(fd, 1 + writer, s, sizeof(*s), offsetof(StateEntry, sum));
}

static bool
write_state_stop(int fd, const StenoStop *stop)
{
	StateStop	s = {.stop = *stop};

	return write_state_sector(fd, STOP_SECTOR, &s, sizeof(s), offsetof(StateStop, sum));
}

static bool
read_state_stop(int fd, StenoStop *stop)
{
	StateStop	s;
	bool		ok = read_state_sector(fd, STOP_SECTOR, &s, sizeof(s), offsetof(StateStop, sum));

	*stop = ok ? s.stop : no_stop;
	return ok;
}

static bool
write_state_trail(int fd, const StenoTrailPlace *place)
{
	StateTrail	s = {.place = *place};

	return write_state_sector(fd, TRAIL_SECTOR, &s, sizeof(s), offsetof(StateTrail, sum));
}

/* None if there is no such sector yet, or if it is damaged, which is logged. */
static void
read_state_losses(int fd, StenoLosses *losses)
{
	StateLosses s = {0};

	if (read_state_sector(fd, LOSSES_SECTOR, &s, sizeof(s), offsetof(StateLosses, sum)))
	{
		*losses = s.losses;
		return;
	}
	memset(losses, 0, sizeof(*losses));
	if (s.magic != 0 || s.sum != 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"" STATE_FILE "\" is damaged where it has what the server has lost in earlier runs"),
				 errdetail("\"steno.status\" counts losses from this start on; the records of all are in the trail.")));
}

static bool
write_state_losses(int fd, const StenoLosses *losses)
{
	StateLosses s = {.losses = *losses};

	return write_state_sector(fd, LOSSES_SECTOR, &s, sizeof(s), offsetof(StateLosses, sum));
}

/* None if there is no such sector yet. */
static uint64
read_state_elsewhere(int fd)
{
	StateElsewhere s;

	return read_state_sector(fd, ELSEWHERE_SECTOR, &s, sizeof(s), offsetof(StateElsewhere, sum)) ? s.before : 0;
}

static bool
write_state_elsewhere(int fd, uint64 before)
{
	StateElsewhere s = {.before = before};

	return write_state_sector(fd, ELSEWHERE_SECTOR, &s, sizeof(s), offsetof(StateElsewhere, sum));
}

static bool
read_state_header(int fd, StateHeader *h)
{
	if (read_state_sector(fd, 0, h, sizeof(*h), offsetof(StateHeader, sum)))
		return true;
	memset(h, 0, sizeof(*h));
	return false;
}

static bool
write_state_header(int fd, StateHeader *h)
{
	return write_state_sector(fd, 0, h, sizeof(*h), offsetof(StateHeader, sum));
}

/* ---- identity of this server ---- */

static void
identify_self(int fd, uint64 ring_file, StateHeader *h)
{
	uint8		random[16];
	int			i;

	memset(h, 0, sizeof(*h));
	h->system_identifier = GetSystemIdentifier();
	h->ring_file = ring_file;
	steno_identify_file(fd, &h->inode, &h->born);
	steno_identify_machine(h->machine);
	if (gethostname(h->host, sizeof(h->host)) != 0)
		h->host[0] = '\0';
	h->host[sizeof(h->host) - 1] = '\0';
	strlcpy(h->directory, DataDir, sizeof(h->directory));
	if (!pg_strong_random(random, sizeof(random)))
		memset(random, 0, sizeof(random));
	for (i = 0; i < (int) sizeof(random); i++)
		snprintf(h->run + 2 * i, 3, "%02x", random[i]);
}

/* Whether the state file, and therefore the trail, was written by another data directory. */
static bool
was_written_elsewhere(const StateHeader *was, const StateHeader *now)
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

/* Whether this server was restored from a backup to its old directory. */
static bool
is_restored_backup(void)
{
	char		path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/" BACKUP_LABEL_FILE, DataDir);
	return access(path, F_OK) == 0;
}

/* ---- a stream and its entry ---- */

/*
 * Compare a stream with its entry.  *known is the block up to which it is this
 * server's, and hash the hash of that block.
 */
static bool
compare_stream(const StateEntry *s, int writer, const StenoEnd *end, StenoBranchReason *reason, uint64 *known,
			   uint8 hash[STENO_HASH_SIZE], StenoError *error)
{
	uint64		system = GetSystemIdentifier();
	bool		exact = (s->flags & ENTRY_CLEAN) || s->ring_file == header.ring_file || ring_file_left[writer];
	bool		has;

	*reason = STENO_BRANCH_NONE;
	*known = s->block;
	memcpy(hash, s->hash, STENO_HASH_SIZE);
	if (!exact)
	{
		*known = s->durable;
		memcpy(hash, s->durable_hash, STENO_HASH_SIZE);
	}
	if (!steno_stream_has(steno_directory, s->stream, system, *known, hash, &has, error))
		return false;
	if (exact && !(s->flags & ENTRY_CLEAN) && s->block > 0 && (!has || end->block < *known))
	{
		/* the writer was killed before it wrote that block */
		*known = s->block - 1;
		memcpy(hash, s->before, STENO_HASH_SIZE);
		if (!steno_stream_has(steno_directory, s->stream, system, *known, hash, &has, error))
			return false;
	}
	if (has && end->block >= *known)
	{
		if (exact && end->block > *known)
			*reason = STENO_BRANCH_FOREIGN;
	}
	else if (end->segment == 0)
		*reason = STENO_BRANCH_GONE;
	else
		*reason = end->block < *known ? STENO_BRANCH_CUT : STENO_BRANCH_ALTERED;
	return true;
}

/* ---- the postmaster ---- */

/* Mark an entry that another server has written, so that a new stream replaces its stream here. */
static void
disown_entry(StateEntry *s, const StateHeader *was, StenoBranchReason reason)
{
	StateEntry	next = {.from = {.reason = reason}};

	/* an earlier start that was killed may have done so already */
	if (s->flags & (ENTRY_USED | ENTRY_BRANCHED))
	{
		next.flags = ENTRY_BRANCHED;
		next.from.stream = s->flags & ENTRY_USED ? s->stream : s->from.stream;
	}
	strlcpy(next.from.run, was->run, sizeof(next.from.run));
	strlcpy(next.from.host, was->host, sizeof(next.from.host));
	strlcpy(next.from.directory, was->directory, sizeof(next.from.directory));
	*s = next;
}

/* Find the entries of runs whose ring file still exists. */
static void
find_ring_files_left(int fd)
{
	char	   *prefix = steno_ring_prefix();
	StenoLeftFiles found;
	char	   *failed;
	int			i;
	int			j;

	/*
	 * A file that cannot be looked for is assumed not to exist, which makes the
	 * check less strict.
	 */
	(void) steno_ring_folders_find(&found, "", &failed);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateEntry	s;
		char	   *name;

		if (!read_state_entry(fd, i, &s) || !(s.flags & ENTRY_USED))
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

/*
 * Whether the file has what the run that wrote it last has written up to its end, as the ring file of that run shows:
 * then this is no older state, and no other server's, that has come with a trail.
 */
static bool
is_state_of_last_run(int fd, const StateHeader *was)
{
	char	   *prefix = steno_ring_prefix();
	char	   *name = psprintf("%s%016llx", prefix, (unsigned long long) was->ring_file);
	char		what[STENO_RING_WHAT];
	bool		found_entry = false;
	bool		up_to_its_end = true;
	StenoLeftFiles found;
	StenoRings	rings;
	char	   *failed;
	int			i;
	int			j;

	(void) steno_ring_folders_find(&found, "", &failed);
	for (j = 0; j < found.nfiles; j++)
	{
		if (strcmp(found.files[j].name, name) != 0 ||
			steno_rings_open(&rings, found.folders[found.files[j].folder].fd, name, GetSystemIdentifier(),
							 what) != STENO_RING_OPEN)
			continue;
		for (i = 0; i < STENO_MAX_WRITERS - 1; i++)
		{
			const StenoIntent *intent = &rings.file->intents[i];
			StateEntry	s;

			if (!read_state_entry(fd, i, &s) || !(s.flags & ENTRY_USED) || s.ring_file != was->ring_file)
				continue;
			found_entry = true;
			up_to_its_end &= intent->block == 0 || (s.stream == intent->stream && s.block >= intent->block);
		}
		steno_rings_close(&rings);
	}
	steno_ring_folders_close(&found);
	pfree(name);
	pfree(prefix);
	return found_entry && up_to_its_end;
}

static void
refuse_state_file(const char *path)
{
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not write state file \"%s\" of the trail: %m", path)));
}

/* Open the state file, or fail the start of the server. */
static int
open_or_create_state(const char *path)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, pg_file_create_mode);

	if (fd < 0)
		refuse_state_file(path);
	if (!steno_is_regular_file(fd))
		ereport(FATAL,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("state file \"%s\" of the trail is not a regular file", path),
				 errhint("Move it away. The server then begins new streams.")));
	return fd;
}

/* Rename a file in the data directory for good. */
static void
rename_state_file(const char *from, const char *to)
{
	StenoError	error;

	if (rename(from, to) != 0 || !steno_sync_folder(DataDir, &error))
		refuse_state_file(to);
}

/* ---- the postmaster: which trail it is ---- */

/* The file that keeps the state of a trail while the server writes another one. */
static void
kept_path(char path[MAXPGPATH], const StenoTrailPlace *place)
{
	snprintf(path, MAXPGPATH, "%s/" STATE_FILE ".%016llx", DataDir, (unsigned long long) place->hash);
}

/*
 * Whether the trail's directory has what the file states, in all streams: then it is the same trail,
 * wherever it was before.
 */
static bool
is_state_of_trail(int fd)
{
	bool		found = false;
	int			i;

	memset(ring_file_left, 0, sizeof(ring_file_left));
	find_ring_files_left(fd);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StenoBranchReason reason;
		uint8		hash[STENO_HASH_SIZE];
		StenoError	error;
		StateEntry	s;
		StenoEnd	end;
		uint64		known;

		if (!read_state_entry(fd, i, &s) || !(s.flags & ENTRY_USED) || (s.flags & ENTRY_RECORDED) || s.block == 0)
			continue;
		if (!steno_stream_end(steno_directory, s.stream, GetSystemIdentifier(), &end, &error) ||
			!compare_stream(&s, i, &end, &reason, &known, hash, &error) || reason != STENO_BRANCH_NONE)
			return false;
		found = true;
	}
	return found;
}

/*
 * Make a state file for another directory, with the entries of this one.  Where this one was not
 * written by this server, neither was that.
 */
static void
make_state_file(int from, const StateHeader *was, bool elsewhere, const StenoStop *stop, const StenoTrailPlace *place,
				const char *path)
{
	StateHeader h = *was;
	char		new[MAXPGPATH];
	int			fd;
	int			i;

	snprintf(new, sizeof(new), "%s/" STATE_FILE ".new", DataDir);
	if (unlink(new) != 0 && errno != ENOENT)
		refuse_state_file(new);
	fd = open_or_create_state(new);
	steno_identify_file(fd, &h.inode, &h.born);
	if (elsewhere)
		h.inode = 0;			/* which no file has */
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateEntry	s;

		(void) read_state_entry(from, i, &s);
		if (!write_state_entry(fd, i, &s))
			refuse_state_file(new);
	}
	if (!write_state_stop(fd, stop) || !write_state_trail(fd, place) || !write_state_header(fd, &h) ||
		ftruncate(fd, STATE_SIZE) != 0 || pg_fsync(fd) != 0)
		refuse_state_file(new);
	close(fd);
	rename_state_file(new, path);
}

/* Note in a state file that all runs before this one can have recorded in another trail. */
static void
note_elsewhere(const char *path, uint64 ring_file)
{
	int			fd = open_or_create_state(path);

	if (!write_state_elsewhere(fd, ring_file) || pg_fsync(fd) != 0)
		refuse_state_file(path);
	close(fd);
}

/*
 * A run begins with another directory than the last one.  The trail that is there is one of three:
 *
 * - the same one, which was moved, or copied: the state goes on with it;
 * - one that this server has written before: the state that was kept then is used again;
 * - another one, such as a new one: its streams are compared with the present state, as
 *	 that is all that is known.
 *
 * The file of the former directory is kept, unless its trail was moved away: what was known of
 * that place is out of date then, and must not be believed when the trail is moved back.  A
 * renamed file has the same inode, by which it is distinguished from a copy.
 *
 * Each step leaves a state from which the next start goes on.  Between the last two there is no
 * state file, but open_state_of_trail finds those of both directories.
 */
static void
use_state_of_trail(int fd, const StenoTrailPlace *now, uint64 ring_file, bool first)
{
	StateHeader was;
	StateHeader self;
	StateTrail	t;
	StenoStop	stop = no_stop;
	char		path[MAXPGPATH];
	char		kept[MAXPGPATH];
	char		next[MAXPGPATH];
	bool		same;

	if (!read_state_header(fd, &was) ||
		!read_state_sector(fd, TRAIL_SECTOR, &t, sizeof(t), offsetof(StateTrail, sum)) || t.place.hash == now->hash)
		return;
	state_path(path);
	kept_path(kept, &t.place);
	kept_path(next, now);
	same = is_state_of_trail(fd);
	if (same && steno_place_is_empty(&t.place))
	{
		if (unlink(next) != 0 && errno != ENOENT)
			refuse_state_file(next);
		return;
	}
	if (same || access(next, F_OK) != 0)
	{
		identify_self(fd, 0, &self);
		if (same)
			(void) read_state_stop(fd, &stop);
		make_state_file(fd, &was, first && was_written_elsewhere(&was, &self), &stop, now, next);
	}
	if (!same)
		note_elsewhere(next, ring_file);
	rename_state_file(path, kept);
	rename_state_file(next, path);
	ereport(LOG,
			(errmsg("the directory of the trail is another one than before"),
			 errdetail("What the server has written in \"%s\" is kept in \"%s\".", t.place.path, kept)));
}

/*
 * Open the state file of the trail in this directory; create it if there is none.  Also returns what the server has
 * lost, whichever trail it wrote last.
 */
static int
open_state_of_trail(const StenoTrailPlace *now, uint64 ring_file, bool first, StenoLosses *losses)
{
	char		path[MAXPGPATH];
	char		kept[MAXPGPATH];
	int			fd;

	state_path(path);
	kept_path(kept, now);
	if (now->hash == 0)
	{
		fd = open_or_create_state(path);
		read_state_losses(fd, losses);
		return fd;
	}
	if (access(path, F_OK) != 0 && errno == ENOENT && access(kept, F_OK) == 0)
		rename_state_file(kept, path);
	fd = open_or_create_state(path);
	read_state_losses(fd, losses);
	use_state_of_trail(fd, now, ring_file, first);
	close(fd);
	return open_or_create_state(path);
}

/*
 * In the postmaster: a run begins, whose ring file has this time in its name.
 * first: the postmaster has just started; otherwise its processes are restarted
 * after a crash.
 */
void
steno_state_begin_run(uint64 ring_file, bool first)
{
	char		path[MAXPGPATH];
	StateHeader was;
	StateHeader now;
	StenoTrailPlace	place;
	StenoError	error;
	StenoBranchReason reason = STENO_BRANCH_NONE;
	int			fd;
	int			i;

	state_path(path);
	steno_place_of_trail(&place);
	fd = open_state_of_trail(&place, ring_file, first, &steno_control->losses_before);
	identify_self(fd, ring_file, &now);
	if (!read_state_header(fd, &was))
		reason = STENO_BRANCH_UNKNOWN;
	else if (first && (was_written_elsewhere(&was, &now) || is_restored_backup()))
		reason = STENO_BRANCH_COPY;
	elsewhere_before = read_state_elsewhere(fd);
	if (reason == STENO_BRANCH_COPY && !is_state_of_last_run(fd, &was))
		elsewhere_before = ring_file;
	memset(ring_file_left, 0, sizeof(ring_file_left));
	if (reason == STENO_BRANCH_NONE)
		find_ring_files_left(fd);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateEntry	s;

		(void) read_state_entry(fd, i, &s);
		if (reason != STENO_BRANCH_NONE)
			disown_entry(&s, &was, reason);
		if (!write_state_entry(fd, i, &s))
			refuse_state_file(path);
	}
	if (reason != STENO_BRANCH_NONE && !write_state_stop(fd, &no_stop))
		refuse_state_file(path);
	/* those of a server whose copy this is are its own */
	if (reason != STENO_BRANCH_NONE)
		memset(&steno_control->losses_before, 0, sizeof(StenoLosses));
	if (!write_state_losses(fd, &steno_control->losses_before))
		refuse_state_file(path);
	if (place.hash != 0 && !write_state_trail(fd, &place))
		refuse_state_file(path);
	if (!write_state_elsewhere(fd, elsewhere_before))
		refuse_state_file(path);
	/* the header is written last: until then, the old one with its inode is valid */
	if (pg_fsync(fd) != 0 || !write_state_header(fd, &now) ||
		ftruncate(fd, STATE_SIZE) != 0 || pg_fsync(fd) != 0 ||
		!steno_sync_folder(DataDir, &error))
		refuse_state_file(path);
	close(fd);
}

/* ---- a writer ---- */

static void
save_entry(int writer, bool sync)
{
	if (write_state_entry(state_file, writer, &entry) && (!sync || pg_fdatasync(state_file) == 0))
	{
		write_failed = false;
		return;
	}
	if (!write_failed)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not write state file \"%s\" of the trail: %m", STATE_FILE),
				 errdetail("The next start may take stream %u for altered, and begin a new one.", entry.stream)));
	write_failed = true;
}

/* Lock or unlock the state file, because other writers choose their streams at the same time. */
static bool
lock_state(bool lock, StenoError *error)
{
	struct flock l = {.l_type = lock ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET};

	while (fcntl(state_file, F_SETLKW, &l) != 0)
		if (errno != EINTR)
			/* without locks in the file system, two writers may choose the same stream */
			return errno == ENOLCK || errno == EINVAL || errno == ENOTSUP ||
				steno_failed(error, errno, "could not lock state file", STATE_FILE);
	return true;
}

static bool
load_entry(const StenoWriter *w, StenoError *error)
{
	char		path[MAXPGPATH];

	if (state_file < 0)
	{
		state_path(path);
		state_file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		if (state_file < 0)
			return steno_failed(error, errno, "could not open state file", path);
		if (!steno_is_regular_file(state_file))
		{
			close(state_file);
			state_file = -1;
			return steno_failed(error, 0, "state file is not a regular file", path);
		}
	}
	(void) read_state_header(state_file, &header);
	if (!read_state_entry(state_file, w->number, &entry))
		entry.from.reason = STENO_BRANCH_UNKNOWN;
	return true;
}

/* Find the number of a stream that does not exist yet: the writer's own number if possible. */
static bool
find_free_stream(const StenoWriter *w, uint32 *stream, StenoError *error)
{
	StenoEnd	end;
	uint32		next;
	bool		empty;
	bool		taken;
	int			i;

	if (!steno_trail_streams(steno_directory, &next, &empty, error) ||
		!steno_stream_end(steno_directory, w->number, GetSystemIdentifier(), &end, error))
		return false;
	taken = end.segment > 0 || ((entry.flags & ENTRY_USED) && entry.stream == (uint32) w->number && !empty);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		StateEntry	other;

		if (i == w->number || !read_state_entry(state_file, i, &other) || !(other.flags & ENTRY_USED))
			continue;
		if (other.stream == (uint32) w->number)
			taken = true;
		if (other.stream < PG_UINT32_MAX)
			next = Max(next, other.stream + 1);
	}
	*stream = taken ? steno_stream_free(steno_directory, next) : (uint32) w->number;
	return true;
}

/* Begin another stream, because the existing one is this server's only up to this block. */
static void
branch_from(StenoBranchReason reason, uint32 stream, uint64 block, const uint8 *hash, uint64 found)
{
	entry.flags = ENTRY_BRANCHED;
	entry.from.reason = reason;
	entry.from.stream = stream;
	entry.from.block = block;
	memcpy(entry.from.hash, hash, STENO_HASH_SIZE);
	entry.from.found = found;
}

/* Determine the stream that the writer writes, and put it into the entry.  False if that fails. */
static bool
settle_stream(StenoWriter *w, StenoError *error)
{
	uint32		predecessor = entry.flags & ENTRY_USED ? entry.stream :
		entry.flags & ENTRY_BRANCHED ? entry.from.stream : (uint32) w->number;
	uint8		hash[STENO_HASH_SIZE];
	uint64		known;
	uint32		stream;
	StenoBranchReason reason = entry.from.reason;
	StenoEnd	end;

	if (!steno_stream_end(steno_directory, predecessor, GetSystemIdentifier(), &end, error))
		return false;
	if (entry.flags & ENTRY_USED)
	{
		if (!compare_stream(&entry, w->number, &end, &reason, &known, hash, error))
			return false;

		/*
		 * The trail has recorded up to where the stream is ours, even if it has
		 * been repaired since.
		 */
		if (reason == STENO_BRANCH_NONE && (entry.flags & ENTRY_RECORDED))
			reason = entry.from.reason;
		if (reason == STENO_BRANCH_NONE)
		{
			/*
			 * After a crash of the machine, the stream may have fewer or more
			 * blocks than the entry.
			 */
			entry.block = end.block;
			memcpy(entry.hash, end.hash, STENO_HASH_SIZE);
			entry.flags = ENTRY_USED;
			return true;
		}
	}
	else
	{
		/* all blocks of another server's stream are accepted */
		known = end.block;
		memcpy(hash, end.hash, STENO_HASH_SIZE);
		if (end.segment == 0)
			reason = STENO_BRANCH_NONE;
	}
	if (!find_free_stream(w, &stream, error))
		return false;
	if (reason != STENO_BRANCH_NONE)
		branch_from(reason, predecessor, known, hash, end.block);
	else
		entry.flags = entry.from.reason = 0;
	entry.flags |= ENTRY_USED;
	entry.stream = stream;
	entry.block = entry.durable = 0;
	memset(entry.hash, 0, STENO_HASH_SIZE);
	memset(entry.durable_hash, 0, STENO_HASH_SIZE);
	return true;
}

/*
 * Choose the stream that the writer opens; *durable is its last block that is known
 * to be synced.  False if that fails.
 */
bool
steno_state_choose_stream(StenoWriter *w, uint32 *stream, uint64 *durable, StenoError *error)
{
	bool		ok;

	if (!load_entry(w, error) || !lock_state(true, error))
		return false;
	ok = settle_stream(w, error);
	if (ok)
	{
		entry.ring_file = header.ring_file;

		/*
		 * On disk before any block: otherwise, blocks would follow an end that is
		 * still marked as clean.
		 */
		save_entry(w->number, true);
		*stream = entry.stream;
		*durable = entry.durable;
	}
	(void) lock_state(false, error);
	return ok;
}

/* Before a block is written: note its number and hash. */
void
steno_state_write_begins(const StenoWriter *w, const uint8 hash[STENO_HASH_SIZE])
{
	const StenoStream *stream = &w->stream;

	if (state_file < 0)
		return;
	if (entry.block != stream->next_block)
		memcpy(entry.before, entry.hash, STENO_HASH_SIZE);
	entry.block = stream->next_block;
	memcpy(entry.hash, hash, STENO_HASH_SIZE);
	save_entry(w->number, false);
}

/*
 * Everything that was written is on disk.  The file is updated with the next block,
 * or now if segments before this one may be deleted.
 */
void
steno_state_synced(const StenoWriter *w, bool rotated)
{
	if (state_file < 0 || entry.block != w->stream.next_block - 1)
		return;
	entry.durable = entry.block;
	memcpy(entry.durable_hash, entry.hash, STENO_HASH_SIZE);
	if (rotated)
		save_entry(w->number, false);
}

/* The run ends: mark the entry as clean if the last block is on disk. */
void
steno_state_stopped(StenoWriter *w)
{
	if (state_file < 0 || w->stream.dirty || entry.block != w->stream.next_block - 1)
		return;
	entry.flags |= ENTRY_CLEAN;
	save_entry(w->number, true);
}

/*
 * The server has stopped, and its trail is on disk: keep where its WAL ended.  If that fails, the next start only
 * knows less.
 */
void
steno_state_stop(const StenoStop *stop)
{
	if (state_file >= 0)
		(void) (write_state_stop(state_file, stop) && pg_fdatasync(state_file) == 0);
}

/*
 * Keep what was lost so far, by writer 0: each second, if it has changed; now 0: at once, because it ends.  If that
 * fails, the next run counts from what was kept before.
 */
void
steno_state_losses(TimestampTz now)
{
	static StenoLosses kept;
	static TimestampTz last;
	StenoLosses losses;

	/* the clock may have been set back */
	if (state_file < 0 || (now != 0 && now >= last && now - last < USECS_PER_SEC))
		return;
	last = now;
	steno_losses(&losses);
	if (memcmp(&losses, &kept, sizeof(losses)) != 0 && write_state_losses(state_file, &losses))
		kept = losses;
}

/* Where the WAL ended at the last stop, which only one start may be told; false if that is not known. */
bool
steno_state_take_stop(StenoStop *stop)
{
	if (state_file < 0 || !read_state_stop(state_file, stop))
		return false;
	return write_state_stop(state_file, &no_stop) && pg_fdatasync(state_file) == 0;
}

/*
 * The stream that this writer's stream replaces, from its entry; reason
 * STENO_BRANCH_NONE if there is none.
 */
const StenoBranch *
steno_state_branch(void)
{
	return &entry.from;
}

/*
 * Whether the run whose ring file was made at this time can have recorded in another trail than this
 * one: since then, a run has begun with another directory for the trail, or in a data directory that
 * another one, or a backup, has replaced together with the trail in it.
 */
bool
steno_state_was_elsewhere(int64 ring_file)
{
	return (uint64) ring_file < elsewhere_before;
}

/* Pairs that identify this server and its current run, in static memory; returns their number. */
int
steno_state_identity(const char **pairs)
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
	if (cluster_name[0] != '\0')
	{
		pairs[n++] = "cluster_name";
		pairs[n++] = cluster_name;
	}
	return n / 2;
}

/* ---- streams that are no longer used by a writer ---- */

/* Store the end of the stream as if its writer had been stopped cleanly there. */
static bool
save_unused_entry(int writer, StateEntry *s, uint64 block, const uint8 hash[STENO_HASH_SIZE], StenoError *error)
{
	bool		ok;

	s->block = s->durable = block;
	memcpy(s->hash, hash, STENO_HASH_SIZE);
	memcpy(s->durable_hash, hash, STENO_HASH_SIZE);
	s->flags |= ENTRY_CLEAN;
	if (!lock_state(true, error))
		return false;
	ok = (write_state_entry(state_file, writer, s) && pg_fdatasync(state_file) == 0) ||
		steno_failed(error, errno, "could not write state file", STATE_FILE);
	return lock_state(false, error) && ok;
}

/*
 * Compare the stream of an entry that no writer uses in the same way as those in
 * use.  If it is unchanged, its end is stored like that of a clean stop, so that it
 * is known exactly even when the ring file no longer exists.  Differences are
 * returned in *branch, for the caller to record and then to settle; blocks that
 * could not be synced and are gone, in *lost.
 */
StenoUnused
steno_state_compare_unused(int writer, StenoBranch *branch, StenoLost *lost, StenoError *error)
{
	StateEntry	s;
	StenoBranchReason reason;
	uint8		hash[STENO_HASH_SIZE];
	uint64		known;
	StenoEnd	end;

	memset(branch, 0, sizeof(*branch));
	memset(lost, 0, sizeof(*lost));
	if (state_file < 0 || !read_state_entry(state_file, writer, &s) ||
		!(s.flags & ENTRY_USED) || s.block == 0)
		return STENO_UNUSED_UNCHANGED;
	branch->stream = s.stream;
	if (!steno_stream_end(steno_directory, s.stream, GetSystemIdentifier(), &end, error) ||
		!compare_stream(&s, writer, &end, &reason, &known, hash, error))
	{
		/* ENOTDIR: something else has the name of its folder */
		if (error->error != ENOTDIR)
			return STENO_UNUSED_FAILED;
		memset(&end, 0, sizeof(end));
		reason = STENO_BRANCH_GONE;
		known = s.flags & ENTRY_CLEAN ? s.block : s.durable;
		memcpy(hash, s.flags & ENTRY_CLEAN ? s.hash : s.durable_hash, STENO_HASH_SIZE);
	}
	if (reason == STENO_BRANCH_NONE)
		/* a killed writer may not have synced the last blocks */
		return (s.flags & ENTRY_CLEAN) ||
			(steno_stream_settle(steno_directory, s.stream, GetSystemIdentifier(), s.durable, lost, error) &&
			 save_unused_entry(writer, &s, end.block, end.hash, error)) ?
			STENO_UNUSED_UNCHANGED : STENO_UNUSED_FAILED;
	if ((s.flags & ENTRY_RECORDED) && s.from.reason == reason && s.from.found == end.block)
		return STENO_UNUSED_UNCHANGED;
	*branch = s.from;
	branch->reason = reason;
	branch->stream = s.stream;
	branch->block = known;
	memcpy(branch->hash, hash, STENO_HASH_SIZE);
	branch->found = end.block;
	return STENO_UNUSED_DIFFERS;
}

/* The difference has been recorded: note that, so that it is not recorded again. */
bool
steno_state_settle_unused(int writer, const StenoBranch *branch, StenoError *error)
{
	StateEntry	s;

	if (!read_state_entry(state_file, writer, &s))
		return steno_failed(error, errno, "could not read state file", STATE_FILE);
	s.from = *branch;
	s.flags |= ENTRY_RECORDED;
	return save_unused_entry(writer, &s, branch->block, branch->hash, error);
}
