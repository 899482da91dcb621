/*
 * extension/t/output.c
 *		A type's output function that runs a statement, for
 *		parameters_are_taken_whole.pl.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(number_out);

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
