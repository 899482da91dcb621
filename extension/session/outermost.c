/*
 * extension/session/outermost.c
 *		Whether the server calls our hooks first.
 *
 * A library that is loaded after us is called before us, and most pass everything on.  One that
 * does not, for example because it executes COPY itself, hides a statement from us, and nothing of it is
 * recorded but that its transaction has written.  So the server's log says once which hooks are those of
 * other libraries: at the end of the start, and when a session has found others, which
 * session_preload_libraries or LOAD has set.
 */
#include "base/steno.h"

#include "miscadmin.h"
#include "utils/elog.h"

#include "session/session.h"

typedef void (*AnyHook) (void);

static const struct
{
	const char *name;
	AnyHook    *hook;
}			hooks[] =

{
	{"ExecutorStart_hook", (AnyHook *) &ExecutorStart_hook},
	{"ExecutorRun_hook", (AnyHook *) &ExecutorRun_hook},
	{"ExecutorFinish_hook", (AnyHook *) &ExecutorFinish_hook},
	{"ExecutorEnd_hook", (AnyHook *) &ExecutorEnd_hook},
	{"ProcessUtility_hook", (AnyHook *) &ProcessUtility_hook},
	{"emit_log_hook", (AnyHook *) &emit_log_hook},
};

static AnyHook ours[lengthof(hooks)];

/* Called when all of our hooks are installed. */
void
steno_outermost_install(void)
{
	int			i;

	for (i = 0; i < (int) lengthof(hooks); i++)
		ours[i] = *hooks[i].hook;
}

/* Say which hooks are not ours, unless that was said in this run of the server.  Nothing is sent to a client. */
STENO_COLD void
steno_outermost_check(void)
{
	char		names[256] = "";
	uint32		others = 0;
	int			i;

	for (i = 0; i < (int) lengthof(hooks); i++)
	{
		if (*hooks[i].hook == ours[i])
			continue;
		others |= 1u << i;
		if (names[0] != '\0')
			strlcat(names, ", ", sizeof(names));
		strlcat(names, hooks[i].name, sizeof(names));
	}
	if ((others & ~atomic_load(&steno_control->hooks_told)) == 0)
		return;
	atomic_fetch_or(&steno_control->hooks_told, others);
	ereport(IsUnderPostmaster ? LOG_SERVER_ONLY : WARNING,
			(errmsg("other libraries see statements before pg_steno does"),
			 errdetail("Their hooks are called first: %s. What such a hook does not pass on is not recorded.", names),
			 errhint("Put \"pg_steno\" at the end of \"shared_preload_libraries\".")));
}
