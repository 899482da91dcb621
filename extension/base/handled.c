/*
 * extension/base/handled.c
 *		Forgetting an error while another one is being handled.
 */
#include "base/steno.h"

#include "base/handled.h"

ErrorData  *steno_handled STENO_SESSION_DATA;

/*
 * In a PG_CATCH, instead of FlushErrorState(): forget the error that was caught.  The memory context stays
 * what it is.  Errors below the one that is being handled are lost; the server has them only if it fails while
 * it handles a failure.
 */
STENO_COLD void
steno_forget_error(void)
{
	MemoryContext context = CurrentMemoryContext;

	FlushErrorState();
	if (steno_handled == NULL)
		return;
	PG_TRY();
	{
		ReThrowError(steno_handled);
	}
	PG_CATCH();
	{
		/* it is where it was */
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
}
