/*
 * extension/t/background.c
 *		A module with a background worker that runs SQL as extensions' schedulers do, and a function that
 *		sets the current role past the setting "role".
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void background_main(Datum arg);

PG_FUNCTION_INFO_V1(run_in_background);
PG_FUNCTION_INFO_V1(become);

typedef struct Order
{
	Oid			database;
	Oid			role;
	bool		is_message;		/* the text is the process's debug_query_string */
	char		sql[BGW_EXTRALEN - 3 * sizeof(Oid)];
} Order;

StaticAssertDecl(sizeof(Order) <= BGW_EXTRALEN, "an order fits");

void
background_main(Datum arg)
{
	static Order order;			/* its text is still asked for when an error has left this function */

	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(order.database, order.role, 0);
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	if (order.is_message)
	{
		debug_query_string = order.sql;
		(void) pg_parse_query(order.sql);
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	SPI_execute(order.sql, false, 0);
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	proc_exit(0);
}

/* run_in_background(role, sql, is_message): returns when it has ended. */
Datum
run_in_background(PG_FUNCTION_ARGS)
{
	BackgroundWorker worker = {.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION};
	BackgroundWorkerHandle *handle;
	Order		order = {.database = MyDatabaseId};

	order.role = get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(0)), false);
	snprintf(order.sql, sizeof(order.sql), "%s", text_to_cstring(PG_GETARG_TEXT_PP(1)));
	order.is_message = PG_GETARG_BOOL(2);
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	/* the file is in the data directory */
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "./background");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "background_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "scheduler");
	snprintf(worker.bgw_type, BGW_MAXLEN, "scheduler");
	memcpy(worker.bgw_extra, &order, sizeof(order));
	if (!RegisterDynamicBackgroundWorker(&worker, &handle) || WaitForBackgroundWorkerShutdown(handle) != BGWH_STOPPED)
		elog(ERROR, "could not run the worker");
	PG_RETURN_VOID();
}

/* become(role): as extensions do that let a user become another one. */
Datum
become(PG_FUNCTION_ARGS)
{
	SetCurrentRoleId(get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(0)), false), false);
	PG_RETURN_VOID();
}
