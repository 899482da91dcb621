/*
 * core/scan.h
 *		Parses words, numbers and hexadecimal digits of small text files.  Each
 *		function advances *p past what it reads.
 */
#ifndef STENO_SCAN_H
#define STENO_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool
steno_scan_word(const char **p, const char *end, const char *word)
{
	size_t		len = strlen(word);

	if ((size_t) (end - *p) < len || memcmp(*p, word, len) != 0)
		return false;
	*p += len;
	return true;
}

/* A decimal number without sign and leading zeros. */
static inline bool
steno_scan_number(const char **p, const char *end, uint64_t most, uint64_t *number)
{
	const char *start = *p;
	uint64_t	n = 0;

	while (*p < end && **p >= '0' && **p <= '9')
	{
		uint64_t	digit = (uint64_t) (**p - '0');

		if (digit > most || n > (most - digit) / 10)
			return false;
		n = n * 10 + digit;
		(*p)++;
	}
	*number = n;
	return *p > start && (*start != '0' || *p == start + 1);
}

/* Bytes in lower-case hexadecimal digits. */
static inline bool
steno_scan_hex(const char **p, const char *end, uint8_t *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t		i;

	if ((size_t) (end - *p) < 2 * len)
		return false;
	for (i = 0; i < 2 * len; i++)
	{
		const char *digit = memchr(digits, (*p)[i], 16);

		if (digit == NULL)
			return false;
		bytes[i / 2] = (uint8_t) (i % 2 == 0 ? (digit - digits) << 4 : bytes[i / 2] | (digit - digits));
	}
	*p += 2 * len;
	return true;
}

/* Write the digits of len bytes, and a terminating zero. */
static inline void
steno_put_hex(char *text, const uint8_t *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t		i;

	for (i = 0; i < len; i++)
	{
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * len] = '\0';
}

#endif							/* STENO_SCAN_H */
