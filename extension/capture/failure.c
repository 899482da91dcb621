/*
 * extension/capture/failure.c
 *		Failures that neither the executor's nor the utility hook sees: syntax
 *		errors, unknown tables, statements refused in an aborted transaction,
 *		refused function calls, failures at commit, refused clients, terminated
 *		sessions.
 *
 * They are noticed by emit_log_hook, and so are replication commands, such as
 * BASE_BACKUP and START_REPLICATION, which a walsender executes without calling any
 * other hook.  With log_replication_commands, these are logged when they start;
 * their end is not logged, so each has only a start record.  A command that fails
 * also has the record of its failure.
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "libpq/libpq-be.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/room.h"
#include "delivery/wait.h"
#include "error/origin.h"
#include "filter/split.h"


static emit_log_hook_type previous_emit;

/* Whether the parser rejected the client's string, so that none of its statements has run. */
static bool
is_unparsed(const ErrorData *edata)
{
	if (edata->internalquery != NULL)
		return false;
	return steno_error_of_several_statements(edata) || steno_error_of_grammar(edata);
}

/*
 * The failed statement's own text.  source contains one or more statements; the
 * position of the error, or the end of the last statement that ran, determines
 * which has failed.  If the string cannot be parsed, its statements are not known,
 * so the text is all of it.
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

	/* the source of a new message can have the address of the old one, so compare timestamps */
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
	steno_split_at(source, strlen(source), STENO_STANDARD_STRINGS, from, position, &begin, &end);
	*len = end - begin;
	return source + begin;
}

/*
 * Find the relations that a statement names which has failed before they were looked up, as they are written.
 * Statements before it in its source may have changed how strings with backslashes are read: then it is not known what
 * it names.  Nor is it when the process exits, where an error while it is parsed would end that.
 */
static void
find_names(StenoWritten *written, const StenoRecord *record, const char *source, bool in_function,
			 const ErrorData *edata)
{
	if (record->text == NULL)
		return;
	if (edata->elevel == ERROR &&
		(record->text == source || memchr(record->text, '\\', record->text_len) == NULL))
		steno_written_in_failed(written, record->text, record->text_len, in_function, edata->internalpos,
								steno_error_of_grammar(edata));
	else
		written->omitted = 1;
}

/*
 * source is NULL if the client has called a function, or if what failed has no
 * text: a message that refers to a prepared statement or portal that does not
 * exist, or a cancel that arrived after its statement had ended.  In a background
 * process, it may be that of a function's statement.  user_id is InvalidOid for the current role.
 */
static void
record_failure(const char *source, const ErrorData *edata, Oid user_id, uint64 xid)
{
	bool		in_function = source != NULL && source == edata->internalquery;
	MemoryContext old = MemoryContextSwitchTo(steno_raised.context);
	StenoWritten written = {0};
	StenoRecord record;

	steno_session_failing(user_id);
	steno_record_init(&record, STENO_KIND_STATEMENT);
	if (source)
	{
		int			len = strlen(source);

		record.text = in_function ? source : failed_text(source, edata, &len);
		record.text_len = len;
	}
	find_names(&written, &record, source, in_function, edata);
	/* rules and views have been looked up after the analysis, in part, and relations that only they name */
	if (record.text && !in_function && steno_failed_after_analysis())
		written.omitted++;
	steno_encode_failed(&record, source == NULL && steno_fastpath_message() ? STENO_CALL_COMMAND : "", &written,
						OidIsValid(user_id) ? user_id : steno_private.get_user_id());
	MemoryContextSwitchTo(old);
	record.time = in_function ? GetCurrentTimestamp() : GetCurrentStatementStartTimestamp();
	record.duration = Max(GetCurrentTimestamp() - record.time, 0);
	record.statement = ++steno_my.statement;
	record.xid = xid;
	record.outcome = STENO_OUTCOME_ERROR;
	record.sqlerrcode = edata->sqlerrcode;
	record.message = edata->message ? edata->message : "missing error text";
	steno_record_put_failed(&record, &written);
	MemoryContextReset(steno_raised.context);
}

static void
record_reported(ErrorData *edata)
{
	Oid			user_id = InvalidOid;
	uint64		xid = steno_current_xid();
	bool		recorded;

	if (MyProcPort != NULL &&
		(ClientAuthInProgress || (edata->elevel == FATAL && !IsNormalProcessingMode())))
	{
		steno_session_failed(edata);
		return;
	}
	if (edata->elevel == FATAL)
		steno_secret_process_exits();
	if (steno_is_worker())
	{
		/*
		 * The leader records the failure of its own statement; hooks have recorded
		 * the errors of nested ones.
		 */
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

		/*
		 * The session ends while the failure of a statement is being sent, which is
		 * already recorded.
		 */
		recorded |= steno_failure_is_reported();
	}
	else
	{
		steno_statement_failed(edata);
		recorded = false;
		steno_failure_reported();
	}
	recorded |= steno_statement_take_reported(edata);
	if (unlikely(steno_settings_are_dirty()) && !recorded)
		steno_settings_record_failing();
	if (recorded)
		return;
	if (debug_query_string == NULL && steno_background_failed(edata, &user_id, &xid))
	{
		if (steno_session_ready() && steno_failures_may_be_logged())
			record_failure(edata->internalquery, edata, user_id, xid);
	}
	else if ((debug_query_string != NULL || steno_fastpath_message() ||
			  (edata->elevel == ERROR && steno_is_client() && !am_walsender)) &&
			 steno_failures_may_be_logged() && steno_session_ready())
		record_failure(debug_query_string, edata, user_id, xid);
}

/*
 * A FATAL error is being reported, and ours was caught.  Raising one while another is reported has freed the
 * strings of that.
 */
STENO_COLD static void
keep_reporting(ErrorData *edata)
{
	static char message[] = "terminating connection: out of memory";

	if (steno_handled)
	{
		steno_forget_error();
		return;
	}
	edata->message = message;
	edata->detail = edata->detail_log = edata->hint = edata->context = edata->backtrace = NULL;
	edata->schema_name = edata->table_name = edata->column_name = edata->datatype_name = edata->constraint_name = NULL;
	edata->internalquery = NULL;
}

static void
failure(ErrorData *edata)
{
	static bool busy;
	static MemoryContext context;
	MemoryContext old = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	bool		before;
	uint32		hurry;
	static TimestampTz raised;	/* timestamp of the client's message whose failure we could not
								 * record */

	if (edata->elevel < ERROR || edata->elevel >= PANIC || busy ||
		(steno_my.log_mask == 0 && !steno_role_is_set() && steno_my.state == STENO_READY) || !steno_active() ||
		steno_my.state == STENO_DEAD || !IsUnderPostmaster || proc_exit_inprogress)
		return;
	/* processes that have no statements of their own, and have not run one in a function either */
	if (steno_my.state == STENO_UNDECIDED &&
		(IsParallelWorker() || (MyBackendType == B_AUTOVAC_WORKER && edata->internalquery == NULL)))
		return;

	/*
	 * The main loop reports our own error now; another attempt would raise it
	 * again, in an endless loop.
	 */
	if (edata->elevel == ERROR && raised != 0 && raised == GetCurrentStatementStartTimestamp())
		return;
	busy = true;
	HOLD_INTERRUPTS();
	/* an error is reported after it was caught, so the code that raised it is no longer running */
	before = steno_allow_barriers(edata->elevel == ERROR);
	hurry = steno_failure_begins();
	PG_TRY();
	{
		if (context == NULL)
			context = AllocSetContextCreate(TopMemoryContext, "pg_steno reported error", ALLOCSET_SMALL_SIZES);
		MemoryContextSwitchTo(context);
		steno_handled = CopyErrorData();
		MemoryContextSwitchTo(old);
		record_reported(edata);
	}
	PG_CATCH();
	{
		/*
		 * This can only be out of memory: what we call raises nothing else.
		 * Failures of later messages are recorded again.  The error has reset the
		 * count of held interrupts to zero, so there is nothing to resume.
		 */
		busy = false;
		(void) steno_allow_barriers(false);
		raised = GetCurrentStatementStartTimestamp();
		if (edata->elevel == ERROR)
		{
			steno_handled = NULL;
			steno_failure_ends(hurry);
			PG_RE_THROW();
		}
		/* the session must end, whatever becomes of its records */
		MemoryContextSwitchTo(old);
		keep_reporting(edata);
	}
	PG_END_TRY();
	steno_handled = NULL;
	MemoryContextReset(context);
	InterruptHoldoffCount = holdoff;
	steno_failure_ends(hurry);
	steno_raised.held = false;
	(void) steno_allow_barriers(before);
	busy = false;
}

/* ---- replication commands ---- */

/* The command tag is the first word of the text, in capitals. */
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
	if (steno_logs_text())
	{
		record.text = text;
		record.text_len = strlen(text);
		while (record.text_len > 0 && strchr("; \t\r\n", text[record.text_len - 1]) != NULL)
			record.text_len--;
		steno_secret_hide(&record);
	}
	steno_record_put(&record, false);
}

/* If a message for the server's log is that of a replication command, make a start record. */
static void
note_replication_command(const ErrorData *edata)
{
	if (edata->elevel != LOG || !am_walsender || debug_query_string == NULL ||
		edata->message_id == NULL || strcmp(edata->message_id, "received replication command: %s") != 0)
		return;
	if (unlikely(steno_settings_are_dirty()))
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
	steno_assert_phases();
	failure(edata);
	steno_parse_logged(edata);
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
