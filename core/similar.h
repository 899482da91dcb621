/*
 * core/similar.h
 *		Whether texts are the same, and what they have in common at their ends.
 */
#ifndef STENO_SIMILAR_H
#define STENO_SIMILAR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* How many bytes both begin with, at most n. */
static inline uint32_t
steno_common_begin(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint32_t	i = 0;

	while (i + 8 <= n && memcmp(a + i, b + i, 8) == 0)
		i += 8;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/* How many bytes both end with, at most n. */
static inline uint32_t
steno_common_end(const uint8_t *a_end, const uint8_t *b_end, uint32_t n)
{
	uint32_t	i = 0;

	while (i < n && a_end[-1 - (int64_t) i] == b_end[-1 - (int64_t) i])
		i++;
	return i;
}

/*
 * Whether a byte may be in the middle of a number or a name.  Where texts are likely to differ next
 * time, such words are not divided.
 */
static inline bool
steno_is_inside_word(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c >= 0x80;
}

/*
 * Compare and copy bytes, mostly few.  The C library's functions are faster with many, but stand, with their
 * addresses, in pages that nothing else on the path of a statement needs.
 */
static inline bool
steno_is_same(const void *a, const void *b, uint64_t n)
{
	const uint8_t *p = a;
	const uint8_t *q = b;
	uint64_t	i;

	for (i = 0; i + 8 <= n; i += 8)
	{
		uint64_t	x;
		uint64_t	y;

		memcpy(&x, p + i, 8);
		memcpy(&y, q + i, 8);
		if (x != y)
			return false;
	}
	for (; i < n; i++)
		if (p[i] != q[i])
			return false;
	return true;
}

static inline void
steno_copy_short(uint8_t *to, const void *from, uint64_t n)
{
	const uint8_t *p = from;
	uint64_t	i;

	for (i = 0; i + 8 <= n; i += 8)
		memcpy(to + i, p + i, 8);
	for (; i < n; i++)
		to[i] = p[i];
}

#endif							/* STENO_SIMILAR_H */
