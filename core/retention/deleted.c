/*
 * core/retention/deleted.c
 *		What retention has deleted: the record in the trail, and the state file with
 *		the record's position.
 *
 * Only the record counts.  The state file has its position, so that the trail need
 * not be searched.  It is not trusted: a line is valid only if the block that it
 * names has the same record.  It is written before the record, and also has the
 * lines of the previous state, so the latest record is found whichever of the two a
 * crash loses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trail/decode.h"
#include "retention/retention.h"
#include "scan.h"

static const char first_line[] = "pg_steno retention 1\n";

/* Maximum length of a line: names, 17 numbers, two hashes. */
#define LINE_ROOM 800

#define MAX_FILE (2 * STENO_RETENTION_STREAMS * LINE_ROOM + 100)

static const char *
reason_name(StenoReason reason)
{
	switch (reason)
	{
		case STENO_REASON_SIZE:
			return "size";
		case STENO_REASON_AGE:
			return "age";
		case STENO_REASON_SLOT_MAX_SIZE:
			return "slot_max_size";
		case STENO_REASON_NONE:
			break;
	}
	return "none";
}

/* ---- the record ---- */

static void
put_deleted_text(StenoDeletedPairs *out, char **p, const char *name, const char *value)
{
	size_t		len = strlen(value) + 1;

	memcpy(*p, value, len);
	out->pairs[2 * out->count] = name;
	out->pairs[2 * out->count++ + 1] = *p;
	*p += len;
}

static void
put_deleted_number(StenoDeletedPairs *out, char **p, const char *name, uint64_t value)
{
	char		digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long) value);
	put_deleted_text(out, p, name, digits);
}

void
steno_deleted_describe(uint32_t stream, const StenoDeleted *d, StenoDeletedPairs *out)
{
	char	   *p = out->text;
	char		chain[2 * STENO_HASH_SIZE + 1];

	out->count = 0;
	steno_put_hex(chain, d->chain, STENO_HASH_SIZE);
	put_deleted_number(out, &p, "stream", stream);
	put_deleted_text(out, &p, "reason", reason_name(d->reason));
	put_deleted_number(out, &p, "first_segment", d->first);
	put_deleted_number(out, &p, "last_segment", d->last);
	put_deleted_number(out, &p, "first_block", d->first_block);
	put_deleted_number(out, &p, "last_block", d->last_block);
	put_deleted_number(out, &p, "records", d->last_record + 1 - d->first_record);
	put_deleted_number(out, &p, "last_record", d->last_record);
	put_deleted_number(out, &p, "bytes", d->bytes);
	put_deleted_number(out, &p, "since_segment", d->since);
	put_deleted_number(out, &p, "total_records", d->total_records);
	put_deleted_number(out, &p, "total_bytes", d->total_bytes);
	if (d->missing > 0)
		put_deleted_number(out, &p, "missing", d->missing);
	put_deleted_text(out, &p, "chain", chain);
}

static bool
bytes_equal_text(StenoBytes bytes, const char *text)
{
	return bytes.len == strlen(text) && memcmp(bytes.p, text, bytes.len) == 0;
}

/* Whether the record has all of these pairs, and is about a deletion. */
static bool
record_has_pairs(const StenoTrailRecord *record, const StenoDeletedPairs *wanted)
{
	StenoBytes	in = record->extra;
	uint64_t	i;
	int			found = 0;
	bool		deleted = false;
	int			k;

	if (record->kind != STENO_KIND_SERVER)
		return false;
	for (i = 0; i < record->extra_count; i++)
	{
		StenoBytes	name;
		StenoBytes	value;

		if (!steno_take_string(&in, &name) || !steno_take_string(&in, &value))
			return false;
		deleted = deleted || (bytes_equal_text(name, "event") && bytes_equal_text(value, "deleted"));
		for (k = 0; k < wanted->count; k++)
			found += bytes_equal_text(name, wanted->pairs[2 * k]) && bytes_equal_text(value, wanted->pairs[2 * k + 1]);
	}
	return deleted && found == wanted->count;
}

static bool
block_has_record(const uint8_t *bytes, size_t len, uint32_t stream, const StenoDeleted *d)
{
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoDeletedPairs wanted;
	StenoDecoder decoder;
	StenoTrailRecord record;
	uint8_t    *buffer;
	bool		found = false;

	if (!steno_block_open(bytes, len, &h, &payload, &buffer))
		return false;
	steno_deleted_describe(stream, d, &wanted);
	steno_decoder_begin(&decoder, payload.p, payload.len, h.first_time);
	while (!found && steno_decoder_next(&decoder, &record) == STENO_DECODED_RECORD)
		found = record_has_pairs(&record, &wanted);
	steno_decoder_end(&decoder);
	free(buffer);
	return found;
}

/*
 * Whether the trail has the record at the position in d.  If the block cannot be
 * read without a key, only its chain hash is compared.  If that cannot be found out,
 * error->what says why.
 */
static bool
record_is_in_trail(const char *trail, uint32_t stream, const StenoDeleted *d, StenoError *error)
{
	static const uint8_t unknown[STENO_HASH_SIZE];
	char		folder[1024];
	char		path[1100];
	uint8_t		header[STENO_BLOCK_HEADER];
	StenoBlockHeader h;
	uint8_t    *bytes = NULL;
	bool		result = false;
	int			fd;

	steno_stream_folder(folder, sizeof(folder), trail, d->at_stream);
	steno_segment_path(path, sizeof(path), folder, d->at_segment);
	errno = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && steno_read_at(fd, header, sizeof(header), d->at_offset) &&
		steno_block_header_read(header, &h) && h.block == d->at_block &&
		h.stored <= STENO_MAX_RAW)
	{
		if (h.flags != 0)
			result = memcmp(d->at_chain, unknown, STENO_HASH_SIZE) != 0 &&
				memcmp(d->at_chain, h.chain, STENO_HASH_SIZE) == 0;
		else
		{
			size_t		len = STENO_BLOCK_HEADER + (size_t) h.stored;

			bytes = malloc(len);
			result = bytes != NULL && steno_read_at(fd, bytes, len, d->at_offset) &&
				block_has_record(bytes, len, stream, d);
		}
	}
	if (!result && !steno_errno_is_about_file(errno))
		steno_failed(error, errno, "could not read the record of a deletion in segment", path);
	free(bytes);
	if (fd >= 0)
		close(fd);
	return result;
}

/* ---- the state file ---- */

/* The numbers of a line in order, each preceded by its keyword. */
#define NUMBERS 16

typedef struct Line
{
	const char *word;
	uint64_t   *number;
} Line;

static void
line_of(StenoDeleted *d, uint64_t *stream, uint64_t *at_stream, Line line[NUMBERS])
{
	const Line	all[NUMBERS] = {
		{"stream ", stream}, {" since ", &d->since}, {" segments ", &d->first}, {" ", &d->last},
		{" blocks ", &d->first_block}, {" ", &d->last_block},
		{" records ", &d->first_record}, {" ", &d->last_record}, {" bytes ", &d->bytes},
		{" total ", &d->total_records}, {" ", &d->total_bytes}, {" missing ", &d->missing},
		{" at ", at_stream}, {" ", &d->at_segment}, {" ", &d->at_offset}, {" ", &d->at_block}
	};

	memcpy(line, all, sizeof(all));
}

static size_t
put_line(char *text, size_t room, uint32_t number, const StenoDeleted *deleted)
{
	StenoDeleted d = *deleted;
	uint64_t	stream = number;
	uint64_t	at_stream = d.at_stream;
	Line		line[NUMBERS];
	char		chain[2 * STENO_HASH_SIZE + 1];
	char		at_chain[2 * STENO_HASH_SIZE + 1];
	size_t		len = 0;
	int			i;

	line_of(&d, &stream, &at_stream, line);
	for (i = 0; i < NUMBERS; i++)
		len += (size_t) snprintf(text + len, room - len, "%s%llu", line[i].word,
								 (unsigned long long) *line[i].number);
	steno_put_hex(chain, d.chain, STENO_HASH_SIZE);
	steno_put_hex(at_chain, d.at_chain, STENO_HASH_SIZE);
	len += (size_t) snprintf(text + len, room - len, " chain %s block %s reason %s\n",
							 chain, at_chain, reason_name(d.reason));
	return len;
}

static bool
take_line(const char **p, const char *end, uint32_t *stream, StenoDeleted *d)
{
	uint64_t	number;
	uint64_t	at_stream;
	Line		line[NUMBERS];
	int			i;

	memset(d, 0, sizeof(*d));
	line_of(d, &number, &at_stream, line);
	for (i = 0; i < NUMBERS; i++)
		if (!steno_scan_word(p, end, line[i].word) ||
			!steno_scan_number(p, end, INT64_MAX, line[i].number))
			return false;
	if (number >= STENO_RETENTION_STREAMS || at_stream >= STENO_RETENTION_STREAMS ||
		d->since == 0 || d->since > d->first || d->first > d->last ||
		!steno_scan_word(p, end, " chain ") || !steno_scan_hex(p, end, d->chain, STENO_HASH_SIZE) ||
		!steno_scan_word(p, end, " block ") || !steno_scan_hex(p, end, d->at_chain, STENO_HASH_SIZE) ||
		!steno_scan_word(p, end, " reason "))
		return false;
	*stream = (uint32_t) number;
	d->at_stream = (uint32_t) at_stream;
	for (i = STENO_REASON_SIZE; i <= STENO_REASON_SLOT_MAX_SIZE; i++)
	{
		const char *q = *p;

		if (steno_scan_word(&q, end, reason_name(i)) && steno_scan_word(&q, end, "\n"))
		{
			d->reason = i;
			*p = q;
			return true;
		}
	}
	return false;
}

bool
steno_deleted_parse(const char *text, size_t len, StenoDeletedFound found, void *arg)
{
	const char *p = text;
	const char *end = text + len;
	uint32_t	stream;
	StenoDeleted d;

	if (!steno_scan_word(&p, end, first_line))
		return false;
	while (p < end)
	{
		if (!take_line(&p, end, &stream, &d))
			return false;
		found(arg, stream, &d);
	}
	return true;
}

/*
 * Replace the file.  An existing one is never opened for writing: it may be a pipe,
 * which would block.
 */
static bool
write_file(const char *path, mode_t mode, const char *text, size_t len, const char *folder, const char *name,
		   StenoError *error)
{
	int			fd;
	bool		ok;

	(void) unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return steno_failed(error, errno, "could not create file", path);
	ok = fchmod(fd, mode) == 0 && steno_write_at(fd, text, len, 0) && fsync(fd) == 0;
	if (!ok)
		steno_failed(error, errno, "could not write file", path);
	close(fd);
	if (!ok)
		return false;
	if (rename(path, name) != 0)
		return steno_failed(error, errno, "could not rename file", path);
	return steno_sync_folder(folder, error);
}

static void
new_file_path(char *path, size_t size, const char *trail)
{
	snprintf(path, size, "%s/" STENO_RETENTION_FILE ".new", trail);
}

bool
steno_deleted_keep_room(const char *trail)
{
	char		path[1100];
	struct stat st;
	int			fd;
	bool		ok;

	new_file_path(path, sizeof(path), trail);
	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= STENO_RETENTION_ROOM)
		return true;
	(void) unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	ok = posix_fallocate(fd, 0, STENO_RETENTION_ROOM) == 0;
	close(fd);
	if (!ok)
		(void) unlink(path);
	return ok;
}

bool
steno_deleted_release_room(const char *trail)
{
	char		path[1100];

	new_file_path(path, sizeof(path), trail);
	return unlink(path) == 0;
}

bool
steno_deleted_store(const char *trail, mode_t mode, const StenoDeleted now[STENO_RETENTION_STREAMS],
					const StenoDeleted before[STENO_RETENTION_STREAMS], StenoError *error)
{
	char		name[1100];
	char		temporary[1100];
	char	   *text = malloc(MAX_FILE);
	size_t		len = sizeof(first_line) - 1;
	uint32_t	i;
	bool		ok;

	snprintf(name, sizeof(name), "%s/" STENO_RETENTION_FILE, trail);
	new_file_path(temporary, sizeof(temporary), trail);
	if (text == NULL)
		return steno_failed(error, ENOMEM, "could not write file", name);
	memcpy(text, first_line, len);
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		if (now[i].last > 0)
			len += put_line(text + len, MAX_FILE - len, i, &now[i]);
		if (before != NULL && before[i].last > 0 && memcmp(&before[i], &now[i], sizeof(now[i])) != 0)
			len += put_line(text + len, MAX_FILE - len, i, &before[i]);
	}
	ok = write_file(temporary, mode, text, len, trail, name, error);
	free(text);
	return ok;
}

typedef struct Loading
{
	const char *trail;
	StenoDeleted *deleted;
	StenoError *error;
} Loading;

static void
load_line(void *arg, uint32_t stream, const StenoDeleted *d)
{
	Loading    *l = arg;

	if (l->error->what[0] == '\0' && l->deleted[stream].last == 0 &&
		record_is_in_trail(l->trail, stream, d, l->error))
		l->deleted[stream] = *d;
}

bool
steno_deleted_load(const char *trail, StenoDeleted deleted[STENO_RETENTION_STREAMS],
				   StenoError *error)
{
	Loading		l = {.trail = trail, .deleted = deleted, .error = error};
	char		path[1100];
	char	   *text;
	struct stat st;
	bool		ok = false;
	int			fd;

	memset(deleted, 0, STENO_RETENTION_STREAMS * sizeof(*deleted));
	memset(error, 0, sizeof(*error));
	snprintf(path, sizeof(path), "%s/" STENO_RETENTION_FILE, trail);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT || steno_failed(error, errno, "could not open file", path);
	text = malloc(MAX_FILE);
	if (text == NULL || fstat(fd, &st) != 0 ||
		(st.st_size <= MAX_FILE && !steno_read_at(fd, text, (size_t) st.st_size, 0)))
		steno_failed(error, errno, "could not read file", path);
	else
	{
		if (st.st_size <= MAX_FILE && S_ISREG(st.st_mode))
			steno_deleted_parse(text, (size_t) st.st_size, load_line, &l);
		/* an earlier state must not take the place of one whose record is not known to be lost */
		ok = error->what[0] == '\0';
	}
	free(text);
	close(fd);
	return ok;
}
