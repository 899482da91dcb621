/*
 * extension/session/settings_in_force.h
 *		The values of our own settings that are in force in this process, and the records of
 *		their changes.
 */
#ifndef STENO_SETTINGS_IN_FORCE_H
#define STENO_SETTINGS_IN_FORCE_H

#include "base/steno.h"

#include "datatype/timestamp.h"
#include "utils/guc.h"

#pragma GCC visibility push(hidden)

/* For the postmaster and writer 0. */
extern void steno_settings_publish(void);
extern int	steno_settings_configured(const char **pairs);
extern bool steno_settings_reloaded(void (*change) (void *arg, const char *name, const char *from, const char *to),
									void *arg);

/* Find our settings whose changes by a reload steno_settings_reloaded reports. */
extern bool steno_setting_is_recorded(const char *name);

/* A value that is too long, cut as all processes cut it; value has STENO_SETTING_VALUE bytes. */
extern void steno_setting_cut(const char *v, char *value);

/* Where a value comes from, as records show it. */
extern const char *steno_setting_source_name(GucSource source, bool was_of_session);

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
typedef void (*StenoServerSettingChange) (void *arg, const char *name, const char *from, const char *to,
										  const char *file, int line);

extern bool steno_server_settings_compare(bool ours, StenoServerSettingChange change, void *arg);
extern void steno_server_settings_save(void);

/* ---- log_level.c ---- */

typedef void (*StenoRecordSettingAt) (TimestampTz time, const char *name, const char *old, const char *new,
									  const char *source, bool failing);

/* log_min_messages was assigned, and steno_log_level_record is to be called. */
extern bool steno_log_level_assigned;

extern void steno_log_level_install(void);
extern bool steno_log_level_is_due(void);
extern void steno_log_level_record(StenoRecordSettingAt record, bool failing);

/* Whether errors are not reported to the server's log: to that, LOG stands between ERROR and FATAL. */
static inline bool
steno_hides_errors(int level)
{
	return level > ERROR || level == LOG;
}

/* ---- setting_change.c ---- */

extern void steno_setting_changes_record(bool failing);

/* ---- session.c ---- */

extern void steno_settings_record(void);
extern void steno_settings_record_failing(void);

#pragma GCC visibility pop

#endif							/* STENO_SETTINGS_IN_FORCE_H */
