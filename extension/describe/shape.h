/*
 * extension/describe/shape.h
 *		Shapes: what a statement is, without its text and values.
 */
#ifndef STENO_SHAPE_H
#define STENO_SHAPE_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern int	steno_class_of_utility(Node *statement);

#pragma GCC visibility pop

#endif							/* STENO_SHAPE_H */
