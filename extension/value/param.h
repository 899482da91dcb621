/*
 * extension/value/param.h
 *		The parameter values of a statement.
 */
#ifndef STENO_PARAM_H
#define STENO_PARAM_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

#define STENO_FEW_PARAMS 8

/* One value.  data NULL: a NULL. */
typedef struct StenoParam
{
	const uint8 *data;
	uint32		len;
	bool		prefixed;		/* a varint length goes before the data */
} StenoParam;

/*
 * The parameter values of a statement, as they will be encoded.  It is allocated on the
 * stack of the function that makes the record.  It points to itself, to the server's
 * parameters, which remain valid while a hook of the statement is on the stack, or to the
 * memory context of a record.  So nothing in it needs to be freed, and an error leaks
 * nothing.
 */
typedef struct StenoParams
{
	int			count;			/* of values: parameters, NULLs included, or pieces of a list */
	uint32		nulls_len;		/* 0: none is NULL */
	uint64		values_len;		/* encoded */
	uint32		shape_len;		/* of their part of the shape */
	const uint8 *nulls;			/* as they are encoded; NULL: values say which are */
	StenoParam *values;			/* data NULL: a NULL */
	StenoParam	few[STENO_FEW_PARAMS];
	uint64		fixed[STENO_FEW_PARAMS];	/* by-value datums of few */
} StenoParams;

/* Space in the shape for a list of parameters that is stored with the values. */
#define STENO_LIST_SHAPE 3

extern ParamListInfo steno_params_take(ParamListInfo params, int *missing);
extern void steno_params_release(ParamListInfo taken);
extern uint32 steno_many_params_shape_size(ParamListInfo params);
extern uint8 *steno_params_collect_list(ParamListInfo params, bool failing,
										uint8 *shape, StenoParams *result);
extern uint8 *steno_params_collect(ParamListInfo params, bool failing,
								   uint8 *shape, StenoParams *result);
extern uint8 *steno_put_params(uint8 *p, const StenoParams *params, bool values);

/* Maximum space that the parameters need in the shape: it is reserved before they are collected. */
static inline uint32
steno_params_shape_size(ParamListInfo params)
{
	if (unlikely(params->numParams > 64 && params->paramFetch == NULL))
		return steno_many_params_shape_size(params);
	return 5 + params->numParams * 6;
}

#pragma GCC visibility pop

#endif							/* STENO_PARAM_H */
