/*
 * extension/sql/status.h
 *		How it goes with a writer, as the views show it.
 */
#ifndef STENO_STATUS_H
#define STENO_STATUS_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_begin_rows(FunctionCallInfo fcinfo, int columns);
extern int	steno_health_columns(int number, Datum *values, bool *nulls, int n);

#pragma GCC visibility pop

#endif							/* STENO_STATUS_H */
