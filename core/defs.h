/*
 * core/defs.h
 *		The numbers of format/records.def as C enums, and the sizes that the
 *		trail format fixes.
 *
 * core/ is plain C11 and independent of the server.
 */
#ifndef STENO_DEFS_H
#define STENO_DEFS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pg_steno needs a little-endian machine: rings are written in the machine's byte order, and read as little-endian"
#endif

/*
 * A condition that hardly ever holds.  What it guards stands apart from the rest of the function, in no page and
 * no cache line that is touched usually.
 */
#if defined(__GNUC__) && __GNUC__ >= 9
#define STENO_RARELY(x) __builtin_expect_with_probability((x) != 0, 0, 1.0)
#else
#define STENO_RARELY(x) __builtin_expect((x) != 0, 0)
#endif

#define STENO_FORMAT_VERSION 1
#define STENO_SEGMENT_MAGIC "STENOSEG"
#define STENO_SEGMENT_HEADER 128
#define STENO_SEGMENT_HEADER_ENCRYPTED 208
#define STENO_BLOCK_MAGIC "SBLK"
#define STENO_BLOCK_HEADER 112
#define STENO_HASH_SIZE 32
#define STENO_MAX_RAW (16u * 1024 * 1024)

/* How many bytes the variants of a block's texts have together. */
#define STENO_VARIANTS_MAX (4u * 1024 * 1024)

/* Maximum number of a statement's parameters in PostgreSQL's protocol. */
#define STENO_MAX_PARAMS 65535

/* Flag of the representation in a list of parameters: the value is NULL. */
#define STENO_LISTED_NULL 0x80

enum
{
#define STENO_KIND(n, id, name, doc) STENO_KIND_##id = n,
#define STENO_FIELD(n, id, name, doc) STENO_FIELD_##id = 1 << n,
#define STENO_OUTCOME(n, id, name, doc) STENO_OUTCOME_##id = n,
#define STENO_EVENT(n, id, name, doc) STENO_EVENT_##id = n,
#define STENO_CLASS(n, id, name, doc) STENO_CLASS_##id = n,
#define STENO_SESSION_KEY(n, id, name, doc) STENO_SESSION_##id = n,
#define STENO_ACCESS(n, id, name, doc) STENO_ACCESS_##id = 1 << n,
#define STENO_RELTYPE(n, id, name, doc) STENO_RELTYPE_##id = n,
#define STENO_AUDITED(n, id, name, doc) STENO_AUDITED_##id = 1 << n,
#define STENO_ACTION(n, id, name, doc) STENO_ACTION_##id = n,
#define STENO_LIST(n, id, name, doc) STENO_LIST_##id = n,
#define STENO_TERMS(n, id, name, doc) STENO_TERMS_##id = n,
#define STENO_REPR(n, id, name, doc) STENO_REPR_##id = n,
#define STENO_CODEC(n, id, name, doc) STENO_CODEC_##id = n,
#include "../format/records.def"
#undef STENO_KIND
#undef STENO_FIELD
#undef STENO_OUTCOME
#undef STENO_EVENT
#undef STENO_CLASS
#undef STENO_SESSION_KEY
#undef STENO_ACCESS
#undef STENO_RELTYPE
#undef STENO_AUDITED
#undef STENO_ACTION
#undef STENO_LIST
#undef STENO_TERMS
#undef STENO_REPR
#undef STENO_CODEC
};

/* The string that a data part belongs to. */
enum
{
	STENO_PART_TEXT = 0,
	STENO_PART_VALUES = 1,
	STENO_PART_MESSAGE = 2,
	STENO_PARTS = 3
};

/* Relations and objects behind the values of a record. */
enum
{
	STENO_FURTHER_RELATION = 1,
	STENO_FURTHER_OBJECT = 2,
	STENO_FURTHER_VIA = 3,
	STENO_FURTHER_KINDS
};

#endif							/* STENO_DEFS_H */
