/*
 * core/test/trail.c
 *		Small trails for tests.  The check at the end reads bytes by the offsets
 *		of FORMAT.md and shares no code with what wrote them.
 */
#include <dirent.h>
#include <openssl/evp.h>
#include <signal.h>
#include <unistd.h>
#include <xxhash.h>

#include "test/model.h"
#include "test/test.h"
#include "test/trail.h"

static void
announce(Trail *t)
{
	uint64_t	buffer[MODEL_SESSION_ROOM / 8];
	uint8_t		body[STENO_SESSION_MAX];
	const uint8_t key = STENO_SESSION_USER;
	const char *user = "alice";

	model_encode_session(buffer, body, model_body(body, TRAIL_NOW, 77, 1, &key, &user), 0, 0);
	CHECK(steno_block_add(t->block, &t->source, (StenoMessage *) buffer));
}

bool
trail_try_open(Trail *t, const char *trail)
{
	StenoCrypt *crypt = t->crypt;
	uint64_t	durable = t->durable;

	memset(t, 0, sizeof(*t));
	t->crypt = crypt;
	t->durable = durable;
	if (!steno_stream_open(&t->stream, trail, 0, TRAIL_SYSTEM, 150000, 0600, crypt, TRAIL_NOW, durable,
						   &t->found, &t->error))
		return false;
	t->block = steno_block_create(64 * 1024);
	CHECK(t->block != NULL);
	steno_block_set_crypt(t->block, crypt);
	announce(t);
	return true;
}

void
trail_open(Trail *t, const char *trail)
{
	if (!trail_try_open(t, trail))
	{
		fprintf(stderr, "%s: %s: %s\n", t->error.path, t->error.what, strerror(t->error.error));
		CHECK(!"stream can be opened");
	}
}

void
trail_close(Trail *t)
{
	steno_stream_close(&t->stream);
	steno_block_destroy(t->block);
}

bool
trail_append(Trail *t, int n)
{
	uint64_t	buffer[64];
	uint8_t		chain[STENO_HASH_SIZE];
	const uint8_t *bytes;
	size_t		len;
	uint32_t	records;

	steno_block_reset(t->block);
	while (n-- > 0)
	{
		StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, t->seq + 1, TRAIL_NOW + (int64_t) t->seq);
		ModelStrings s = {0};
		char		text[60];

		r.statement = ++t->seq;
		s.text = text;
		s.text_len = (uint32_t) snprintf(text, sizeof(text), "SELECT %llu, %llx",
										 (unsigned long long) t->seq, (unsigned long long) t->seq * 2654435761u);
		model_encode(buffer, &r, &s);
		CHECK(steno_block_add(t->block, &t->source, (StenoMessage *) buffer));
	}
	memcpy(chain, t->stream.chain, sizeof(chain));
	records = steno_block_records(t->block);
	bytes = steno_block_finish(t->block, STENO_CODEC_LZ4, t->stream.next_block,
							   t->stream.next_record, TRAIL_NOW, chain, &len);
	return steno_stream_append(&t->stream, bytes, len, records, chain, &t->error);
}

void
trail_must_append(Trail *t, int n)
{
	CHECK(trail_append(t, n));
}

/* ---- files ---- */

uint8_t *
file_read(const char *path, size_t *len)
{
	FILE	   *f = fopen(path, "rb");
	uint8_t    *bytes;

	*len = 0;
	if (f == NULL)
		return NULL;
	fseek(f, 0, SEEK_END);
	*len = (size_t) ftell(f);
	rewind(f);
	bytes = malloc(*len + 1);
	if (fread(bytes, 1, *len, f) != *len)
		CHECK(!"file can be read");
	fclose(f);
	return bytes;
}

void
each_file(const char *folder, void (*visit) (uint8_t *bytes, size_t len))
{
	DIR		   *dir = opendir(folder);
	struct dirent *entry;
	int			n = 0;

	CHECK(dir != NULL);
	while ((entry = readdir(dir)) != NULL)
	{
		char		path[700];
		size_t		len;
		uint8_t    *bytes;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		bytes = file_read(path, &len);
		CHECK(bytes != NULL);
		visit(bytes, len);
		free(bytes);
		n++;
	}
	closedir(dir);
	CHECK(n > 0);
}

void
file_write(const char *path, const void *bytes, size_t len)
{
	FILE	   *f = fopen(path, "wb");

	CHECK(f != NULL);
	CHECK(fwrite(bytes, 1, len, f) == len);
	CHECK(fclose(f) == 0);
}

void
segment_name(char *path, size_t size, const char *trail, uint32_t stream, uint64_t segment)
{
	snprintf(path, size, "%s/%u/%010llu.steno", trail, stream, (unsigned long long) segment);
}

/* ---- verification ---- */

static uint64_t
le(const uint8_t *p, int n)
{
	return n == 0 ? 0 : p[0] | le(p + 1, n - 1) << 8;
}

static void
sha256(uint8_t out[32], const void *a, size_t alen, const void *b, size_t blen, const void *c, size_t clen)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
	EVP_DigestUpdate(ctx, a, alen);
	EVP_DigestUpdate(ctx, b, blen);
	EVP_DigestUpdate(ctx, c, clen);
	EVP_DigestFinal_ex(ctx, out, NULL);
	EVP_MD_CTX_free(ctx);
}

typedef struct Chain
{
	uint64_t	block;			/* next */
	uint64_t	record;			/* next */
	uint8_t		last[32];		/* hash of the last block */
	uint8_t		previous[32];	/* what the next block is chained to */
	int64_t		first;			/* of the times in the segment */
	int64_t		last_end;
} Chain;

bool		trail_ranges_may_be_unknown;

#define WRONG(what) return (fprintf(stderr, "segment %llu, offset %zu: %s\n", (unsigned long long) segment, at, what), false)

static bool
verify_block(const uint8_t *p, size_t left, uint64_t segment, size_t at, Chain *c, size_t *len)
{
	uint8_t		hash[32];
	uint64_t	stored;

	if (left < 112 || memcmp(p, "SBLK", 4) != 0 || le(p + 4, 2) != 112)
		WRONG("no block");
	if (le(p + 104, 8) != XXH64(p, 104, 0))
		WRONG("header checksum");
	stored = le(p + 8, 4);
	if (stored > left - 112)
		WRONG("torn block");
	if (le(p + 64, 8) != XXH64(p + 112, stored, 0))
		WRONG("payload checksum");
	if (le(p + 24, 8) != c->block++)
		WRONG("block number");
	if (le(p + 32, 8) != c->record)
		WRONG("record number");
	c->record += le(p + 16, 4);
	sha256(hash, c->previous, 32, p, 72, p + 112, stored);
	if (memcmp(hash, p + 72, 32) != 0)
		WRONG("chain");
	memcpy(c->previous, hash, 32);
	memcpy(c->last, hash, 32);
	if (le(p + 16, 4) > 0)
	{
		int64_t		first = (int64_t) le(p + 40, 8);
		int64_t		last_end = (int64_t) le(p + 56, 8);

		c->first = first < c->first ? first : c->first;
		c->last_end = last_end > c->last_end ? last_end : c->last_end;
	}
	*len = 112 + stored;
	return true;
}

static bool
verify_segment(const uint8_t *p, size_t len, uint32_t stream, uint64_t segment, Chain *c)
{
	size_t		at = 0;
	size_t		n;
	size_t		header;

	if (len < 128 || memcmp(p, "STENOSEG", 8) != 0 || le(p + 8, 2) != 1 || le(p + 12, 4) > 1)
		WRONG("no segment");
	header = le(p + 12, 4) == 1 ? 208 : 128;
	if (len < header || le(p + 10, 2) != header)
		WRONG("segment header length");
	if (header == 208 && le(p + 200, 8) != XXH64(p, 200, 0))
		WRONG("checksum of the key part");
	if (le(p + 120, 8) != XXH64(p, 120, 0))
		WRONG("segment header checksum");
	if (le(p + 24, 4) != stream || le(p + 32, 8) != segment)
		WRONG("segment number");
	if (le(p + 48, 8) != c->block || le(p + 56, 8) != c->record)
		WRONG("first numbers");
	if (memcmp(p + 64, c->last, 32) != 0)
		WRONG("previous hash");
	if (segment > 1 && ((int64_t) le(p + 96, 8) != c->first || (int64_t) le(p + 104, 8) != c->last_end) &&
		(le(p + 96, 8) != 0 || le(p + 104, 8) != 0 || !trail_ranges_may_be_unknown))
		WRONG("times of the segment before");
	c->first = INT64_MAX;
	c->last_end = INT64_MIN;
	sha256(c->previous, p, header, NULL, 0, NULL, 0);
	for (at = header; at < len; at += n)
		if (p[at + (len - at > 7 ? 7 : 0)] != (header == 208 ? 1 : 0))
			WRONG("block flags");
		else if (!verify_block(p + at, len - at, segment, at, c, &n))
			return false;
	return true;
}

int
trail_verify(const char *trail, uint32_t stream, uint64_t *records)
{
	Chain		c = {.block = 1, .record = 1};
	uint64_t	segment;

	for (segment = 1;; segment++)
	{
		char		path[600];
		size_t		len;
		uint8_t    *bytes;
		bool		ok;

		segment_name(path, sizeof(path), trail, stream, segment);
		bytes = file_read(path, &len);
		if (bytes == NULL)
			break;
		ok = verify_segment(bytes, len, stream, segment, &c);
		free(bytes);
		if (!ok)
			return -1;
	}
	if (records != NULL)
		*records = c.record - 1;
	return (int) c.block - 1;
}

void
trail_use_up_descriptors(bool used_up)
{
	static struct rlimit before;
	struct rlimit none;

	if (used_up)
	{
		CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
		none = before;
		none.rlim_cur = 0;
	}
	CHECK(setrlimit(RLIMIT_NOFILE, used_up ? &none : &before) == 0);
}

void
limit_files(rlim_t bytes)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = bytes;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}
