/*
 * extension/session/setting_change.h
 *		Records of changes of our own settings.
 */
#ifndef STENO_SETTING_CHANGE_H
#define STENO_SETTING_CHANGE_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_settings_record(void);
extern void steno_settings_record_failing(void);

#pragma GCC visibility pop

#endif							/* STENO_SETTING_CHANGE_H */
