/*
 * extension/written/written.h
 *		Relations that a statement names, as its raw parse tree has them.
 *
 *		written.c			names in a parse tree
 *		text.c				names in a text
 *		planned.c			whether a query has others, when the planner has failed
 *		path.c				schemas of names that are written without one
 */
#ifndef STENO_WRITTEN_H
#define STENO_WRITTEN_H

#include "nodes/parsenodes.h"

#include "describe/shape.h"

#pragma GCC visibility push(hidden)

/* ---- written.c ---- */

/*
 * Add those of a statement, which may be a query or a utility statement.  The names belong to the tree.  Looks nothing
 * up, and allocates nothing.  Raises an error if the tree is not one that the grammar makes.
 */
extern void steno_written_add(StenoWritten *written, Node *statement);

/* ---- text.c ---- */

/*
 * While an error is being handled: these raise no other, but if there is no memory.  Names in a text are in the
 * current memory context.
 */
extern void steno_written_in_tree(StenoWritten *written, Node *tree);
extern bool steno_written_in_text(StenoWritten *written, const char *text, uint64 len, bool in_function, int at);
extern void steno_written_in_failed(StenoWritten *written, const char *text, uint64 len, bool in_function, int at,
									bool by_grammar);

/* ---- planned.c ---- */

extern void steno_written_in_query(StenoWritten *written, const Query *query);

/* ---- path.c ---- */

extern void steno_written_add_path(StenoRecord *record, const StenoWritten *written, const char *user);

#pragma GCC visibility pop

#endif							/* STENO_WRITTEN_H */
