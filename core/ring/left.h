/*
 * core/ring/left.h
 *		The memory of a ring file that a dead server has left.
 *
 * Most of it holds nothing: what the writers had freed, and the templates and chunks
 * to which no message refers any more.  The server that starts needs that memory for
 * its own rings, before a writer can drain the file and remove it.
 */
#ifndef STENO_LEFT_H
#define STENO_LEFT_H

#include "ring/ring.h"

/*
 * Give the memory that recovery does not need back to the file system.  The file
 * keeps its length, and reads as zeros there.  Does nothing in file systems that
 * cannot do that.
 */
extern void steno_rings_shrink(const StenoRings *rings);

/* What a file with so many rings keeps if they are drained: its headers. */
extern uint64_t steno_rings_shrunk(uint32_t nrings);

#endif							/* STENO_LEFT_H */
