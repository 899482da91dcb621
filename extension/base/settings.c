/*
 * extension/base/settings.c
 *		The variables behind the settings (settings.def).
 */
#include "base/steno.h"

char	   *steno_log;
char	   *steno_mandatory;
char	   *steno_role;
char	   *steno_rules_file;
char	   *steno_log_start;
char	   *steno_sync;
char	   *steno_app_user;
char	   *steno_app_context;
int			steno_start_after;
uint32		steno_mandatory_mask;
char	   *steno_directory;
char	   *steno_ring_directory;
int			steno_ring_size;
int			steno_writers;
int			steno_flush_interval;
int			steno_fsync_interval;
int			steno_segment_size;
int			steno_rotation_age;
int			steno_retention_size;
int			steno_retention_age;
int			steno_slot_max_size;
int			steno_compression;
int			steno_block_size;
int			steno_file_mode;
char	   *steno_signing_key_file;
int			steno_seal_interval;
char	   *steno_encryption_key_command;
int			steno_on_failure;
int			steno_disk_reserve;
int			steno_disk_warning;
char	   *steno_alert_command;
StenoWanted steno_wanted;
char		steno_audit_role[NAMEDATALEN];
