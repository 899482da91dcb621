/*
 * core/test/golden.h
 *		The golden trails of format/golden: how they are made, and the text that
 *		says what a reader must find in them.
 */
#ifndef STENO_GOLDEN_H
#define STENO_GOLDEN_H

#include <stdio.h>

/* Make all golden trails and their .expected files in this folder. */
extern void golden_make(const char *folder);

/* Write what is in a trail, one record a line, as README.md there says. */
extern void expected_write(FILE *out, const char *trail);

#endif							/* STENO_GOLDEN_H */
