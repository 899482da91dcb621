/*
 * extension/written/written.h
 *		Relations that a statement names, as its raw parse tree has them.
 */
#ifndef STENO_WRITTEN_H
#define STENO_WRITTEN_H

#include "nodes/parsenodes.h"

#include "describe/shape.h"

#pragma GCC visibility push(hidden)

/*
 * Find them in a statement, which may be a query or a utility statement.  The names belong to the tree.  Looks nothing
 * up, and allocates nothing.
 */
extern void steno_written_find(StenoWritten *written, Node *statement);

#pragma GCC visibility pop

#endif							/* STENO_WRITTEN_H */
