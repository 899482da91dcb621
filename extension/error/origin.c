/*
 * extension/error/origin.c
 *		Which part of the server has raised an error.
 */
#include "base/steno.h"

#include "tcop/tcopprot.h"

#include "error/origin.h"

#define IS_IN(edata, files) is_in(edata, files, lengthof(files))

static bool
is_in(const ErrorData *edata, const char *const *files, int n)
{
	const char *name = edata->filename;
	const char *slash;
	int			i;

	if (name == NULL)
		return false;
	slash = strrchr(name, '/');
	if (slash)
		name = slash + 1;
	for (i = 0; i < n; i++)
		if (strcmp(name, files[i]) == 0)
			return true;
	return false;
}

static bool
is_by(const ErrorData *edata, const char *function)
{
	return edata->funcname != NULL && strcmp(edata->funcname, function) == 0;
}

/*
 * Whether it is the error of a cancel request, a timeout, a conflict with recovery or the end of the session: the
 * server raises it where a statement checks for interrupts, so it says nothing of what that statement was doing.
 */
bool
steno_error_interrupts(const ErrorData *edata)
{
	return is_by(edata, "ProcessInterrupts");
}

/*
 * Whether the grammar has refused a text, of SQL or PL/pgSQL, so that nothing that it names has been looked up.  The
 * scanner has escapes checked by mbutils.c.
 */
bool
steno_error_of_grammar(const ErrorData *edata)
{
	static const char *const files[] = {"gram.y", "scan.l", "parser.c", "mbutils.c", "pl_gram.y", "pl_scanner.c"};

	return IS_IN(edata, files);
}

/* Whether a Parse message is refused because its text has several statements, which are parsed, and no more. */
bool
steno_error_of_several_statements(const ErrorData *edata)
{
	return edata->sqlerrcode == ERRCODE_SYNTAX_ERROR && is_by(edata, "exec_parse_message");
}

/*
 * Whether an error comes from what the server does with a statement of a function between its analysis and its
 * execution: the rewriter, waits for locks of a plan that is used again, and what refuses to execute it.  A deadlock is
 * not among them: its place says as little of a plan's locks as of a row's, for which a statement waits that runs.
 */
bool
steno_error_before_execution(const ErrorData *edata)
{
	static const char *const files[] = {"postgres.c", "spi.c", "functions.c", "rewriteHandler.c", "plancache.c",
	"lock.c"};
	static const char *const interpreter[] = {"pl_exec.c"};

	if (edata->context == NULL)
		return false;
	if (IS_IN(edata, interpreter))
		return edata->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED || edata->sqlerrcode == ERRCODE_SYNTAX_ERROR ||
			edata->sqlerrcode == ERRCODE_INVALID_CURSOR_DEFINITION;
	return IS_IN(edata, files);
}

/*
 * Whether an error is that of a FETCH or MOVE alone: the server has looked at what it asks for, and at the portal, and
 * has not run the query, which can only go forward.  An error of the query comes from other files of the server.
 */
bool
steno_error_of_fetch(const ErrorData *edata)
{
	static const char *const files[] = {"pquery.c"};

	return IS_IN(edata, files);
}

/* Whether the main loop is handling an error: it resets these two variables before, and no other code does. */
bool
steno_main_loop_handles_error(void)
{
	return error_context_stack == NULL && debug_query_string == NULL;
}
