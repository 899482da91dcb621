/*
 * extension/writer/seal.c
 *		Seals of a writer's stream: when one is made, and with which key.
 *
 * A seal signs the chain up to the block before its own, so it is the first record
 * of a block.  Seals are made: at the beginning of a run, over what was found; when
 * steno.seal_interval has passed since the last seal and something was written,
 * which is checked after each block and at the beginning of each pass; after the
 * records of deletions; at the end of a segment and of the run; and when the key or
 * the interval changes.  So all
 * blocks after the last seal, except the last one, end before that seal's time plus
 * the interval that it names.  Readers check that (FORMAT.md).
 *
 * A seal also shows that its stream had nothing more until then.  So what another
 * writer has written is a reason for a seal, too, and each stream has a first block.
 *
 * Only the writers have the private key: they read it after they were forked.  The
 * postmaster only checks the key file when it starts.
 */
#include "writer/writer.h"

#include <ctype.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "trail/seal_record.h"

#define KEY_FILE_MOST (64 * 1024)

/*
 * State of one writer, which is a process with one stream.  It is private to that
 * process, and empty in the postmaster, so that no process inherits the key.
 */
static EVP_PKEY *key;			/* signs; NULL: no seals */
static uint8 public_key[STENO_SEAL_KEY_SIZE];	/* of key */
static char key_id[STENO_SEAL_KEY_ID];	/* of key, for the log */

static uint64 first_block;		/* of this run */
static TimestampTz sealed_at;	/* time of the last seal; 0: none in this run */
static int	promised;			/* the interval that the last seal names */
static bool unsealed;			/* blocks were written that no seal covers */
static uint64 written;			/* steno_control->written at the last seal */
static uint32 alone;			/* size of the open block while it contains only seals; 0: it has
								 * none */
static uint64 seq_before;		/* sequence number before those seals */
static bool refused;			/* the last attempt to sign failed, and was
								 * logged */
static bool requested;			/* the next block is to be sealed at once */
static bool moved;				/* the stream continues in another segment than planned, and no
								 * seal states that yet */

/*
 * The seals of the open block.  A seal names its segment, so all must be signed
 * again if the block goes to another segment.  Each holds a reference to its key,
 * which a reload may have replaced by then.
 */
#define MOST_OPEN 8

static struct
{
	StenoSeal	seal;
	EVP_PKEY   *key;
}			open_seals[MOST_OPEN];

static int	open_count;

/* ---- keys ---- */

#define HINT_NO_KEY \
	errhint("Make a key with \"steno keygen\" as the server's user, or set \"steno.signing_key_file\" to an empty string to have no seals.")

/* Owner and permissions of the key file: the rules that PostgreSQL has for ssl_key_file. */
static bool
check_key_file(int fd, int elevel, off_t *size)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not examine signing key file \"%s\": %m", steno_signing_key_file),
				 HINT_NO_KEY));
	else if (!S_ISREG(st.st_mode) || st.st_size > KEY_FILE_MOST)
		ereport(elevel,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("signing key file \"%s\" is not a regular file of a key's size", steno_signing_key_file),
				 HINT_NO_KEY));
	else if (st.st_uid != geteuid() && st.st_uid != 0)
		ereport(elevel,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("signing key file \"%s\" must be owned by the database user or root", steno_signing_key_file),
				 errhint("Change its owner with \"chown\".")));
	else if ((st.st_uid == geteuid() && st.st_mode & (S_IRWXG | S_IRWXO)) ||
			 (st.st_uid == 0 && st.st_mode & (S_IWGRP | S_IXGRP | S_IRWXO)))
		ereport(elevel,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("signing key file \"%s\" has group or world access", steno_signing_key_file),
				 errdetail("File must have permissions u=rw (0600) or less if owned by the database user, or permissions u=rw,g=r (0640) or less if owned by root."),
				 errhint("Change its permissions with \"chmod 0600\"; if others may have read it, make a new key with \"steno keygen\".")));
	else
	{
		*size = st.st_size;
		return true;
	}
	return false;
}

/*
 * Decode a private key in PEM, PKCS #8, in place.  The caller wipes pem and private_key.
 * OpenSSL's own readers of PEM are not used: they leave copies in the heap, which every
 * process would inherit from the postmaster.
 */
static bool
parse_key(char *pem, size_t len, uint8 private_key[STENO_SEAL_KEY_SIZE], int elevel)
{
	static const char begin[] = "-----BEGIN PRIVATE KEY-----";
	const unsigned char *octets = NULL;
	const unsigned char *der;
	const ASN1_OBJECT *algorithm = NULL;
	PKCS8_PRIV_KEY_INFO *info = NULL;
	char	   *from;
	char	   *end;
	char	   *to;
	int			octets_len = 0;
	int			n = -1;
	bool		ok = false;

	pem[len] = '\0';
	from = strstr(pem, begin);
	end = from ? strstr(from, "-----END PRIVATE KEY-----") : NULL;
	if (end != NULL)
	{
		for (to = from += sizeof(begin) - 1; from < end; from++)
			if (!isspace((unsigned char) *from))
				*to++ = *from;
		from = strstr(pem, begin) + sizeof(begin) - 1;
		/* in place: three bytes are written when four were read */
		n = EVP_DecodeBlock((unsigned char *) from, (unsigned char *) from, (int) (to - from));
	}
	if (n > 0)
	{
		der = (const unsigned char *) from;
		info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &der, n);
	}
	if (info == NULL || PKCS8_pkey_get0(&algorithm, &octets, &octets_len, NULL, info) != 1)
		ereport(elevel,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("signing key file \"%s\" has no private key that can be read", steno_signing_key_file),
				 errdetail("It must be an Ed25519 key in PEM, PKCS #8, without a passphrase."),
				 HINT_NO_KEY));
	/* the key is an octet string inside the octet string */
	else if (OBJ_obj2nid(algorithm) != EVP_PKEY_ED25519 || octets_len != 2 + STENO_SEAL_KEY_SIZE ||
			 octets[0] != V_ASN1_OCTET_STRING || octets[1] != STENO_SEAL_KEY_SIZE)
		ereport(elevel,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("key in signing key file \"%s\" is of type %s, not Ed25519",
						steno_signing_key_file, OBJ_nid2sn(OBJ_obj2nid(algorithm))),
				 HINT_NO_KEY));
	else
	{
		memcpy(private_key, octets + 2, STENO_SEAL_KEY_SIZE);
		ok = true;
	}
	PKCS8_PRIV_KEY_INFO_free(info);
	ERR_clear_error();
	return ok;
}

static bool
read_whole(int fd, char *to, size_t size, size_t *len)
{
	*len = 0;
	while (*len < size)
	{
		ssize_t		n = read(fd, to + *len, size - *len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (n == 0)
			break;
		*len += n;
	}
	return true;
}

/* Read the key that the setting names.  False if that fails, which is reported. */
static bool
read_key(uint8 private_key[STENO_SEAL_KEY_SIZE], int elevel)
{
	int			fd = open(steno_signing_key_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool		ok = false;
	off_t		size;
	size_t		len;
	char	   *pem;

	if (fd < 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not open signing key file \"%s\": %m", steno_signing_key_file),
				 HINT_NO_KEY));
		return false;
	}
	if (check_key_file(fd, elevel, &size))
	{
		pem = palloc(size + 1);
		if (read_whole(fd, pem, size, &len))
			ok = parse_key(pem, len, private_key, elevel);
		else
			ereport(elevel,
					(errcode_for_file_access(),
					 errmsg("could not read signing key file \"%s\": %m", steno_signing_key_file),
					 HINT_NO_KEY));
		OPENSSL_cleanse(pem, size + 1);
		pfree(pem);
	}
	close(fd);
	return ok;
}

/* The same, as an object of OpenSSL that the caller owns; NULL if that fails. */
static EVP_PKEY *
load_key(int elevel)
{
	uint8		private_key[STENO_SEAL_KEY_SIZE];
	EVP_PKEY   *pkey = NULL;

	if (!read_key(private_key, elevel))
		return NULL;
	pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, sizeof(private_key));
	OPENSSL_cleanse(private_key, sizeof(private_key));
	if (pkey == NULL)
		ereport(elevel,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not use the key in signing key file \"%s\"", steno_signing_key_file)));
	return pkey;
}

/* In the postmaster: the server does not start if the key that the settings ask for is missing. */
void
steno_seal_check_key(void)
{
	uint8		private_key[STENO_SEAL_KEY_SIZE];

	if (steno_signing_key_file[0] == '\0')
		return;
	read_key(private_key, FATAL);
	OPENSSL_cleanse(private_key, sizeof(private_key));
}

/* Use this key from now on; NULL: make no seals. */
static void
use_key(EVP_PKEY *pkey)
{
	EVP_PKEY_free(key);
	key = pkey;
	if (key && steno_key_public(key, public_key))
		steno_seal_key_id(public_key, key_id);
}

/* ---- seals ---- */

static void
forget_open_seals(void)
{
	while (open_count > 0)
		EVP_PKEY_free(open_seals[--open_count].key);
}

static void
remember_open_seal(const StenoSeal *seal)
{
	if (open_count == MOST_OPEN || EVP_PKEY_up_ref(key) != 1)
		return;
	open_seals[open_count].seal = *seal;
	open_seals[open_count++].key = key;
}

/* A seal of the last block, without its hash. */
static void
describe_seal(const StenoWriter *w, StenoSeal *seal, const char *reason)
{
	*seal = (StenoSeal) {
		.system_identifier = w->stream.system_identifier,
		.stream = w->stream.number,
		.interval = (uint32) steno_seal_interval,
		.segment = w->stream.segment,
		.block = w->stream.next_block - 1,
		.record = w->stream.next_record - 1,
		.first = first_block,
		.time = GetCurrentTimestamp(),
		.reason = reason,
	};
}

/*
 * Put a seal of the last block into the open one, which contains nothing but seals.
 * The seal is written with that block.  False if it could not be made, which is
 * logged once.
 */
static bool
put_seal(StenoWriter *w, const char *reason, const uint8 *next_key)
{
	union
	{
		uint64		aligned;
		uint8		bytes[STENO_SEAL_ROOM];
	}			buf;
	StenoSeal	seal;
	const StenoMessage *m = NULL;

	describe_seal(w, &seal, reason);
	if (next_key)
		memcpy(seal.next_key, next_key, STENO_SEAL_KEY_SIZE);
	if (steno_stream_last_hash(&w->stream, seal.hash))
		m = steno_seal_message(buf.bytes, &seal, key, w->self.seq + 1);
	/* set even if signing fails, so that it is not tried again with every block */
	sealed_at = seal.time;
	if (m == NULL)
	{
		if (!refused)
			ereport(WARNING,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("steno writer %d could not seal block %llu of its stream", w->number,
							(unsigned long long) seal.block),
					 errdetail("Records are written as before; \"steno verify\" will miss the seal.")));
		refused = true;
		steno_health_set_problem(w, STENO_PROBLEM_SEAL, true);
		return false;
	}
	refused = false;
	steno_health_set_problem(w, STENO_PROBLEM_SEAL, false);
	if (alone == 0)
		seq_before = w->self.seq;
	steno_writer_add(w, &w->self, m);
	remember_open_seal(&seal);
	moved = requested = false;
	alone = steno_block_bytes(w->block);
	promised = steno_seal_interval;
	unsealed = false;
	written = atomic_load(&steno_control->written);
	return true;
}

static bool
is_seal_due(const StenoWriter *w)
{
	TimestampTz now;

	if (key == NULL || w->stream.next_block == 1 ||
		(!unsealed && written == atomic_load(&steno_control->written)))
		return false;
	now = GetCurrentTimestamp();
	return moved || requested || sealed_at == 0 || now < sealed_at ||
		(steno_seal_interval > 0 && now - sealed_at >= steno_seal_interval * USECS_PER_SEC);
}

/*
 * A block with this many bytes before compression was written, and the next one is
 * empty.  A block that contains only seals need not be sealed itself: otherwise
 * seals would follow seals forever.
 */
void
steno_seal_block_written(StenoWriter *w, uint32 bytes)
{
	if (bytes != alone)
	{
		unsealed = true;
		atomic_fetch_add(&steno_control->written, 1);
	}
	alone = 0;
	forget_open_seals();
	if (is_seal_due(w))
		put_seal(w, moved ? "start" : "interval", NULL);
}

/* Remove the seals from the open block if it contains nothing else: another seal replaces them. */
static void
withdraw_open_seals(StenoWriter *w)
{
	if (alone == 0 || steno_block_bytes(w->block) != alone)
		return;
	steno_block_reset(w->block);
	forget_open_seals();
	w->self.seq = seq_before;
	alone = 0;
	unsealed = true;
}

/* Whether the open block contains nothing but seals. */
bool
steno_seal_is_alone(const StenoWriter *w)
{
	return alone != 0 && steno_block_bytes(w->block) == alone;
}

/* In a block that is written before the open one: put a seal of what precedes it, if one is due. */
void
steno_seal_put_aside(StenoWriter *w)
{
	union
	{
		uint64		aligned;
		uint8		bytes[STENO_SEAL_ROOM];
	}			buf;
	StenoSeal	seal;
	const StenoMessage *m = NULL;

	if (open_count > 0 || !is_seal_due(w))
		return;
	describe_seal(w, &seal, moved ? "start" : "interval");
	if (steno_stream_last_hash(&w->stream, seal.hash))
		m = steno_seal_message(buf.bytes, &seal, key, w->self.seq + 1);
	if (m == NULL)
		return;
	steno_writer_add(w, &w->self, m);
	sealed_at = seal.time;
	promised = steno_seal_interval;
	written = atomic_load(&steno_control->written);
	moved = false;
}

/*
 * Replace the seals in the open block by those of the block before it; false if they
 * have other lengths.  only_look: find out whether they will, when one more block of a
 * few records is there.
 */
static bool
move_open_seals(StenoWriter *w, bool only_look)
{
	union
	{
		uint64		aligned;
		uint8		bytes[STENO_SEAL_ROOM];
	}			before,
				after;
	int			i;

	for (i = 0; i < open_count; i++)
	{
		StenoSeal	seal = open_seals[i].seal;
		const StenoRecordMessage *a;
		const StenoRecordMessage *b;

		a = (const StenoRecordMessage *) steno_seal_message(before.bytes, &seal, open_seals[i].key, 1);
		seal.block = w->stream.next_block - (only_look ? 0 : 1);
		seal.record = w->stream.next_record - 1 + (only_look ? STENO_MAX_WRITERS + 1 : 0);
		if (!only_look && !steno_stream_last_hash(&w->stream, seal.hash))
			return false;
		b = (const StenoRecordMessage *) steno_seal_message(after.bytes, &seal, open_seals[i].key, 1);
		if (a == NULL || b == NULL || a->extra_len != b->extra_len)
			return false;
		if (only_look)
			continue;
		if (!steno_block_replace(w->block, a + 1, b + 1, a->extra_len))
			return false;
		open_seals[i].seal = seal;
	}
	return true;
}

/* Whether the seals in the open block can be changed to be about another block. */
bool
steno_seal_may_follow(StenoWriter *w)
{
	return move_open_seals(w, true);
}

/* A block was written before the open one: seals there must be about it. */
void
steno_seal_block_inserted(StenoWriter *w)
{
	unsealed = key != NULL;
	if (!move_open_seals(w, false))
		ereport(WARNING,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("steno writer %d could not seal block %llu of its stream", w->number,
						(unsigned long long) w->stream.next_block - 1),
				 errdetail("Its seal is of another block; \"steno verify\" will say that it is wrong.")));
}

/*
 * Write the open block, and put a seal of everything into the next block, which is
 * not written yet.  If everything is sealed already, do so only if "again" is set.
 * Returns false if the writer is to exit and cannot write.
 */
static bool
seal_now(StenoWriter *w, const char *reason, const uint8 *next_key, bool again)
{
	if (key == NULL)
		return true;
	withdraw_open_seals(w);
	if (!steno_writer_write(w))
		return false;
	/* the write may have added a seal that was due */
	withdraw_open_seals(w);
	if (w->stream.next_block > 1 && (unsealed || again))
		put_seal(w, reason, next_key);
	return true;
}

/* At the beginning of a pass. */
void
steno_seal_if_due(StenoWriter *w)
{
	/* otherwise the open block is written first, and steno_seal_block_written checks again */
	if (steno_block_bytes(w->block) == 0 && is_seal_due(w))
		put_seal(w, moved ? "start" : "interval", NULL);
}

/*
 * The stream must continue in another segment, and the previous one does not end
 * with a seal.  For readers, that is the beginning of a run, so the next seal has
 * the reason "start".  Seals in the open block are signed again, in place, with the
 * new segment.
 */
void
steno_seal_segment_replaced(StenoWriter *w)
{
	int			i;

	first_block = w->stream.next_block;
	moved = unsealed = key != NULL;
	for (i = 0; i < open_count; i++)
	{
		char		before[STENO_SIGNATURE_DIGITS + 1];
		char		after[STENO_SIGNATURE_DIGITS + 1];
		StenoSeal  *seal = &open_seals[i].seal;
		bool		ok = steno_seal_signature(seal, open_seals[i].key, before);

		seal->segment = w->stream.segment;
		if (!ok || !steno_seal_signature(seal, open_seals[i].key, after) ||
			!steno_block_replace(w->block, before, after, STENO_SIGNATURE_DIGITS))
			ereport(WARNING,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("steno writer %d could not seal block %llu of its stream", w->number,
							(unsigned long long) seal->block),
					 errdetail("Its seal is of another segment; \"steno verify\" will say that it is wrong.")));
	}
}

bool
steno_seal_segment(StenoWriter *w)
{
	return seal_now(w, "segment", NULL, false) && steno_writer_write(w);
}

bool
steno_seal_stop(StenoWriter *w)
{
	return seal_now(w, "stop", NULL, true) && steno_writer_write(w);
}

/* The stream was opened: seal what was found there. */
bool
steno_seal_start(StenoWriter *w)
{
	first_block = w->stream.next_block;
	if (steno_signing_key_file[0] == '\0')
		return true;
	use_key(load_key(WARNING));
	steno_health_set_problem(w, STENO_PROBLEM_SIGNING, key == NULL);
	if (key == NULL)
	{
		ereport(WARNING,
				(errmsg("steno writer %d makes no seals", w->number),
				 errhint("Correct the key, and reload the configuration.")));
		return true;
	}
	return seal_now(w, "start", NULL, true) && steno_writer_write(w);
}

/*
 * A stream without blocks cannot have a seal, and a proof cannot tell it from one that was
 * removed.  That of writer 0 begins with the start of the server.
 */
void
steno_seal_begin_stream(StenoWriter *w)
{
	char		number[12];

	if (key == NULL || w->number == 0 || w->stream.next_block > 1 || steno_block_bytes(w->block) > 0)
		return;
	snprintf(number, sizeof(number), "%d", w->number);
	steno_writer_event(w, "begin", "writer", number);
}

/*
 * Change the key.  The last seal by the old key names the new one, so readers that
 * trust the old key can trust what follows.
 */
static bool
change_key(StenoWriter *w, EVP_PKEY *pkey, const uint8 *raw)
{
	char		before[STENO_SEAL_KEY_ID];

	strlcpy(before, key ? key_id : "none", sizeof(before));
	if (!seal_now(w, pkey ? "key" : "end", pkey ? raw : NULL, true))
	{
		EVP_PKEY_free(pkey);
		return false;
	}
	use_key(pkey);
	unsealed = true;
	/* the first seal of the new key is about the same block as the last one of the old */
	if (pkey && w->stream.next_block > 1 && steno_block_bytes(w->block) == alone)
		put_seal(w, "start", NULL);
	ereport(LOG,
			(errmsg("steno writer %d seals with key %s, after %s", w->number, pkey ? key_id : "none", before)));
	return steno_writer_write(w);
}

/*
 * Seal what was written, at once: readers cannot trust the record of a deletion before it
 * is sealed.  Returns false if the writer is to exit and cannot write.
 */
bool
steno_seal_at_once(StenoWriter *w)
{
	return seal_now(w, moved ? "start" : "interval", NULL, false) && steno_writer_write(w);
}

/* The same, but behind the open block, which cannot be written now. */
void
steno_seal_request(void)
{
	requested = key != NULL;
}

/* The configuration was reloaded: the key or the interval may have changed. */
bool
steno_seal_reload(StenoWriter *w)
{
	EVP_PKEY   *pkey = NULL;
	uint8		raw[STENO_SEAL_KEY_SIZE];

	if (steno_signing_key_file[0] != '\0')
	{
		pkey = load_key(WARNING);
		if (pkey == NULL || !steno_key_public(pkey, raw))
		{
			EVP_PKEY_free(pkey);
			steno_health_set_problem(w, STENO_PROBLEM_SIGNING, true);
			ereport(WARNING,
					(errmsg("steno writer %d goes on with %s", w->number,
							key ? "the signing key that it has" : "no signing key")));
			return true;
		}
	}
	steno_health_set_problem(w, STENO_PROBLEM_SIGNING, false);
	if (pkey == NULL ? key != NULL : key == NULL || memcmp(raw, public_key, sizeof(raw)) != 0)
		return change_key(w, pkey, raw);
	EVP_PKEY_free(pkey);
	if (key && promised != steno_seal_interval)
		return seal_now(w, "interval", NULL, true) && steno_writer_write(w);
	return true;
}
