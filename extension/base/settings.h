/*
 * extension/base/settings.h
 *		The variables behind the settings.
 *
 * The server's GUC machinery writes them (load/settings.c defines the settings,
 * with the hooks that check and assign values).  Everyone reads them, but a
 * session records by the copy in steno_my, which changes only after the change
 * has its record.
 */
#ifndef STENO_SETTINGS_H
#define STENO_SETTINGS_H

#pragma GCC visibility push(hidden)

typedef enum StenoDelivery
{
	STENO_DELIVERY_WAIT,
	STENO_DELIVERY_DROP
} StenoDelivery;

/* steno.on_failure */
typedef enum StenoOnFailure
{
	STENO_ON_FAILURE_WAIT,
	STENO_ON_FAILURE_ERROR,
	STENO_ON_FAILURE_CONTINUE,
	STENO_ON_FAILURE_SHUTDOWN
} StenoOnFailure;

/* Longest steno.app_user and steno.app_context, with the zero. */
#define STENO_APP_MAX 128

extern char *steno_log;
extern char *steno_mandatory;
extern char *steno_role;
extern char *steno_rules_file;
extern char *steno_log_start;
extern char *steno_sync;
extern char *steno_app_user;
extern char *steno_app_context;
extern int	steno_start_after;
extern char *steno_directory;
extern char *steno_ring_directory;
extern int	steno_ring_size;
extern int	steno_large_buffers;
extern int	steno_writers;
extern int	steno_flush_interval;
extern int	steno_fsync_interval;
extern int	steno_segment_size;
extern int	steno_rotation_age;
extern int	steno_retention_size;
extern char *steno_retention_age_text;
extern int	steno_retention_age;	/* the same in minutes */
extern int	steno_slot_max_size;
extern int	steno_compression;
extern int	steno_block_size;
extern int	steno_file_mode;
extern char *steno_signing_key_file;
extern int	steno_seal_interval;
extern char *steno_encryption_key_command;
extern int	steno_on_failure;
extern int	steno_stall_timeout;
extern int	steno_disk_reserve;
extern int	steno_disk_warning;
extern char *steno_alert_command;

/*
 * The values that the server has for the settings that decide what a session records.
 * They are in force, as copies in steno_my, only once their change has its record
 * (session/settings_in_force.c).
 */
typedef struct StenoWanted
{
	uint32		session_mask;	/* steno.log, a bit for each class */
	uint32		start_mask;		/* steno.log_start */
	uint32		sync_mask;		/* steno.sync */
	int			delivery;
	int			log_parameter_max_size;
	bool		log_nested;
	bool		log_parameter;
	bool		log_catalog;
	bool		log_referential;
	bool		log_scripts;
	bool		log_statement;
	bool		log_relation;
	bool		log_rows;
	bool		sync_start;		/* steno.sync waits at starts, too */
	char		role[NAMEDATALEN];
} StenoWanted;

extern StenoWanted steno_wanted;
extern char steno_audit_role[NAMEDATALEN];	/* steno.role, in force */

#pragma GCC visibility pop

#endif							/* STENO_SETTINGS_H */
