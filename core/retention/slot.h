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

/* A larger file is not a slot. */
#define STENO_SLOT_MAX_FILE (64 * 1024)

typedef struct StenoSlotPosition
{
	uint32_t	stream;
	uint64_t	segment;		/* it needs this segment and later ones ... */
	uint64_t	block;			/* ... from this block on */
} StenoSlotPosition;

typedef struct StenoSlot
{
	char		name[STENO_SLOT_NAME];
	bool		readable;		/* if not, only the name is known, and the slot needs everything */
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

/* Parse the text of a slot's file, which has everything but the name; sets readable. */
extern bool steno_slot_parse(const char *text, size_t len, StenoSlot *slot);

/*
 * The first segment of a stream that a slot needs.  It needs all segments of a
 * stream that it does not name.
 */
extern uint64_t steno_slot_wants(const StenoSlot *slot, uint32_t stream);

/*
 * Read all slots of a trail.  *error gives the reason if one cannot be read or, if
 * the result is false, their folder.  If there is no folder, there are no slots.
 */
extern bool steno_slots_read(const char *trail, StenoSlots *slots, StenoError *error);
extern void steno_slots_free(StenoSlots *slots);

#endif							/* STENO_SLOT_H */
