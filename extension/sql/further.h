/*
 * extension/sql/further.h
 *		Relations and objects that stand behind the values of a record.
 */
#ifndef STENO_SQL_FURTHER_H
#define STENO_SQL_FURTHER_H

#include "base/steno.h"

#include "trail/decode.h"

#pragma GCC visibility push(hidden)

/* The name of the pair that says how many bytes these are. */
#define STENO_FURTHER_NAME "further_bytes"

/* Whether the record has more relations and objects than its shape. */
extern bool steno_further_follows(const StenoTrailRecord *r);

/*
 * The values of the record are joined: make its shape one that has all relations and objects, in the current
 * memory context.  What cannot be read leaves the record as it is.
 */
extern void steno_further_take(StenoTrailRecord *r);

#pragma GCC visibility pop

#endif							/* STENO_SQL_FURTHER_H */
