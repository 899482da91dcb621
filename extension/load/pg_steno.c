/*
 * extension/load/pg_steno.c
 *		Loading: settings, shared memory, hooks, writers.
 */
#include "base/steno.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "capture/hooks.h"
#include "delivery/record.h"
#include "describe/object.h"
#include "load/load.h"
#include "policy/policy.h"
#include "policy/secret.h"
#include "session/role.h"
#include "session/session.h"
#include "session/settings_in_force.h"
#include "value/defaults.h"
#include "writer/writer.h"

STENO_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_steno must be loaded by \"shared_preload_libraries\""),
				 errhint("Add \"pg_steno\" to \"shared_preload_libraries\" in postgresql.conf and restart the server.")));

	steno_my.unusual = STENO_U_AT_FIRST;
	steno_settings_define();
	steno_my.policy |= STENO_POLICY_STALE;	/* each session chooses its rules */
	steno_private.scratch = AllocSetContextCreate(TopMemoryContext, "pg_steno record",
										  ALLOCSET_DEFAULT_SIZES);
	steno_clock_init(&steno_my.clock);
	steno_defaults_install();
	steno_shmem_install();
	steno_secret_install();
	steno_session_install();
	steno_log_level_install();
	steno_role_install();
	steno_statement_install();
	steno_copy_install();
	steno_planner_install();
	steno_query_install();
	steno_utility_install();
	steno_transaction_install();
	steno_objects_install();
	steno_object_access_install();
	steno_failure_install();
	steno_outermost_install();
	steno_writer_register();
}
