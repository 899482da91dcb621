/*
 * core/test/filter/redact_check_bytes.c
 *		redact_check.c as it is where it searches single bytes, without SSE2.
 */
#define STENO_TEST_NO_BLOCKS

/* One program has only one of each name. */
#define steno_redact_trigger bytes_trigger
#define steno_redact_document bytes_document
#define steno_redact_suspect bytes_suspect
#define steno_redact_password_end bytes_password_end

#include "filter/redact_check.c"
