/*
 * extension/base/handled.h
 *		The error that the server is handling while we record it.
 *
 * The server keeps the errors that are being handled on a stack: one that is reported to the
 * log or was caught is still there, and whoever reports it or throws it again needs it.
 * FlushErrorState(), with which the error of what we call ourselves is forgotten, empties
 * the whole stack.  So whoever records while an error is being handled sets it here, and
 * whoever forgets an error uses steno_forget_error(), which puts this one back.
 */
#ifndef STENO_HANDLED_H
#define STENO_HANDLED_H

#include "base/local.h"

#pragma GCC visibility push(hidden)

/* A copy that outlives what is called meanwhile; NULL: none. */
extern ErrorData *steno_handled;

extern void steno_forget_error(void);

#pragma GCC visibility pop

#endif							/* STENO_HANDLED_H */
