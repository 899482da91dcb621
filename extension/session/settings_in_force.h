/*
 * extension/session/settings_in_force.h
 *		The values of our own settings that are in force in this process, and the records of
 *		their changes.
 */
#ifndef STENO_SETTINGS_IN_FORCE_H
#define STENO_SETTINGS_IN_FORCE_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/* For the postmaster and writer 0. */
extern void steno_settings_publish(void);
extern int	steno_settings_configured(const char **pairs);
extern bool steno_settings_reloaded(void (*change) (const char *name, const char *from, const char *to));

/* For sessions. */
typedef void (*StenoRecordSetting) (const char *name, const char *old, const char *new, const char *source,
									bool failing);

extern void steno_settings_assigned(void);
extern void steno_settings_baseline(void);
extern void steno_settings_inherit(void);
extern void steno_settings_put_in_force(StenoRecordSetting record, bool failing);

/* ---- setting_change.c ---- */

extern void steno_settings_record(void);
extern void steno_settings_record_failing(void);

#pragma GCC visibility pop

#endif							/* STENO_SETTINGS_IN_FORCE_H */
