/*
 * core/block/dictionary.h
 *		The dictionaries of a block: which sessions, shapes and texts its payload defines, and
 *		under which index.
 *
 * A dictionary does not keep keys: an entry says where the payload has its key.
 */
#ifndef STENO_DICTIONARY_H
#define STENO_DICTIONARY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(hidden)

/*
 * A definition in the payload.  The key of a variant is divided: "before" bytes of the text that ends at
 * base_end and begins at base, the key's own bytes at offset, and the last "after" bytes of that text.
 */
typedef struct StenoDefinition
{
	uint32_t	hash;
	uint32_t	offset;			/* of the key in the payload */
	uint32_t	len;
	uint32_t	index;
	uint32_t	base;
	uint32_t	base_end;		/* 0: the key is not divided */
	uint32_t	before;
	uint32_t	after;
} StenoDefinition;

/*
 * A hash table.  Texts are often unique, so most lookups find nothing: for these, only a
 * slot is read, and the slots in use are few enough to stay in the processor's caches.  They
 * are few at the beginning of each block, and are more only when there are more definitions.
 */
typedef struct StenoDictionary
{
	StenoDefinition *entries;	/* in the order of their definition */
	uint32_t   *slots;			/* number of an entry, plus 1; 0: empty */
	uint32_t	room;			/* for entries; there is space for twice as many slots */
	uint32_t	mask;			/* number of slots in use, minus 1 */
	uint32_t	used;			/* entries */
	uint32_t	defined;		/* definitions in this block */
} StenoDictionary;

/* false: out of memory.  room: how many entries it has at most, a power of two. */
extern bool steno_dictionary_create(StenoDictionary *d, uint32_t room);
extern void steno_dictionary_destroy(StenoDictionary *d);
extern void steno_dictionary_reset(StenoDictionary *d);

/*
 * Remember the definition that is the next one of the block.  A block with very short, unique keys can have more
 * definitions than the dictionary has entries.  A definition that finds none is not remembered; the key is
 * defined again if it occurs again.
 */
extern void steno_dictionary_add(StenoDictionary *d, const StenoDefinition *definition);

static inline bool
has_key(const uint8_t *payload, const StenoDefinition *e, const uint8_t *key)
{
	if (e->base_end == 0)
		return memcmp(payload + e->offset, key, e->len) == 0;
	return memcmp(payload + e->base, key, e->before) == 0 &&
		memcmp(payload + e->offset, key + e->before, e->len - e->before - e->after) == 0 &&
		memcmp(payload + e->base_end - e->after, key + e->len - e->after, e->after) == 0;
}

/*
 * The entry that has the key; NULL if there is none.  At most half of the slots are taken,
 * so the loops here end.
 */
static inline const StenoDefinition *
find_entry(const uint8_t *payload, const StenoDictionary *d, uint32_t hash, const uint8_t *key, uint32_t len)
{
	uint32_t	i;

	for (i = hash & d->mask; d->slots[i] != 0; i = (i + 1) & d->mask)
	{
		const StenoDefinition *e = &d->entries[d->slots[i] - 1];

		if (e->hash == hash && e->len == len && has_key(payload, e, key))
			return e;
	}
	return NULL;
}

#pragma GCC visibility pop

#endif							/* STENO_DICTIONARY_H */
