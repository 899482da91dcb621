/*
 * extension/session/setting_change.h
 *		Changes of our own settings.
 */
#ifndef STENO_SETTING_CHANGE_H
#define STENO_SETTING_CHANGE_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_settings_adopt(const StenoWanted *wanted);
extern void steno_settings_record(void);
extern void steno_settings_record_failing(void);
extern void steno_settings_baseline(void);
extern void steno_settings_inherit(void);
extern void steno_settings_publish(void);
extern int	steno_settings_configured(const char **pairs);
extern bool steno_settings_reloaded(void (*change) (const char *name, const char *from, const char *to));

#pragma GCC visibility pop

#endif							/* STENO_SETTING_CHANGE_H */
