/*
 * extension/describe/shape.h
 *		Shapes: what a statement is and does, without its text and the values of its
 *		parameters.  Statements that differ in these alone have the same shape, and
 *		a block of the trail has it once.
 */
#ifndef STENO_SHAPE_H
#define STENO_SHAPE_H

#include "base/facts.h"
#include "describe/object.h"
#include "describe/param.h"
#include "describe/relation.h"

#pragma GCC visibility push(hidden)

/*
 * What a shape is made from; what is 0 or NULL, it does not have.  On the stack of whoever
 * makes the record, and owns nothing: relations, params and objects are only read.
 */
typedef struct StenoShape
{
	int			class;			/* STENO_CLASS_* */
	uint64		query_id;
	const char *command;		/* tag; NULL: SELECT */
	const StenoAccess *relations;
	int			count;			/* of relations */
	ParamListInfo params;
	bool		failing;		/* we are handling an error: values are taken without the server's help */
	StenoObjects *objects;
} StenoShape;

/*
 * The shape is the one part of a record that cannot go in parts: what does not
 * fit three quarters of a message is left out, and the record says how much.
 * Types of parameters come first, but leave room for a few relations.
 */
#define STENO_SHAPE_LIMIT (steno_my.producer.max_message / 4 * 3)

/* ---- shape.c ---- */

/*
 * Give a record its shape, and its parameters, for which values has room; NULL when
 * what says that there are none.  The shape is valid until the next one is encoded.
 */
extern void steno_encode_shape(StenoRecord *record, const StenoShape *what, StenoParams *values);
extern void steno_record_add_omitted(StenoRecord *record, const char *name, int count);

/* ---- class.c ---- */

extern int	steno_class_of_utility(Node *statement);

#pragma GCC visibility pop

#endif							/* STENO_SHAPE_H */
