/*
 * core/codec.h
 *		The parts of records, in rings and in blocks: varints, byte strings, shapes,
 *		relations, objects, parameters, values.
 *
 * Writing functions rely on the caller for enough space.  Reading functions do not
 * trust their input: each takes what it reads off the front of *in, returns false
 * if *in is too short, and reads only bytes of *in.  Strings that it returns point
 * into them.
 */
#ifndef STENO_CODEC_H
#define STENO_CODEC_H

#include <stdbool.h>

#include "defs.h"

/* Bytes that are owned elsewhere; p is undefined if len is 0. */
typedef struct StenoBytes
{
	const uint8_t *p;
	uint64_t	len;
} StenoBytes;

/* ---- writing ---- */

/* Length of the longest varint: 64 bits in groups of 7. */
#define STENO_VARINT_MAX 10

/* Write v at p; returns the byte after it. */
static inline uint8_t *
steno_put_varint(uint8_t *p, uint64_t v)
{
	while (v >= 0x80)
	{
		*p++ = (uint8_t) (v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t) v;
	return p;
}

/* Write the length of a string and its bytes. */
static inline uint8_t *
steno_put_string(uint8_t *p, const char *s)
{
	size_t		len = strlen(s);

	p = steno_put_varint(p, len);
	memcpy(p, s, len);
	return p + len;
}

/* Write a name and a value, as they are in the extra string of a record. */
static inline uint8_t *
steno_put_pair(uint8_t *p, const char *name, const char *value)
{
	return steno_put_string(steno_put_string(p, name), value);
}

/* Number of bytes that steno_put_varint(v) writes. */
static inline uint32_t
steno_varint_size(uint64_t v)
{
	uint32_t	n = 1;

	while (v >= 0x80)
	{
		v >>= 7;
		n++;
	}
	return n;
}

/* Encode 0, -1, 1, -2 ... as 0, 1, 2, 3 ... */
static inline uint64_t
steno_zigzag(int64_t v)
{
	return ((uint64_t) v << 1) ^ (uint64_t) (v >> 63);
}

/* ---- reading ---- */

extern bool steno_take_byte(StenoBytes *in, uint8_t *byte);
extern bool steno_take_varint(StenoBytes *in, uint64_t *v);

/* Take a number that was encoded by steno_zigzag(). */
extern bool steno_take_signed(StenoBytes *in, int64_t *v);
extern bool steno_take_bytes(StenoBytes *in, uint64_t len, StenoBytes *out);
extern bool steno_take_string(StenoBytes *in, StenoBytes *out);

/*
 * The shape that has nothing but a class, of each class: no query identifier, command tag, relations and
 * parameters.  That of class 0 has no class either.
 */
#define STENO_BARE_SHAPE 5
#define STENO_CLASSES 12

extern const uint8_t steno_bare_shapes[STENO_CLASSES][STENO_BARE_SHAPE] __attribute__((visibility("hidden")));

/*
 * The parts of a shape: the head, nrelations relations, a count and that many
 * parameters, and, unless it ends there, a count and that many objects.
 */
extern bool steno_take_shape_head(StenoBytes *in, uint64_t *class, uint64_t *query_id,
								  StenoBytes *tag, uint64_t *nrelations);
extern bool steno_take_relation(StenoBytes *in, uint8_t *type, uint64_t *access, StenoBytes *name);
extern bool steno_take_param(StenoBytes *in, uint64_t *type, uint8_t *repr);

/*
 * A list of parameters, which is the value of the only parameter of its shape:
 * their number, and each of them.  A NULL has no value.
 */
extern bool steno_take_list(StenoBytes *in, uint64_t *n);
extern bool steno_take_listed(StenoBytes *in, uint64_t *type, uint8_t *repr, bool *null);
extern bool steno_take_object(StenoBytes *in, uint8_t *action, StenoBytes *type, StenoBytes *name,
							  StenoBytes *to);

/* Take one value of this representation; also false if the representation is unknown. */
extern bool steno_take_value(StenoBytes *in, uint8_t repr, StenoBytes *value);

#endif							/* STENO_CODEC_H */
