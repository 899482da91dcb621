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

/* Find our settings whose changes by a reload steno_settings_reloaded reports. */
extern bool steno_setting_is_recorded(const char *name);

/* A value as records show it; shown has STENO_SETTING_VALUE bytes. */
extern void steno_setting_show(const char *name, const char *value, char *shown);

/* For sessions. */
typedef void (*StenoRecordSetting) (const char *name, const char *old, const char *new, const char *source,
									bool failing);

extern void steno_settings_assigned(void);
extern void steno_settings_baseline(void);
extern void steno_settings_inherit(void);
extern void steno_settings_put_in_force(StenoRecordSetting record, bool failing);

/* ---- server_settings.c: for writer 0 ---- */

/* file: NULL unless the value is from a file. */
typedef void (*StenoServerSettingChange) (const char *name, const char *from, const char *to,
										  const char *file, int line);

extern bool steno_server_settings_compare(bool ours, StenoServerSettingChange change);
extern void steno_server_settings_save(void);

/* ---- setting_change.c ---- */

extern void steno_settings_record(void);
extern void steno_settings_record_failing(void);

#pragma GCC visibility pop

#endif							/* STENO_SETTINGS_IN_FORCE_H */
