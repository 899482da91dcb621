/*
 * core/fuzz/slot_fuzz.c
 *		Any bytes, as a slot's file and as retention's state file.  A slot has only one
 *		representation: an accepted file, written again, must be the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "retention/retention.h"

int			steno_fuzz_slot(const uint8_t *data, size_t size);

static void
check_deleted(void *arg, uint32_t stream, const StenoDeleted *deleted)
{
	StenoDeletedPairs pairs;

	(void) arg;
	if (stream >= STENO_RETENTION_STREAMS || deleted->at_stream >= STENO_RETENTION_STREAMS ||
		deleted->since == 0 || deleted->since > deleted->first || deleted->first > deleted->last)
		abort();
	steno_deleted_describe(stream, deleted, &pairs);
	if (pairs.count > STENO_DELETED_PAIRS)
		abort();
}

static void
check_slot(const char *text, size_t size)
{
	StenoSlot  *slot = calloc(1, sizeof(StenoSlot));
	char	   *again = malloc(size + 100);
	size_t		len;
	uint32_t	i;

	if (steno_slot_parse(text, size, slot))
	{
		len = (size_t) sprintf(again, "pg_steno slot 1\ncreated %lld\n", (long long) slot->created);
		for (i = 0; i < slot->count && len < size; i++)
			len += (size_t) sprintf(again + len, "stream %u segment %llu block %llu\n",
									slot->positions[i].stream,
									(unsigned long long) slot->positions[i].segment,
									(unsigned long long) slot->positions[i].block);
		if (len != size || memcmp(text, again, len) != 0 || !slot->readable)
			abort();
		if (slot->count > 0 && steno_slot_wants(slot, slot->positions[0].stream) == 0)
			abort();
	}
	else if (slot->readable || steno_slot_wants(slot, 0) != 1)
		abort();
	free(again);
	free(slot);
}

int
steno_fuzz_slot(const uint8_t *data, size_t size)
{
	/* exactly as long as the input, so that a sanitizer detects reads beyond it */
	char	   *text = calloc(size > 0 ? size : 1, 1);

	if (size > 0)
		memcpy(text, data, size);
	check_slot(text, size);
	steno_deleted_parse(text, size, check_deleted, NULL);
	free(text);
	return 0;
}

#ifdef STENO_FUZZER
int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return steno_fuzz_slot(data, size);
}
#endif
