/*
 * core/retention/slot.h
 *		Slots: named reader positions that retention respects, read from their
 *		files.  The steno program writes them; nothing here does.
 */
#ifndef STENO_SLOT_H
#define STENO_SLOT_H

#include "trail/segment.h"

#define STENO_SLOTS_FOLDER "slots"
#define STENO_SLOT_NAME 64
#define STENO_SLOT_STREAMS 256

/* A larger file is no slot. */
#define STENO_SLOT_MAX_FILE (64 * 1024)

typedef struct StenoSlotPosition
{
	uint32_t	stream;
	uint64_t	segment;		/* this one and later ones are wanted ... */
	uint64_t	block;			/* ... from this block on */
} StenoSlotPosition;

typedef struct StenoSlot
{
	char		name[STENO_SLOT_NAME];
	bool		readable;		/* if not, only the name is known, and all is wanted */
	int64_t		created;
	uint32_t	count;
	StenoSlotPosition positions[STENO_SLOT_STREAMS];
} StenoSlot;

typedef struct StenoSlots
{
	StenoSlot  *list;			/* by name */
	uint32_t	count;
} StenoSlots;

extern bool steno_slot_name_is_valid(const char *name);

/* Takes everything but the name from the text of a slot's file; sets readable. */
extern bool steno_slot_parse(const char *text, size_t len, StenoSlot *slot);

/* The first segment of a stream that a slot wants: all, of one that it does not name. */
extern uint64_t steno_slot_wants(const StenoSlot *slot, uint32_t stream);

/*
 * All slots of a trail; *error says why when one, or, with false, their folder,
 * cannot be read.  Without the folder there are none.
 */
extern bool steno_slots_read(const char *trail, StenoSlots *slots, StenoError *error);
extern void steno_slots_free(StenoSlots *slots);

#endif							/* STENO_SLOT_H */
