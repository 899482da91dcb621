/*
 * extension/value/output.h
 *		What of a value can only be had by code that may fail.
 */
#ifndef STENO_OUTPUT_H
#define STENO_OUTPUT_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_output_starting(SubTransactionId subid);
extern char *steno_output_text(Oid type, Datum value, bool *varlena);
extern struct varlena *steno_output_detoast(struct varlena *v);

#pragma GCC visibility pop

#endif							/* STENO_OUTPUT_H */
