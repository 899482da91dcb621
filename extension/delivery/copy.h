/*
 * extension/delivery/copy.h
 *		Private copies of records: what is kept of a query whose record cannot stay in the
 *		ring (copy.c).
 */
#ifndef STENO_COPY_H
#define STENO_COPY_H

#include "base/facts.h"
#include "describe/object.h"


#pragma GCC visibility push(hidden)

typedef struct StenoCopy StenoCopy;

extern void steno_copy_install(void);
extern StenoCopy *steno_copy_record(const StenoRecord *record);
extern StenoCopy *steno_copy_message(const StenoRecordMessage *m);
extern void steno_copy_read(const StenoCopy *c, struct StenoObjects *objects, StenoRecord *record);
extern void steno_copy_release(StenoCopy **mine);

#pragma GCC visibility pop

#endif							/* STENO_COPY_H */
