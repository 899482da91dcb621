/*
 * extension/t/output.c
 *		Output functions of types that do more than print, for
 *		parameters_are_taken_whole.pl, output_functions_may_fail.pl,
 *		interrupted_executes_have_one_record.pl and durations_are_work.pl.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(number_out);
PG_FUNCTION_INFO_V1(act_out);

/* Numbers below zero cannot be printed. */
Datum
number_out(PG_FUNCTION_ARGS)
{
	int32		number = PG_GETARG_INT32(0);

	SPI_connect();
	SPI_execute("INSERT INTO printed VALUES (1)", false, 0);
	if (number < 0)
		SPI_execute("SELECT 'of the output function' / 0", true, 0);
	SPI_finish();
	PG_RETURN_CSTRING(psprintf("number %d", number));
}

/* Hold all that an error has to release: a connection, a lock, a relation, a buffer. */
static void
hold_all(void)
{
	Relation	relation;

	SPI_connect();
	relation = table_openrv(makeRangeVar("public", "held", -1), AccessExclusiveLock);
	(void) ReadBuffer(relation, 0);
}

/* How often values have been printed outside of subtransactions: for the server's log. */
static int	logged;

/* What it does is in the number; those that return, return it. */
Datum
act_out(PG_FUNCTION_ARGS)
{
	int32		act = PG_GETARG_INT32(0);

	switch (act)
	{
		case 1:					/* fails while it holds everything */
			hold_all();
			LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
			elog(ERROR, "cannot be printed");
			break;
		case 2:					/* returns, and leaves everything */
			hold_all();
			break;
		case 3:					/* runs until it is cancelled */
			hold_all();
			for (;;)
			{
				CHECK_FOR_INTERRUPTS();
				pg_usleep(1000L);
			}
			break;
		case 4:					/* waits for a lock */
			LockRelationOid(RangeVarGetRelid(makeRangeVar("public", "locked", -1), NoLock, false), AccessShareLock);
			break;
		case 5:
			ereport(ERROR, errcode(ERRCODE_DATA_CORRUPTED), errmsg("this value is damaged"));
			break;
		case 6:					/* what a remote server says is not about this statement */
			ereport(ERROR, errcode(ERRCODE_QUERY_CANCELED), errmsg("somebody else was canceled"));
			break;
		case 7:
			SPI_connect();
			SPI_execute("INSERT INTO printed VALUES (1)", false, 0);
			SPI_finish();
			break;
		case 10:
			ereport(ERROR, errcode(ERRCODE_SUCCESSFUL_COMPLETION), errmsg("an error without a code"));
			break;
		case 11:				/* the session is canceled when the server logs that it executes this */
		case 12:				/* when it does so for the second time */
		case 13:				/* terminated */
			if (GetCurrentTransactionNestLevel() == 1 && (++logged % 2 == 0 || act != 12))
			{
				if (act == 13)
					ProcDiePending = true;
				else
					QueryCancelPending = true;
				InterruptPending = true;
			}
			break;
		case 14:				/* takes time */
			pg_usleep(300000L);
			break;
		default:
			break;
	}
	PG_RETURN_CSTRING(psprintf("act %d", act));
}
