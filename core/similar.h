/*
 * core/similar.h
 *		What two texts have in common at their ends.
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

#endif							/* STENO_SIMILAR_H */
