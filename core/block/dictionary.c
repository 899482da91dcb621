/*
 * core/block/dictionary.c
 *		The dictionaries of a block: adding to them.
 *
 * Looking up a key, which happens for each record, is inline in the header.
 */
#include <stdlib.h>

#include "block/dictionary.h"

/* Slots in use at the beginning of a block. */
#define FEW_SLOTS 64

bool
steno_dictionary_create(StenoDictionary *d, uint32_t room)
{
	d->room = room;
	d->entries = malloc(room * sizeof(StenoDefinition));
	d->slots = malloc(2 * (size_t) room * sizeof(uint32_t));
	return d->entries != NULL && d->slots != NULL;
}

void
steno_dictionary_destroy(StenoDictionary *d)
{
	free(d->entries);
	free(d->slots);
}

void
steno_dictionary_reset(StenoDictionary *d)
{
	d->used = 0;
	d->defined = 0;
	d->mask = FEW_SLOTS - 1;
	memset(d->slots, 0, FEW_SLOTS * sizeof(uint32_t));
}

/* Let an empty slot lead to an entry. */
static inline void
take_slot(StenoDictionary *d, uint32_t entry)
{
	uint32_t	i = d->entries[entry].hash & d->mask;

	while (d->slots[i] != 0)
		i = (i + 1) & d->mask;
	d->slots[i] = entry + 1;
}

/* Use four times as many slots, or as many as there are. */
static void
use_more_slots(StenoDictionary *d)
{
	uint32_t	n = (d->mask + 1) * 4;
	uint32_t	i;

	if (n > 2 * d->room)
		n = 2 * d->room;
	d->mask = n - 1;
	memset(d->slots, 0, n * sizeof(uint32_t));
	for (i = 0; i < d->used; i++)
		take_slot(d, i);
}

void
steno_dictionary_add(StenoDictionary *d, const StenoDefinition *definition)
{
	if (d->used == d->room)
		return;
	d->entries[d->used] = *definition;
	d->entries[d->used].index = d->defined;
	if (2 * d->used > d->mask)
		use_more_slots(d);
	take_slot(d, d->used++);
}
