/*
 * extension/base/control.c
 *		The control area and the ring file, as every process sees them.
 */
#include "base/steno.h"

StenoControl *steno_control;
StenoRings	steno_rings;
char		steno_ring_path[MAXPGPATH];
uint32		steno_wait_events[STENO_WAITS];

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
