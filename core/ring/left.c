/*
 * core/ring/left.c
 *		Giving back the memory of a ring file that a dead server has left.
 *
 * Recovery reads the headers of all rings.  Of a ring, it reads the messages between
 * tail and head and the staged record behind them, with the templates and chunks to
 * which these refer.  All else is given back, page by page.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "ring/check.h"
#include "ring/chunk.h"
#include "ring/left.h"

/* Give back the whole pages in a part of the mapping. */
static void
give_back(uint8_t *from, uint8_t *to)
{
#ifdef MADV_REMOVE
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	first = ((uintptr_t) from + page - 1) / page * page;
	uintptr_t	end = (uintptr_t) to / page * page;

	if (first < end)
		(void) madvise((void *) first, end - first, MADV_REMOVE);
#else
	(void) from;
	(void) to;
#endif
}

/* Give back the data of a ring from one position to another, which is less than a ring's size ahead. */
static void
give_back_data(const StenoRings *rings, uint32_t i, uint64_t from, uint64_t to)
{
	uint8_t    *data = steno_ring_data(rings, i);
	uint64_t	begin = from & (rings->size - 1);
	uint64_t	len = to - from;

	if (begin + len <= rings->size)
		give_back(data + begin, data + begin + len);
	else
	{
		give_back(data + begin, data + rings->size);
		give_back(data, data + (begin + len - rings->size));
	}
}

static void
shrink_ring(const StenoRings *rings, uint32_t i)
{
	StenoRing  *ring = steno_ring_at(rings, i);
	uint64_t	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t	tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	const StenoInFlight *f = &ring->inflight;
	const StenoMessage *staged = NULL;

	/* damage is evidence */
	if (!steno_ring_check_positions(rings, i))
		return;
	/* the entry still points to the record of a statement that has ended, which is before the head */
	if (f->active && (f->done == 0 || head < f->done))
		staged = steno_ring_check_staged(rings, i);
	if (staged != NULL)
	{
		/* it is not published: behind the head, perhaps at the beginning of the data */
		uint64_t	at = (uint64_t) ((const uint8_t *) staged - steno_ring_data(rings, i));

		head += ((at - head) & (rings->size - 1)) + staged->len;
	}
	if (head - tail < rings->size)
		give_back_data(rings, i, head, tail + rings->size);
	if (head == tail)
	{
		StenoTemplate *templates = steno_ring_templates(rings, i);

		give_back((uint8_t *) templates, (uint8_t *) (templates + STENO_TEMPLATES));
	}
}

void
steno_rings_shrink(const StenoRings *rings)
{
	uint32_t	i;

	for (i = 0; i < rings->nrings; i++)
		shrink_ring(rings, i);
	for (i = 0; i < rings->nchunks; i++)
		if (steno_chunk_is_free(rings, i))
			give_back(steno_chunk_bytes(rings, i), steno_chunk_bytes(rings, i) + STENO_CHUNK);
}

uint64_t
steno_rings_shrunk(uint32_t nrings)
{
	/* the states of the chunks, which are not given back, fit two pages */
	uint64_t	other = STENO_RING_MIN + STENO_TEMPLATES * sizeof(StenoTemplate);

	return steno_rings_total(nrings, STENO_RING_MIN, 0) - nrings * other + 2 * STENO_PAGE;
}
