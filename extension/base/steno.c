/*
 * extension/base/steno.c
 *		Defines what steno.h declares: this process's state, in the page that the ring's
 *		header replaces, and what is known of its client; the control area and the ring
 *		file; and the variables behind the settings (settings.def).
 */
#include "base/steno.h"

#include "utils/memutils.h"

#include "base/client.h"

/* ---- local.h, client.h ---- */

StenoArea	steno_area __attribute__((aligned(STENO_PAGE)));
StenoKeptFar steno_kept_far[STENO_KEPT_SHAPES];
StenoClientFacts steno_client STENO_SESSION_DATA;

STENO_COLD void *
steno_scratch(size_t size)
{
	steno_my.scratch_used = true;
	return MemoryContextAllocExtended(steno_private.scratch, size, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
}

ErrorData  *steno_handled STENO_SESSION_DATA;

/* There are as many as places in the code that raise errors, but libraries may make them up. */
#define MOST_CONSTANTS 2000

/*
 * A copy of one of the strings of errors that the server takes for constants, which lives as long as the process.
 * NULL: there is no memory for it, or there are too many.
 */
STENO_COLD static const char *
keep_constant(const char *s)
{
	static struct Kept
	{
		struct Kept *next;
		char		string[FLEXIBLE_ARRAY_MEMBER];
	}		   *kept;
	static int	count;
	struct Kept *k;
	size_t		size;

	if (s == NULL)
		return NULL;
	for (k = kept; k; k = k->next)
		if (strcmp(k->string, s) == 0)
			return k->string;
	if (count == MOST_CONSTANTS)
		return NULL;
	size = strlen(s) + 1;
	k = MemoryContextAllocExtended(TopMemoryContext, offsetof(struct Kept, string) + size, MCXT_ALLOC_NO_OOM);
	if (k == NULL)
		return NULL;
	memcpy(k->string, s, size);
	k->next = kept;
	kept = k;
	count++;
	return k->string;
}

/*
 * In a PG_CATCH, instead of FlushErrorState(): forget the error that was caught.  The memory context stays
 * what it is.  Errors below the one that is being handled are lost; the server has them only if it fails while
 * it handles a failure.
 */
STENO_COLD void
steno_forget_error(void)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData	again;

	FlushErrorState();
	if (steno_handled == NULL)
		return;
	/* it copies all strings but these, and the error outlives steno_handled */
	again = *steno_handled;
	again.filename = keep_constant(again.filename);
	again.funcname = keep_constant(again.funcname);
	again.domain = keep_constant(again.domain);
	again.context_domain = keep_constant(again.context_domain);
	again.message_id = keep_constant(again.message_id);
	PG_TRY();
	{
		ReThrowError(&again);
	}
	PG_CATCH();
	{
		/* it is where it was */
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
}

/* ---- settings.h ---- */

char	   *steno_log;
char	   *steno_mandatory;
char	   *steno_role;
char	   *steno_rules_file;
char	   *steno_log_start;
char	   *steno_sync;
char	   *steno_app_user;
char	   *steno_app_context;
int			steno_start_after;
char	   *steno_directory;
char	   *steno_ring_directory;
int			steno_ring_size;
int			steno_large_buffers;
int			steno_writers;
int			steno_flush_interval;
int			steno_fsync_interval;
int			steno_segment_size;
int			steno_rotation_age;
int			steno_retention_size;
char	   *steno_retention_age_text;
int			steno_retention_age;
int			steno_stall_timeout;
int			steno_slot_max_size;
int			steno_compression;
int			steno_block_size;
int			steno_file_mode;
char	   *steno_signing_key_file;
int			steno_seal_interval;
char	   *steno_encryption_key_command;
int			steno_on_failure;
int			steno_disk_reserve;
int			steno_disk_warning;
char	   *steno_alert_command;
StenoWanted steno_wanted;
char		steno_audit_role[NAMEDATALEN];

/* ---- control.h ---- */

StenoControl *steno_control;
StenoRings	steno_rings;
char		steno_ring_path[MAXPGPATH];
uint32		steno_wait_events[STENO_WAITS];
void		(*steno_alert_hook) (const char *event, int writer, const char *message);

void
steno_writer_wake(StenoWriterControl *writer)
{
	Latch	   *latch = writer->latch;

	if (latch)
		SetLatch(latch);
}

void
steno_require_active(void)
{
	if (!steno_active())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_steno is not active"),
				 errhint("Add \"pg_steno\" to \"shared_preload_libraries\" and restart the server.")));
}

/* What was lost so far, in all runs of this server. */
void
steno_losses(StenoLosses *losses)
{
	uint32		i;

	*losses = steno_control->losses_before;
	losses->lost += atomic_load(&steno_control->lost);
	for (i = 0; i < steno_rings.nwriters; i++)
		losses->refused += atomic_load(&steno_control->writers[i].health.refused);
	for (i = 0; i < steno_rings.nrings; i++)
		losses->dropped += atomic_load(&steno_ring_at(&steno_rings, i)->drops);
}
