/*
 * extension/error/origin.h
 *		Which part of the server has raised an error.
 *
 * SQLSTATEs do not always tell: a timeout, a user's cancel and a query that cancels itself have the same one, and so
 * have a grammar that refuses a text and an analysis that does.  The place in the server's source, which each error
 * has, does.  It is not part of any interface, so all rules that depend on it are here, and
 * t/errors_have_their_origin.pl raises an error for each of them and compares it with the LOCATION that the server
 * itself reports.
 */
#ifndef STENO_ORIGIN_H
#define STENO_ORIGIN_H

#include "utils/elog.h"

#pragma GCC visibility push(hidden)

extern bool steno_error_interrupts(const ErrorData *edata);
extern bool steno_error_of_grammar(const ErrorData *edata);
extern bool steno_error_of_several_statements(const ErrorData *edata);
extern bool steno_error_before_execution(const ErrorData *edata);
extern bool steno_error_of_fetch(const ErrorData *edata);
extern bool steno_main_loop_handles_error(void);

#pragma GCC visibility pop

#endif							/* STENO_ORIGIN_H */
