/*
 * extension/capture/fastpath.c
 *		Functions that clients call by the protocol's FunctionCall message, as
 *		libpq's PQfn() does, and with it all its functions for large objects.
 *
 * Such a call has no text, and calls neither the executor's nor the utility hook.
 * But the server checks the permission on the function's schema and then on the
 * function, and each check calls the object access hook.  There, the call becomes a
 * client's statement, which utility.c records like a utility statement.
 *
 * It ends with its transaction, or, in a transaction block, when the server's main
 * loop has processed the message and resets MessageContext, before it sends
 * ReadyForQuery.
 */
#include "base/steno.h"

#include "miscadmin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

#include "capture/statement.h"

static bool called;				/* the current message has its statement, or must not get one */

/*
 * Whether the server is processing a FunctionCall message, by the activity that it
 * shows in pg_stat_activity.  With track_activities off, that is not known.
 */
bool
steno_fastpath_message(void)
{
	return debug_query_string == NULL && pgstat_track_activities &&
		MyBEEntry != NULL && MyBEEntry->st_state == STATE_FASTPATH;
}

/*
 * In the object access hook: whether this is the call itself, and not one inside
 * it.  With track_activities off, it is the call if the main loop makes it
 * directly, in MessageContext, for a message without text: other messages without
 * text call functions only through portals, triggers and the parser.
 */
bool
steno_fastpath_expected(void)
{
	if (debug_query_string != NULL || called || steno_my.paused || steno_my.state == STENO_DEAD ||
		MyBackendType != B_BACKEND)
		return false;
	return pgstat_track_activities ? steno_fastpath_message() :
		CurrentMemoryContext == MessageContext && error_context_stack == NULL && steno_my.level == NULL;
}

static void
message_ends(void *arg)
{
	StenoLevel *l = &steno_top_level;

	called = false;
	if (steno_my.level == l && l->ending)
	{
		steno_objects_finish(l->utility, NULL);
		steno_utility_ended(l);
	}
	/* it must be removed here, because the hook's caller does not know about it */
	if (error_context_stack == &l->callback)
		error_context_stack = l->callback.previous;
	if (steno_my.settings_dirty)
		steno_settings_record();
}

/* A client calls a function: begin its statement. */
void
steno_fastpath_call(Oid function)
{
	static MemoryContextCallback at_end = {.func = message_ends};

	called = true;
	MemoryContextRegisterResetCallback(MessageContext, &at_end);
	if (!steno_recording())
		return;
	steno_refusal_check(NULL);
	steno_utility_call(function);
}
