/*
 * core/trail/segment.c
 *		The files of a stream: appending blocks, rotating, and continuing after a
 *		crash.
 *
 * Opening a stream reads only its last segment (segment_walk.c).  A torn end was
 * never durable, and is cut off.  Damage is evidence: the file is left unchanged,
 * and a new segment continues from its last good block.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/sha.h>

#include "trail/segment_walk.h"

/* Unit of preallocated space: its end is a multiple of this. */
#define ROOM (256 * 1024)

/* After so many bytes, the kernel begins to write them to disk: a sync that follows has less to wait for. */
#define WRITE_BACK (1024 * 1024)

static bool
fail_segment(StenoError *error, int number, const char *what, const StenoStream *stream)
{
	char		path[1100];

	steno_segment_path(path, sizeof(path), stream->directory, stream->segment);
	return steno_failed(error, number, what, path);
}

bool
steno_segment_find_last(const StenoStream *stream, uint64_t limit, uint64_t *last, StenoError *error)
{
	DIR		   *dir = opendir(stream->directory);
	struct dirent *entry;
	bool		ok;

	*last = 0;
	if (dir == NULL)
		return steno_failed(error, errno, "could not open folder", stream->directory);
	errno = 0;
	while ((entry = readdir(dir)) != NULL)
	{
		uint64_t	n = steno_segment_of_name(entry->d_name);

		if (n > *last && n < limit && n <= STENO_SEGMENT_MAX)
			*last = n;
	}
	ok = errno == 0 || steno_failed(error, errno, "could not read folder", stream->directory);
	closedir(dir);
	return ok;
}

/* Take the stream's next numbers and its hash from a walk; false if the walk has not found them. */
static bool
take_walk_state(StenoStream *stream, const StenoWalk *w)
{
	if (!w->anchored)
		return false;
	stream->next_block = w->next_block;
	stream->next_record = w->next_record;
	memcpy(stream->chain, w->hash, STENO_HASH_SIZE);
	return true;
}

/*
 * Take the stream's next numbers and its hash from the nearest earlier segment that
 * has them, because this one is empty or damaged.
 */
static bool
find_earlier_state(StenoStream *stream, uint64_t segment, StenoError *error)
{
	StenoWalk		w;
	StenoSegmentHeader h;
	bool		known = false;

	while (!known && segment > 1)
	{
		uint64_t	before;

		if (!steno_segment_find_last(stream, segment, &before, error))
			return false;
		if (before == 0)
			return fail_segment(error, 0, "no segment before it tells where the stream stands", stream);
		if (steno_segment_walk(stream, before, &w, &h, error) == STENO_HEADER_FAILED)
			return false;
		known = take_walk_state(stream, &w);
		close(w.fd);
		segment = before;
	}
	if (known)
		return true;
	stream->next_block = 1;
	stream->next_record = 1;
	memset(stream->chain, 0, STENO_HASH_SIZE);
	return true;
}

/* ---- beginning a segment ---- */

static void
mark_synced(StenoStream *stream)
{
	stream->dirty = false;
	stream->doubtful = false;
	stream->synced = stream->offset;
	stream->synced_block = stream->next_block;
	stream->begun = stream->offset;
}

/*
 * Write the header of stream->segment into stream->fd, an empty file.
 * stream->chain is the hash of the last block on entry, and that of the header on
 * return: the segment's first block is chained to it.
 */
static bool
write_header(StenoStream *stream, int64_t now, StenoError *error)
{
	StenoSegmentHeader h = {0};
	uint8_t		bytes[STENO_SEGMENT_HEADER_ENCRYPTED];

	h.version = STENO_FORMAT_VERSION;
	steno_crypt_describe(stream->crypt, &h);
	h.system_identifier = stream->system_identifier;
	h.stream = stream->number;
	h.server_version = stream->server_version;
	h.segment = stream->segment;
	h.created = now;
	h.first_block = stream->next_block;
	h.first_record = stream->next_record;
	memcpy(h.previous, stream->chain, STENO_HASH_SIZE);
	h.before = stream->times;
	h.last_start = stream->last_start;
	steno_segment_header_write(bytes, &h);
	if (!steno_crypt_begin(stream->crypt, bytes))
		return fail_segment(error, 0, "could not make a data key for segment", stream);
	if (!steno_write_at(stream->fd, bytes, h.length, 0))
		return fail_segment(error, errno, "could not write segment", stream);
	if (fsync(stream->fd) != 0)
		return fail_segment(error, errno, "could not sync segment", stream);
	if (!steno_sync_folder(stream->directory, error))
		return false;
	SHA256(bytes, h.length, stream->chain);
	steno_crypt_begun(stream->crypt);
	stream->created = now;
	stream->times = STENO_RANGE_NONE;
	stream->header = h.length;
	stream->offset = h.length;
	stream->room = h.length;
	mark_synced(stream);
	return true;
}

/* Create stream->segment; on failure, the file is removed again. */
static bool
begin_segment(StenoStream *stream, int64_t now, StenoError *error)
{
	char		path[1100];

	steno_segment_path(path, sizeof(path), stream->directory, stream->segment);
	stream->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, stream->file_mode);
	if (stream->fd < 0)
		return steno_failed(error, errno, "could not create segment", path);
	/* open() applied the umask, which must not remove group access that is configured */
	if (fchmod(stream->fd, stream->file_mode) != 0)
		steno_failed(error, errno, "could not set mode of segment", path);
	else if (write_header(stream, now, error))
		return true;
	close(stream->fd);
	stream->fd = -1;
	unlink(path);
	return false;
}

mode_t
steno_folder_mode(mode_t file_mode)
{
	mode_t		read = file_mode & 0044;

	return 0700 | read | read >> 2 | (read == 0040 ? S_ISGID : 0);
}

int
steno_make_folder(const char *path, mode_t mode)
{
	mode_t		before = umask(0);
	int			result = mkdir(path, mode & 0777);
	int			error = errno;

	umask(before);
	errno = error;
	return result;
}

/*
 * Create a folder, or add missing permissions to an existing one, because the
 * configured mode of files may have changed.
 */
static bool
make_stream_folder(const char *path, const char *parent, mode_t mode, StenoError *error)
{
	bool		made = steno_make_folder(path, mode) == 0;
	struct stat st;

	if (!made && errno != EEXIST)
		return steno_failed(error, errno, "could not create folder", path);
	/* a folder of another account is left to that account */
	if (mode != 0700 && stat(path, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & mode) != mode &&
		chmod(path, (st.st_mode | mode) & 07777) != 0)
		return steno_failed(error, errno, "could not set mode of folder", path);
	return !made || steno_sync_folder(parent, error);
}

static bool
make_stream_folders(const char *trail, const char *directory, mode_t file_mode, StenoError *error)
{
	mode_t		mode = steno_folder_mode(file_mode);
	char		parent[1024];
	char	   *slash;

	snprintf(parent, sizeof(parent), "%s", trail);
	slash = strrchr(parent, '/');
	if (slash == NULL)
		strcpy(parent, ".");
	else
		slash[slash == parent ? 1 : 0] = '\0';
	return make_stream_folder(trail, parent, mode, error) && make_stream_folder(directory, trail, mode, error);
}

/* ---- writing again ---- */

/* Cut preallocated space off: the file then ends with its last block. */
static bool
cut_room(StenoStream *stream)
{
	while (ftruncate(stream->fd, (off_t) stream->offset) != 0)
		if (errno != EINTR)
			return false;
	stream->room = stream->offset;
	return true;
}

/* Read a part of the segment and write it back, which makes its pages dirty. */
static bool
write_part_again(const StenoStream *stream, uint64_t offset, size_t len, StenoError *error)
{
	uint8_t    *bytes = malloc(len);
	bool		ok = false;

	if (bytes == NULL)
		fail_segment(error, ENOMEM, "could not read segment", stream);
	else if (!steno_read_at(stream->fd, bytes, len, offset))
		fail_segment(error, errno, "could not read segment", stream);
	else if (!steno_write_at(stream->fd, bytes, len, offset))
		fail_segment(error, errno, "could not write segment", stream);
	else
		ok = true;
	free(bytes);
	return ok;
}

/* Blocks first to last cannot be read back: the first of them was written to this offset. */
static void
note_lost(StenoStream *stream, StenoLost *lost, uint64_t first, uint64_t last, uint64_t offset)
{
	if (lost->count == 0)
	{
		lost->first = first;
		lost->segment = stream->segment;
		lost->offset = offset;
	}
	lost->last = last;
	lost->count += last - first + 1;
}

/*
 * After a failed sync, the kernel may mark pages clean that are not on disk.  It
 * reports the error only once, so another sync alone would succeed without having
 * written them.  Therefore read everything since the last good sync and write it
 * again, which makes its pages dirty.  Blocks that cannot be read back as they were
 * written are lost.
 */
static bool
write_again(StenoStream *stream, StenoError *error)
{
	StenoWalk	w = {.fd = stream->fd, .size = stream->offset};
	StenoLost	lost = {0};
	uint64_t	offset = stream->synced;
	uint64_t	good = offset;	/* end of the last block that was written again */
	uint64_t	block = stream->synced_block;

	if (stream->room > stream->offset && !cut_room(stream))
		return fail_segment(error, errno, "could not truncate segment", stream);
	if (offset < stream->header)
	{
		if (!write_part_again(stream, 0, stream->header, error))
			return false;
		offset = good = stream->header;
	}
	while (offset < stream->offset)
	{
		uint8_t		bytes[STENO_BLOCK_HEADER];
		StenoBlockHeader h;

		if (stream->offset - offset < STENO_BLOCK_HEADER ||
			!steno_read_at(stream->fd, bytes, sizeof(bytes), offset) ||
			!steno_block_header_read(bytes, &h) || h.block < block ||
			h.stored > stream->offset - offset - STENO_BLOCK_HEADER ||
			!steno_payload_is_good(stream->fd, offset, &h))
		{
			offset = steno_walk_find_block(&w, offset + 1);
			continue;
		}
		if (!write_part_again(stream, offset, STENO_BLOCK_HEADER + h.stored, error))
			return false;
		if (h.block > block && block > 0)
			note_lost(stream, &lost, block, h.block - 1, good);
		block = h.block + 1;
		offset = good = offset + STENO_BLOCK_HEADER + h.stored;
	}
	if (block < stream->next_block && block > 0)
		note_lost(stream, &lost, block, stream->next_block - 1, good);
	stream->lost = lost;
	return true;
}

/*
 * Bring the blocks of an open segment that follow this one to disk.  A sync of an
 * earlier process may have failed, so they are treated as after a failed sync.  A
 * segment without blocks may not have its header on disk, which the first block
 * waits for.
 */
static bool
secure_blocks(StenoStream *stream, const StenoWalk *w, uint64_t durable, StenoError *error)
{
	if (durable >= stream->next_block)
		durable = stream->next_block - 1;	/* no block after the last one is expected */
	stream->synced = w->last == 0 ? 0 : steno_walk_after(w, durable);
	stream->synced_block = durable + 1;
	/* blocks before the segment's first one are in other segments */
	if (stream->synced <= w->begin && (w->first_block == 0 || w->first_block > durable))
		stream->synced_block = w->first_block;
	if (!write_again(stream, error))
		return false;
	if (fsync(stream->fd) != 0)
		return fail_segment(error, errno, "could not sync segment", stream);
	return w->last > 0 || steno_sync_folder(stream->directory, error);
}

/* ---- opening ---- */

/* Continue a segment whose blocks are whole up to w->end. */
static bool
continue_segment(StenoStream *stream, const StenoWalk *w, const StenoSegmentHeader *h, uint64_t durable,
				 StenoFound *found, StenoError *error)
{
	uint8_t		bytes[STENO_SEGMENT_HEADER_ENCRYPTED];

	stream->fd = w->fd;
	stream->header = h->length;
	stream->offset = w->end;
	stream->room = w->end;
	stream->created = h->created;
	stream->times = w->times;
	take_walk_state(stream, w);
	if (w->last == 0)
	{
		if (!steno_read_at(stream->fd, bytes, h->length, 0))
			return fail_segment(error, errno, "could not read segment", stream);
		SHA256(bytes, h->length, stream->chain);
	}
	if (w->size > w->end)
	{
		uint64_t	torn;

		if (!steno_walk_content_end(w, &torn))
			return fail_segment(error, errno, "could not read segment", stream);
		found->torn_bytes = torn - w->end;
		if (ftruncate(stream->fd, (off_t) w->end) != 0)
			return fail_segment(error, errno, "could not truncate segment", stream);
	}
	/* new blocks must never be on disk without those before them */
	if (!secure_blocks(stream, w, durable, error))
		return false;
	mark_synced(stream);
	return true;
}

/*
 * Start over with a segment whose header never reached the disk: blocks are written
 * only after the header was synced, so there are none.
 */
static bool
restart_segment(StenoStream *stream, const StenoWalk *w, int64_t now, StenoFound *found, StenoError *error)
{
	stream->fd = w->fd;
	found->torn_bytes = w->size;
	if (!find_earlier_state(stream, stream->segment, error))
		return false;
	if (ftruncate(stream->fd, 0) != 0)
		return fail_segment(error, errno, "could not truncate segment", stream);
	return write_header(stream, now, error);
}

/* The blocks of a segment that is not continued are brought to disk, and nothing else of it is touched. */
static bool
secure_left_segment(StenoStream *stream, const StenoWalk *w, uint64_t durable, StenoError *error)
{
	bool		ok;

	if (w->last == 0)
		return true;
	stream->fd = w->fd;
	stream->header = (uint16_t) w->begin;
	stream->offset = stream->room = w->end;
	ok = secure_blocks(stream, w, durable, error);
	stream->fd = -1;
	return ok;
}

/* Leave a damaged last segment unchanged, for analysis, and continue in a new one. */
static bool
leave_damaged_segment(StenoStream *stream, const StenoWalk *w, int64_t now, uint64_t durable, StenoFound *found,
					  StenoError *error)
{
	found->damaged = true;
	found->damaged_offset = w->damaged_offset;
	if ((!take_walk_state(stream, w) && !find_earlier_state(stream, stream->segment, error)) ||
		!secure_left_segment(stream, w, durable, error))
		return false;
	stream->segment++;
	return begin_segment(stream, now, error);
}

static bool
open_last(StenoStream *stream, int64_t now, uint64_t durable, StenoFound *found, StenoError *error)
{
	StenoWalk		w;
	StenoSegmentHeader h;
	StenoHeaderState state = steno_segment_walk(stream, stream->segment, &w, &h, error);
	bool		ok;

	if (state == STENO_HEADER_FAILED)
		return false;
	if (state == STENO_HEADER_DAMAGED || w.damaged)
	{
		ok = leave_damaged_segment(stream, &w, now, durable, found, error);
		close(w.fd);
		return ok;
	}
	if (state == STENO_HEADER_UNWRITTEN)
		ok = restart_segment(stream, &w, now, found, error);
	else
	{
		ok = continue_segment(stream, &w, &h, durable, found, error);
		if (ok && (h.flags & STENO_SEGMENT_ENCRYPTED || steno_crypt_has_key(stream->crypt)))
			ok = steno_stream_rotate(stream, now, error);
	}
	if (!ok)
	{
		close(w.fd);
		stream->fd = -1;
	}
	return ok;
}

bool
steno_stream_open(StenoStream *stream, const char *trail, uint32_t number,
				  uint64_t system_identifier, uint32_t server_version,
				  mode_t file_mode, StenoCrypt *crypt, int64_t now, uint64_t durable,
				  StenoFound *found, StenoError *error)
{
	int			n;

	memset(stream, 0, sizeof(*stream));
	memset(found, 0, sizeof(*found));
	memset(error, 0, sizeof(*error));
	stream->fd = -1;
	stream->number = number;
	stream->system_identifier = system_identifier;
	stream->server_version = server_version;
	stream->file_mode = file_mode;
	stream->crypt = crypt;
	steno_crypt_forget(crypt);
	n = snprintf(stream->directory, sizeof(stream->directory), "%s/%u", trail, number);
	if (n < 0 || (size_t) n >= sizeof(stream->directory))
		return steno_failed(error, ENAMETOOLONG, "could not open stream", trail);
	if (!make_stream_folders(trail, stream->directory, stream->file_mode, error) ||
		!steno_segment_find_last(stream, UINT64_MAX, &stream->segment, error))
		return false;
	if (stream->segment > 0)
		return open_last(stream, now, durable, found, error);
	stream->segment = 1;
	stream->next_block = 1;
	stream->next_record = 1;
	return begin_segment(stream, now, error);
}

/* ---- writing ---- */

void
steno_stream_make_room(StenoStream *stream, size_t len)
{
	static const uint8_t zeros[64 * 1024];
	uint64_t	end = stream->offset + len;

	/* after a failed sync, it is unknown which parts of the file are on disk */
	if (end <= stream->room || stream->doubtful)
		return;
	end += ROOM - end % ROOM;
	while (stream->room < end)
	{
		uint64_t	n = end - stream->room < sizeof(zeros) ? end - stream->room : sizeof(zeros);

		if (!steno_write_at(stream->fd, zeros, n, stream->room))
		{
			/* the block may still fit; if not, its write reports the error */
			(void) cut_room(stream);
			return;
		}
		stream->room += n;
	}
	stream->dirty = true;
}

/* Begin to write to disk what has been appended.  The next sync reports if that fails. */
static void
begin_write_back(StenoStream *stream)
{
#ifdef SYNC_FILE_RANGE_WRITE
	if (!stream->doubtful)
		(void) sync_file_range(stream->fd, (off_t) stream->begun, (off_t) (stream->offset - stream->begun),
							   SYNC_FILE_RANGE_WRITE);
#endif
	stream->begun = stream->offset;
}

bool
steno_stream_append(StenoStream *stream, const uint8_t *bytes, size_t len,
					uint32_t records, const uint8_t chain[STENO_HASH_SIZE],
					StenoError *error)
{
	StenoBlockHeader h;

	if (((bytes[STENO_BLOCK_FLAGS] & STENO_BLOCK_ENCRYPTED) != 0) != steno_crypt_active(stream->crypt))
		return fail_segment(error, 0, "block and segment are not both encrypted: segment", stream);
	if (!steno_write_at(stream->fd, bytes, len, stream->offset))
	{
		int			number = errno;

		/*
		 * Readers follow the file and should not find part of a block.  If this
		 * fails, too, the repeated call overwrites it.
		 */
		cut_room(stream);
		return fail_segment(error, number, "could not write segment", stream);
	}
	stream->offset += len;
	if (stream->room < stream->offset)
		stream->room = stream->offset;
	stream->next_block++;
	stream->next_record += records;
	(void) steno_block_header_read(bytes, &h);
	steno_range_add(&stream->times, &h);
	memcpy(stream->chain, chain, STENO_HASH_SIZE);
	stream->dirty = true;
	if (stream->offset - stream->begun >= WRITE_BACK)
		begin_write_back(stream);
	return true;
}

bool
steno_stream_sync(StenoStream *stream, StenoError *error)
{
	if (!stream->dirty)
		return true;
	if (stream->doubtful && !write_again(stream, error))
		return false;
	while (fdatasync(stream->fd) != 0)
	{
		if (errno == EINTR)
			continue;
		stream->doubtful = true;
		return fail_segment(error, errno, "could not sync segment", stream);
	}
	mark_synced(stream);
	return true;
}

/*
 * The hash of the last block.  If the open segment has no blocks yet, stream->chain
 * is the hash of its header, and the header contains that of the last block.
 */
bool
steno_stream_last_hash(const StenoStream *stream, uint8_t hash[STENO_HASH_SIZE])
{
	if (stream->offset > stream->header)
		memcpy(hash, stream->chain, STENO_HASH_SIZE);
	else if (!steno_read_at(stream->fd, hash, STENO_HASH_SIZE, STENO_SEGMENT_PREVIOUS))
		return false;
	return true;
}

/* Before another segment follows, a segment must be on disk and end with its last block. */
static bool
finish_file(StenoStream *stream, StenoError *error)
{
	if (stream->room > stream->offset)
	{
		if (!cut_room(stream))
			return fail_segment(error, errno, "could not truncate segment", stream);
		stream->dirty = true;
	}
	return steno_stream_sync(stream, error);
}

/* On failure, the old segment is still open, and the call can be repeated. */
bool
steno_stream_rotate(StenoStream *stream, int64_t now, StenoError *error)
{
	StenoStream next;

	if (!finish_file(stream, error))
		return false;
	next = *stream;
	if (!steno_stream_last_hash(stream, next.chain))
		return fail_segment(error, errno, "could not read segment", stream);
	next.segment++;
	if (!begin_segment(&next, now, error))
		return false;
	close(stream->fd);
	*stream = next;
	return true;
}

/* ---- a segment that is not in its place ---- */

/*
 * Whether the open segment still is the file with this path.  By statx() without
 * the times of the file: with multigrain timestamps, a query of them makes the
 * kernel update them at the next write, and the sync would have to write them, too.
 */
static bool
is_in_place(const StenoStream *stream, const char *path)
{
#ifdef STATX_INO
	struct statx ours;
	struct statx there;

	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &there) == 0 &&
		statx(stream->fd, "", AT_EMPTY_PATH, STATX_INO, &ours) == 0 &&
		ours.stx_ino == there.stx_ino && ours.stx_dev_major == there.stx_dev_major &&
		ours.stx_dev_minor == there.stx_dev_minor;
#else
	(void) stream;
	(void) path;
	return false;
#endif
}

StenoPlace
steno_stream_place(const StenoStream *stream, StenoError *error)
{
	char		path[1100];
	struct stat ours;
	struct stat there;
	bool		found;

	steno_segment_path(path, sizeof(path), stream->directory, stream->segment);
	if (is_in_place(stream, path))
		return STENO_PLACE_KEPT;
	found = lstat(path, &there) == 0;
	if (!found && errno != ENOENT && errno != ENOTDIR)
	{
		steno_failed(error, errno, "could not look for segment", path);
		return STENO_PLACE_UNKNOWN;
	}
	if (fstat(stream->fd, &ours) != 0)
	{
		steno_failed(error, errno, "could not examine segment", path);
		return STENO_PLACE_UNKNOWN;
	}
	if (found && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
		return STENO_PLACE_KEPT;
	if (found)
		steno_failed(error, EEXIST, "another file has taken the place of segment", path);
	else if (ours.st_nlink == 0)
		steno_failed(error, ENOENT, "somebody has removed segment", path);
	else
		steno_failed(error, ENOENT, "somebody has moved segment", path);
	return ours.st_nlink == 0 && !found ? STENO_PLACE_REMOVED : STENO_PLACE_MOVED;
}

/*
 * Copy the open segment.  *readable is set to false if it failed because the
 * segment cannot be read.
 */
static bool
copy_segment(const StenoStream *stream, int to, bool *readable, const char *path, StenoError *error)
{
	uint8_t		window[64 * 1024];
	uint64_t	at;
	uint64_t	n;

	for (at = 0; at < stream->offset; at += n)
	{
		n = stream->offset - at < sizeof(window) ? stream->offset - at : sizeof(window);
		*readable = steno_read_at(stream->fd, window, n, at);
		if (!*readable)
			return fail_segment(error, errno, "could not read removed segment", stream);
		if (!steno_write_at(to, window, n, at))
			return steno_failed(error, errno, "could not write segment", path);
	}
	if (fsync(to) != 0)
		return steno_failed(error, errno, "could not sync segment", path);
	return true;
}

/*
 * Restore the removed segment.  The copy gets its name only once it is complete, so
 * readers never see a part of it.
 */
static bool
restore_segment(StenoStream *stream, bool *readable, StenoError *error)
{
	char		path[1100];
	char		copy[1100];
	int			fd;

	*readable = true;
	steno_segment_path(path, sizeof(path), stream->directory, stream->segment);
	snprintf(copy, sizeof(copy), "%s/.restoring", stream->directory);
	(void) unlink(copy);		/* an earlier attempt may have left it; O_EXCL refuses whatever
								 * else has the name */
	fd = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, stream->file_mode);
	if (fd < 0)
		return steno_failed(error, errno, "could not create segment", copy);
	if (fchmod(fd, stream->file_mode) != 0)
		steno_failed(error, errno, "could not set mode of segment", copy);
	else if (copy_segment(stream, fd, readable, copy, error))
	{
		if (rename(copy, path) != 0)
			steno_failed(error, errno, "could not create segment", path);
		else if (steno_sync_folder(stream->directory, error))
		{
			close(stream->fd);
			stream->fd = fd;
			stream->room = stream->offset;
			/* blocks since a failed sync must still be checked */
			if (!stream->doubtful)
				mark_synced(stream);
			return true;
		}
	}
	close(fd);
	unlink(copy);
	return false;
}

/* Leave the open segment where it has been moved to, and begin the next one. */
static bool
leave_moved_segment(StenoStream *stream, int64_t now, StenoError *error)
{
	StenoStream next;
	uint64_t	last;
	bool		finished;

	/* the stream must continue even if the moved file cannot be finished */
	finished = finish_file(stream, error);
	next = *stream;
	if (!finished && stream->synced_block < stream->next_block)
		note_lost(stream, &next.lost, stream->synced_block, stream->next_block - 1, stream->synced);
	if (!steno_stream_last_hash(stream, next.chain))
		return fail_segment(error, errno, "could not read segment", stream);
	if (!steno_segment_find_last(stream, UINT64_MAX, &last, error))
		return false;
	next.segment = (last > stream->segment ? last : stream->segment) + 1;
	if (!begin_segment(&next, now, error))
		return false;
	close(stream->fd);
	*stream = next;
	return true;
}

bool
steno_stream_replace(StenoStream *stream, const char *trail, StenoPlace place,
					 int64_t now, StenoError *error)
{
	bool		readable;

	if (!make_stream_folders(trail, stream->directory, stream->file_mode, error))
		return false;
	if (place == STENO_PLACE_REMOVED)
	{
		if (restore_segment(stream, &readable, error))
			return true;
		if (readable)
			return false;
	}
	return leave_moved_segment(stream, now, error);
}

void
steno_stream_close(StenoStream *stream)
{
	if (stream->fd >= 0)
	{
		/* only for tidiness: readers ignore zeros */
		if (stream->room > stream->offset)
			(void) cut_room(stream);
		close(stream->fd);
	}
	stream->fd = -1;
}

bool
steno_stream_settle(const char *trail, uint32_t number, uint64_t system_identifier,
					uint64_t durable, StenoLost *lost, StenoError *error)
{
	StenoStream stream = {.fd = -1, .number = number, .system_identifier = system_identifier};
	StenoSegmentHeader h;
	StenoWalk	w;
	bool		ok;

	memset(lost, 0, sizeof(*lost));
	steno_stream_folder(stream.directory, sizeof(stream.directory), trail, number);
	if (!steno_segment_find_last(&stream, UINT64_MAX, &stream.segment, error))
		return false;
	if (stream.segment == 0)
		return true;
	if (steno_segment_walk(&stream, stream.segment, &w, &h, error) == STENO_HEADER_FAILED)
		return false;
	ok = !take_walk_state(&stream, &w) || secure_left_segment(&stream, &w, durable, error);
	close(w.fd);
	*lost = stream.lost;
	return ok && steno_sync_folder(stream.directory, error);
}

/* ---- reading a stream without changing it ---- */

bool
steno_stream_end(const char *trail, uint32_t number, uint64_t system_identifier,
				 StenoEnd *end, StenoError *error)
{
	StenoStream stream = {.fd = -1, .number = number, .system_identifier = system_identifier};
	StenoSegmentHeader h;
	StenoWalk	w;
	StenoHeaderState state;
	struct stat st;

	memset(end, 0, sizeof(*end));
	steno_stream_folder(stream.directory, sizeof(stream.directory), trail, number);
	if (stat(stream.directory, &st) != 0 && errno == ENOENT)
		return true;
	if (!steno_segment_find_last(&stream, UINT64_MAX, &end->segment, error))
		return false;
	if (end->segment == 0)
		return true;
	stream.segment = end->segment;
	state = steno_segment_walk(&stream, end->segment, &w, &h, error);
	if (state == STENO_HEADER_FAILED)
		return false;
	close(w.fd);
	end->damaged = state == STENO_HEADER_DAMAGED || w.damaged;
	if (!take_walk_state(&stream, &w) && !find_earlier_state(&stream, end->segment, error))
		return false;
	end->block = stream.next_block - 1;
	memcpy(end->hash, stream.chain, STENO_HASH_SIZE);
	return true;
}
