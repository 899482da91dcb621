/*
 * extension/capture/failure.c
 *		Failures that no executor or utility hook sees: syntax errors, unknown
 *		tables, statements refused in an aborted transaction, function calls that
 *		are refused, failures at commit, clients that are refused, sessions that are
 *		terminated.
 *
 * They are seen where the server's log would get them, as are replication commands, such
 * as BASE_BACKUP and START_REPLICATION, which a walsender runs past all hooks.  With
 * log_replication_commands these are logged when they start; nothing tells of their end, so
 * each has a start record alone.  One that fails has the record of its failure besides.
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "filter/split.h"
#include "libpq/libpq-be.h"
#include "parser/parser.h"
#include "postmaster/postmaster.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "capture/statement.h"

static emit_log_hook_type previous_emit;

/*
 * Whether the parser did not take the client's string, of which then nothing has
 * run.  The parser's own sources say so: what fails later has other SQLSTATEs, or
 * the same ones.  The scanner has others look at the encoding of escapes.  A Parse
 * message takes one statement only.
 */
static bool
is_unparsed(const ErrorData *edata)
{
	static const char *const sources[] = {"gram.y", "scan.l", "parser.c", "mbutils.c"};
	const char *name = edata->filename ? strrchr(edata->filename, '/') : NULL;
	int			i;

	if (edata->filename == NULL || edata->internalquery != NULL)
		return false;
	if (edata->sqlerrcode == ERRCODE_SYNTAX_ERROR && edata->funcname && strcmp(edata->funcname, "exec_parse_message") == 0)
		return true;
	name = name ? name + 1 : edata->filename;
	for (i = 0; i < (int) lengthof(sources); i++)
		if (strcmp(name, sources[i]) == 0)
			return true;
	return false;
}

/*
 * The failed statement's own text.  source holds one or more statements; the
 * error's position, or where the last one ended, tells which.  Of a string that
 * cannot be parsed it is the whole: nobody can say what its statements are, and
 * all of them were meant to run.
 */
static const char *
failed_text(const char *source, const ErrorData *edata, int *len)
{
	const char *done_source;
	int			done_end;
	size_t		from = 0;
	size_t		position = STENO_SPLIT_FIRST;
	size_t		begin;
	size_t		end;
	const char *text;

	/* a new message's source can have the old one's address: compare times */
	if (steno_statement_source(&done_source, &done_end) == GetCurrentStatementStartTimestamp() &&
		done_source == source && done_end > 0)
		from = done_end;
	else if (is_unparsed(edata))
	{
		text = source + strspn(source, " \n\t\r\f");
		*len = strlen(text);
		while (*len > 0 && strchr("; \n\t\r\f", text[*len - 1]))
			(*len)--;
		return text;
	}
	if (edata->cursorpos > 0 && edata->internalpos == 0)
		position = pg_mbcharcliplen(source, strlen(source), edata->cursorpos - 1);
	steno_split_at(source, strlen(source), standard_conforming_strings, from, position, &begin, &end);
	*len = end - begin;
	return source + begin;
}

/*
 * source NULL: the client has called a function, or what failed has no text: a message
 * about a prepared statement or a portal that is not there, or a cancel that was
 * served after its statement had ended.
 */
static void
record_failure(const char *source, const ErrorData *edata)
{
	StenoRecord record;
	uint8		shape[8 + sizeof(STENO_CALL_COMMAND)];
	uint8	   *p = shape;
	uint32		command_len = source == NULL && steno_fastpath_message() ? strlen(STENO_CALL_COMMAND) : 0;

	steno_session_failing(InvalidOid);
	steno_record_init(&record, STENO_KIND_STATEMENT);
	p = steno_put_varint(p, STENO_CLASS_ERROR);
	*p++ = 0;					/* no query id */
	p = steno_put_varint(p, command_len);
	memcpy(p, STENO_CALL_COMMAND, command_len);
	p += command_len;
	memset(p, 0, 2);			/* no relations, parameters */
	p += 2;
	record.shape = shape;
	record.shape_len = p - shape;
	record.time = GetCurrentStatementStartTimestamp();
	record.duration = Max(GetCurrentTimestamp() - record.time, 0);
	record.statement = ++steno_my.statement;
	record.xid = GetTopTransactionIdIfAny();
	record.outcome = STENO_OUTCOME_ERROR;
	record.sqlerrcode = edata->sqlerrcode;
	record.message = edata->message ? edata->message : "missing error text";
	if (source)
	{
		int			len;

		record.text = failed_text(source, edata, &len);
		record.text_len = len;
	}
	steno_record_put_failed(&record);
}

static void
record_reported(ErrorData *edata)
{
	bool		recorded;

	if (MyProcPort != NULL &&
		(ClientAuthInProgress || (edata->elevel == FATAL && !IsNormalProcessingMode())))
	{
		steno_session_failed(edata);
		return;
	}
	if (steno_my.worker)
	{
		/* what it was doing for its leader fails there; an error has passed the hooks of the rest */
		if (edata->elevel == FATAL)
		{
			steno_room_process_exits();
			steno_statement_fatal(edata);
		}
		return;
	}
	if (edata->elevel == FATAL)
	{
		steno_session_died(edata);
		steno_room_process_exits();
		recorded = steno_statement_fatal(edata);
		/* while the failure of the statement was being sent: that one has its record */
		recorded |= steno_failure_is_reported();
	}
	else
	{
		steno_statement_failed(edata);
		recorded = false;
		steno_failure_reported();
	}
	recorded |= steno_statement_take_reported();
	if (unlikely(steno_my.settings_dirty) && !recorded)
		steno_settings_record_failing();
	if (!recorded &&
		(debug_query_string != NULL || steno_fastpath_message() ||
		 (edata->elevel == ERROR && steno_my.client && !am_walsender)) &&
		steno_class_logged(STENO_CLASS_ERROR) && steno_session_ready())
		record_failure(debug_query_string, edata);
}

static void
failure(ErrorData *edata)
{
	static bool busy;
	bool		before;
	static TimestampTz raised;	/* message of the client at whose failure we failed ourselves */

	if (edata->elevel < ERROR || edata->elevel >= PANIC || busy ||
		(steno_my.log_mask == 0 && steno_my.state == STENO_READY) || !steno_active() || steno_my.state == STENO_DEAD ||
		!IsUnderPostmaster || proc_exit_inprogress)
		return;
	/* processes without statements of their own, which have run none of a function either */
	if (steno_my.state == STENO_UNDECIDED && (IsParallelWorker() || MyBackendType == B_AUTOVAC_WORKER))
		return;
	/* the main loop reports our own error now: another attempt would raise it again, for ever */
	if (edata->elevel == ERROR && raised != 0 && raised == GetCurrentStatementStartTimestamp())
		return;
	busy = true;
	HOLD_INTERRUPTS();
	/* an error is reported by whoever has caught it: what raised it is not under way any more */
	before = steno_allow_barriers(edata->elevel == ERROR);
	PG_TRY();
	{
		record_reported(edata);
	}
	PG_CATCH();
	{
		/*
		 * Out of memory, at most: what we call raises nothing else.  The failures
		 * of later messages are recorded again.  The throw itself has set the
		 * count of held interrupts to zero, so there is none to resume.
		 */
		busy = false;
		(void) steno_allow_barriers(false);
		raised = GetCurrentStatementStartTimestamp();
		PG_RE_THROW();
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
	(void) steno_allow_barriers(before);
	busy = false;
}

/* ---- replication commands ---- */

/* The command is its first word, written as the grammar wants it: in capitals. */
static void
copy_command_word(const char *text, char *command, size_t size)
{
	size_t		len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

	strlcpy(command, text, Min(len + 1, size));
}

static void
record_replication_command(const char *text)
{
	StenoRecord record;
	char		command[NAMEDATALEN];
	const StenoShape shape = {.class = STENO_CLASS_MISC, .command = command};

	steno_session_failing(InvalidOid);	/* no transaction: catalogs cannot be read */
	steno_record_init(&record, STENO_KIND_START);
	copy_command_word(text, command, sizeof(command));
	steno_encode_shape(&record, &shape, NULL);
	record.time = GetCurrentStatementStartTimestamp();
	record.statement = ++steno_my.statement;
	record.outcome = STENO_OUTCOME_RUNNING;
	record.audited = steno_audit_reason(STENO_CLASS_MISC, 0);
	if (steno_my.log_statement)
	{
		record.text = text;
		record.text_len = strlen(text);
		while (record.text_len > 0 && strchr("; \t\r\n", text[record.text_len - 1]) != NULL)
			record.text_len--;
		steno_secret_hide(&record);
	}
	steno_record_put(&record, false);
}

/* A message for the server's log: is it that of a replication command? */
static void
note_replication_command(const ErrorData *edata)
{
	if (edata->elevel != LOG || !am_walsender || debug_query_string == NULL ||
		edata->message_id == NULL || strcmp(edata->message_id, "received replication command: %s") != 0)
		return;
	if (unlikely(steno_my.settings_dirty))
		steno_settings_record_failing();
	if (steno_session_ready() && steno_class_logged(STENO_CLASS_MISC))
	{
		HOLD_INTERRUPTS();
		record_replication_command(debug_query_string);
		RESUME_INTERRUPTS();
	}
}

/* ---- the hook ---- */

static void
emit_log(ErrorData *edata)
{
	failure(edata);
	note_replication_command(edata);
	if (previous_emit)
		previous_emit(edata);
}

void
steno_failure_install(void)
{
	previous_emit = emit_log_hook;
	emit_log_hook = emit_log;
}
