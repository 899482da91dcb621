/*
 * extension/written/written.h
 *		Relations that a statement names, as its raw parse tree has them.
 *
 *		written.c			names in a parse tree
 *		text.c				names in a text
 *		path.c				schemas of names that are written without one
 */
#ifndef STENO_WRITTEN_H
#define STENO_WRITTEN_H

#include "nodes/parsenodes.h"

#include "describe/shape.h"

#pragma GCC visibility push(hidden)

/* ---- written.c ---- */

/*
 * Find them in a statement, which may be a query or a utility statement.  The names belong to the tree.  Looks nothing
 * up, and allocates nothing.
 */
extern void steno_written_find(StenoWritten *written, Node *statement);
extern void steno_written_add(StenoWritten *written, Node *statement);

/* ---- text.c ---- */

extern bool steno_refused_in_analysis(const ErrorData *edata);

/* The names are in the current memory context.  Raises an error only if there is no memory. */
extern void steno_written_in_text(StenoWritten *written, const char *text, uint64 len, bool in_function, int at);

/* ---- path.c ---- */

extern void steno_written_add_path(StenoRecord *record, const StenoWritten *written, const char *user);

#pragma GCC visibility pop

#endif							/* STENO_WRITTEN_H */
