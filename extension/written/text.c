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
#include "utils/ps_status.h"

#include "base/compat.h"
#include "written/written.h"

/* A longer text is not parsed again: nothing could interrupt that. */
#define LONGEST_PARSED (1024 * 1024)

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

/* What is done while another error is being handled. */
typedef struct Quietly
{
	StenoWritten *written;
	Node	   *tree;
	const char *text;
	RawParseMode mode;
	bool		in_function;
	int			at;
	bool		parsed;			/* the text has been */
} Quietly;

/* Whether a statement of a text contains the character with this number; 0: it is not known where the error is. */
static bool
is_at(const RawStmt *statement, const char *text, int at)
{
	int			byte = at > 0 ? pg_mbcharcliplen(text, strlen(text), at - 1) : -1;

	return byte < 0 ||
		(byte >= statement->stmt_location &&
		 (statement->stmt_len == 0 || byte < statement->stmt_location + statement->stmt_len));
}

static void
find_in_text(Quietly *q)
{
	List	   *statements = raw_parser(q->text, q->mode);
	ListCell   *lc;

	q->parsed = statements != NIL;
	foreach(lc, statements)
	{
		const RawStmt *statement = lfirst_node(RawStmt, lc);

		if (!q->in_function || is_at(statement, q->text, q->at))
			steno_written_add(q->written, statement->stmt);
	}
}

static void
find_in_tree(Quietly *q)
{
	steno_written_add(q->written, q->tree);
}

/* Do it; false: it has raised an error, of which nothing is left. */
static bool
attempt(void (*find) (Quietly *q), Quietly *q)
{
	uint32		interrupts = InterruptHoldoffCount;
	uint32		cancels = QueryCancelHoldoffCount;
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		find(q);
		done = true;
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
	return done;
}

/*
 * The same, without telling anybody of errors and warnings.  The client has had those of the parser, and must get the
 * error that is being handled, and no other.  Our own callback would take an error for one of the statement.
 */
static bool
attempt_quietly(void (*find) (Quietly *q), Quietly *q)
{
	int			client_level = client_min_messages;
	int			log_level = STENO_LOG_MIN_MESSAGES(MyBackendType);
	ErrorContextCallback *callbacks = error_context_stack;
	ErrorData  *before = steno_handled;
	bool		done;

	error_context_stack = NULL;
	if (steno_handled == NULL)
		steno_handled = copy_of_handled();
	client_min_messages = ERROR;
	STENO_LOG_MIN_MESSAGES(MyBackendType) = FATAL;
	done = attempt(find, q);
	steno_handled = before;
	client_min_messages = client_level;
	STENO_LOG_MIN_MESSAGES(MyBackendType) = log_level;
	error_context_stack = callbacks;
	return done;
}

/* Add the relations that a tree names which the server has parsed.  The names belong to it. */
void
steno_written_in_tree(StenoWritten *w, Node *tree)
{
	Quietly		q = {.written = w, .tree = tree};

	if (!attempt_quietly(find_in_tree, &q))
		w->omitted++;
}

/*
 * Whether a text was perhaps parsed earlier, when standard_conforming_strings had another value: that of a function, or
 * that of a prepared statement.  A Bind says what it is in the title of its process.
 */
static bool
was_parsed_before(bool in_function)
{
	int			len;

	return in_function || !update_process_title || strncmp(get_ps_display(&len), "BIND", strlen("BIND")) == 0;
}

/*
 * Add the relations that a text names which has failed.  in_function: it may contain several statements, as the body
 * of a function does; those are found which that at the position of the error names, counted in characters.  What
 * functions run is also an expression, or an assignment, of PL/pgSQL.  Returns whether it could be parsed.
 */
bool
steno_written_in_text(StenoWritten *w, const char *text, uint64 len, bool in_function, int at)
{
	static const RawParseMode modes[] = {RAW_PARSE_DEFAULT, RAW_PARSE_PLPGSQL_EXPR, RAW_PARSE_PLPGSQL_ASSIGN1,
	RAW_PARSE_PLPGSQL_ASSIGN2, RAW_PARSE_PLPGSQL_ASSIGN3};
	Quietly		q = {.written = w, .in_function = in_function, .at = at};
	int			i;

	if (len > LONGEST_PARSED)
		return false;
	q.text = pnstrdup(text, len);
	for (i = 0; i < (in_function ? lengthof(modes) : 1) && !q.parsed; i++)
	{
		q.mode = modes[i];
		if (!attempt_quietly(find_in_text, &q) && q.parsed)
			w->omitted++;		/* the rest of it */
	}
	if (q.parsed && memchr(text, '\\', len) != NULL && was_parsed_before(in_function))
		w->omitted++;			/* its strings may have ended elsewhere */
	return q.parsed;
}

/*
 * The same, if it could not be parsed: something may be missing, unless it was the grammar that has refused it, and so
 * nothing was looked up.
 */
void
steno_written_in_failed(StenoWritten *w, const char *text, uint64 len, bool in_function, int at, bool by_grammar)
{
	if (!steno_written_in_text(w, text, len, in_function, at) && !by_grammar)
		w->omitted++;
}
