/*
 * extension/written/text.c
 *		Relations that a text names which was refused in parse analysis.
 *
 * Its parse tree has gone when its failure is recorded, so it is parsed again.  The grammar reads no catalog, so this
 * is possible in any state of a transaction.
 */
#include "base/steno.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "utils/guc.h"

#include "base/compat.h"
#include "written/written.h"

/*
 * Whether a statement has been refused in parse analysis, after the parser had accepted it: what is parsed again
 * then raises no error, usually.
 */
bool
steno_refused_in_analysis(const ErrorData *edata)
{
	int			category = ERRCODE_TO_CATEGORY(edata->sqlerrcode);

	return edata->elevel == ERROR && edata->filename != NULL && edata->sqlerrcode != ERRCODE_SYNTAX_ERROR &&
		(category == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION || category == ERRCODE_INVALID_SCHEMA_NAME ||
		 category == ERRCODE_INVALID_CATALOG_NAME) &&
		strstr(edata->filename, "gram.") == NULL && strstr(edata->filename, "scan") == NULL;
}

/*
 * A copy of the error that is being handled; NULL if there is none, as in the abort of a subtransaction whose error
 * PL/pgSQL has caught.
 */
static ErrorData *
copy_of_handled(void)
{
	uint32		interrupts = InterruptHoldoffCount;
	uint32		cancels = QueryCancelHoldoffCount;
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile copy = NULL;

	PG_TRY();
	{
		copy = CopyErrorData();
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		/* to ask for it was the error, and the only one; the throw has set the counts to zero */
		InterruptHoldoffCount = interrupts;
		QueryCancelHoldoffCount = cancels;
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return copy;
}

/* Parse it in one of the ways of the grammar; NIL if that does not accept it. */
static List *
parse_as(const char *text, RawParseMode mode)
{
	uint32		interrupts = InterruptHoldoffCount;
	uint32		cancels = QueryCancelHoldoffCount;
	MemoryContext context = CurrentMemoryContext;
	List	   *volatile parsed = NIL;

	PG_TRY();
	{
		parsed = raw_parser(text, mode);
	}
	PG_CATCH();
	{
		/* the throw has set the counts to zero */
		InterruptHoldoffCount = interrupts;
		QueryCancelHoldoffCount = cancels;
		MemoryContextSwitchTo(context);
		steno_forget_error();
	}
	PG_END_TRY();
	return parsed;
}

/*
 * Parse a text again.  The client has had the parser's warnings, and must get the error that is being handled, and no
 * other.  What functions run is also an expression, or an assignment, of PL/pgSQL.
 */
static List *
parse_again(const char *text, bool in_function)
{
	static const RawParseMode modes[] = {RAW_PARSE_DEFAULT, RAW_PARSE_PLPGSQL_EXPR, RAW_PARSE_PLPGSQL_ASSIGN1,
	RAW_PARSE_PLPGSQL_ASSIGN2, RAW_PARSE_PLPGSQL_ASSIGN3};
	int			client_level = client_min_messages;
	int			log_level = STENO_LOG_MIN_MESSAGES(MyBackendType);
	ErrorContextCallback *callbacks = error_context_stack;
	ErrorData  *before = steno_handled;
	List	   *parsed = NIL;
	int			i;

	/* nobody is told of the errors that this raises: our own callback would take them for one of the statement */
	error_context_stack = NULL;
	if (steno_handled == NULL)
		steno_handled = copy_of_handled();
	client_min_messages = ERROR;
	STENO_LOG_MIN_MESSAGES(MyBackendType) = FATAL;
	for (i = 0; i < (in_function ? lengthof(modes) : 1) && parsed == NIL; i++)
		parsed = parse_as(text, modes[i]);
	steno_handled = before;
	client_min_messages = client_level;
	STENO_LOG_MIN_MESSAGES(MyBackendType) = log_level;
	error_context_stack = callbacks;
	return parsed;
}

/* Whether a statement of a text contains the character with this number; 0: it is not known where the error is. */
static bool
is_at(const RawStmt *statement, const char *text, int at)
{
	int			byte = at > 0 ? pg_mbcharcliplen(text, strlen(text), at - 1) : -1;

	return byte < 0 ||
		(byte >= statement->stmt_location &&
		 (statement->stmt_len == 0 || byte < statement->stmt_location + statement->stmt_len));
}

/*
 * Find the relations that a text names.  in_function: it may contain several statements, as the body of a function
 * does; those are found which that at the position of the error names, counted in characters.
 */
void
steno_written_in_text(StenoWritten *w, const char *text, uint64 len, bool in_function, int at)
{
	char	   *copy = pnstrdup(text, len);
	ListCell   *lc;
	bool		first = true;

	w->count = 0;
	w->omitted = 0;
	foreach(lc, parse_again(copy, in_function))
	{
		const RawStmt *statement = lfirst_node(RawStmt, lc);

		if (in_function ? is_at(statement, copy, at) : first)
			steno_written_add(w, statement->stmt);
		first = false;
	}
}
