/*
 * extension/load/load.h
 *		What is done once, when the library is loaded.
 */
#ifndef STENO_LOAD_H
#define STENO_LOAD_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_settings_define(void);
extern void steno_shmem_install(void);

#pragma GCC visibility pop

#endif							/* STENO_LOAD_H */
