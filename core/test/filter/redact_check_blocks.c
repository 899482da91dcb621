/*
 * core/test/filter/redact_check_blocks.c
 *		redact_check.c as it is where it searches blocks of 16 bytes, without AVX2.
 */
#define STENO_TEST_NO_WIDE

/* One program has only one of each name. */
#define steno_redact_trigger blocks_trigger
#define steno_redact_document blocks_document
#define steno_redact_suspect blocks_suspect
#define steno_redact_password_end blocks_password_end

#include "filter/redact_check.c"
