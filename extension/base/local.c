/*
 * extension/base/local.c
 *		This process's state, in the page that the ring's header replaces, and what
 *		is known of its client.
 */
#include "base/steno.h"

#include "utils/memutils.h"

#include "base/client.h"

StenoArea	steno_area __attribute__((aligned(STENO_PAGE)));
StenoClientFacts steno_client;

STENO_COLD void *
steno_scratch(size_t size)
{
	steno_my.scratch_used = true;
	return MemoryContextAllocExtended(steno_private.scratch, size, MCXT_ALLOC_NO_OOM);
}
