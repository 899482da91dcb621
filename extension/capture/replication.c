/*
 * extension/capture/replication.c
 *		Replication commands, such as BASE_BACKUP and START_REPLICATION.
 *
 * A walsender runs them past all hooks.  With log_replication_commands they are seen
 * where the server's log gets them, when they start; their end nothing tells of, so
 * each has a start record alone.  One that fails has the record of its failure
 * besides (failure.c).
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "tcop/tcopprot.h"

#include "capture/statement.h"

/* The command is its first word, written as the grammar wants it: in capitals. */
static void
take_command(const char *text, char *command, size_t size)
{
	size_t		len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

	strlcpy(command, text, Min(len + 1, size));
}

static void
record_command(const char *text)
{
	StenoRecord record;
	char		command[NAMEDATALEN];
	const StenoShape shape = {.class = STENO_CLASS_MISC, .command = command};

	steno_session_failing(InvalidOid);	/* no transaction: catalogs cannot be read */
	steno_record_init(&record, STENO_KIND_START);
	take_command(text, command, sizeof(command));
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
void
steno_replication_logged(const ErrorData *edata)
{
	if (edata->elevel != LOG || !am_walsender || debug_query_string == NULL ||
		edata->message_id == NULL || strcmp(edata->message_id, "received replication command: %s") != 0)
		return;
	if (unlikely(steno_my.settings_dirty))
		steno_settings_record_failing();
	if (steno_session_ready() && steno_class_logged(STENO_CLASS_MISC))
	{
		HOLD_INTERRUPTS();
		record_command(debug_query_string);
		RESUME_INTERRUPTS();
	}
}
