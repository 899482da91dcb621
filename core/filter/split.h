/*
 * core/filter/split.h
 *		One statement of a string of several, by the lexical rules of SQL alone.
 *
 * Needed where the server's parser cannot help: of a statement that fails before it
 * runs, or is refused.  Nothing here fails, allocates, or reads outside of the
 * string, whatever it is.
 */
#ifndef STENO_SPLIT_H
#define STENO_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

/* Any place of the string: the first statement is wanted. */
#define STENO_SPLIT_FIRST ((size_t) -1)

/*
 * The statement that the byte at position is in, from the beginning of a statement on
 * that is known, or else the first statement there.  Given without the blanks and the
 * semicolon around it, as [*begin, *end).  When nothing but blanks and semicolons
 * follows, it is the whole string.  standard_strings is the session's
 * standard_conforming_strings.
 */
extern void steno_split_at(const char *string, size_t len, bool standard_strings,
						   size_t from, size_t position, size_t *begin, size_t *end);

/*
 * Where the text of the statement begins whose first token is at the given place: behind the
 * semicolon and the blanks that precede its comments, which belong to it.  from: no later than
 * the semicolon before it, and in no token; the string is read from there when what precedes
 * the token may be a comment.  It is the token's own place, too, when that is inside a statement.
 */
extern size_t steno_split_begin(const char *string, bool standard_strings, size_t from, size_t token);

#endif							/* STENO_SPLIT_H */
