/*
 * extension/base/local.c
 *		This process's state, in the page that the ring's header replaces.
 */
#include "base/steno.h"

StenoArea	steno_area __attribute__((aligned(STENO_PAGE)));
