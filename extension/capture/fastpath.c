/*
 * extension/capture/fastpath.c
 *		Functions that clients call by the protocol's own message for that: libpq's
 *		PQfn(), and so all that it does with large objects.
 *
 * Such a call has no text, and neither executor nor utility hook sees it.  But the
 * server looks at the function's schema, then at the function, and each look has
 * an event of the object access hook.  There the call becomes a client's statement
 * like those of utility.c, which it takes the record from.
 *
 * It ends with its transaction; in a block, when the server's main loop is through
 * with the message, and empties its memory, before it tells the client that it
 * is ready.
 */
#include "base/steno.h"

#include "miscadmin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

#include "capture/statement.h"

static bool called;				/* the present message has its statement, or wants none */

/*
 * Whether the message that the server works at is a function call, as it says where it
 * shows what sessions do.  With track_activities off that is not known.
 */
bool
steno_fastpath_message(void)
{
	return debug_query_string == NULL && pgstat_track_activities &&
		MyBEEntry != NULL && MyBEEntry->st_state == STATE_FASTPATH;
}

/*
 * In the object access hook: is this the call itself, not what happens in it?  With
 * track_activities off, the call is what the main loop does, in its own memory, for
 * a message without text, without anything between: other messages of that kind
 * come to functions by portals, triggers and the parser only.
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
	/* nobody else takes it off: the hook's caller knows nothing of it */
	if (error_context_stack == &l->callback)
		error_context_stack = l->callback.previous;
	if (steno_my.settings_dirty)
		steno_settings_record();
}

/* A client calls a function. */
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
