/*
 * core/test/model.h
 *		Random messages, and whether a decoded record is what a message said.
 */
#ifndef STENO_MODEL_H
#define STENO_MODEL_H

#include "block/block.h"
#include "trail/decode.h"

#define MODEL_SESSION_ROOM (sizeof(StenoSessionMessage) + STENO_SESSION_MAX + 8)

/* The strings of a record to be encoded; a NULL pointer means none. */
typedef struct ModelStrings
{
	const void *shape;
	uint32_t	shape_len;
	const void *text;
	uint32_t	text_len;
	const void *nulls;
	uint32_t	nulls_len;
	const void *values;
	uint32_t	values_len;
	const void *message;
	uint32_t	message_len;
	const void *extra;
	uint32_t	extra_len;
	const StenoParts *parts;
	const StenoCut *cut;
	const StenoEnding *ending;
	const StenoTimes *times;
} ModelStrings;

/* A record message with nothing in it. */
extern StenoRecordMessage model_record(uint16_t kind, uint64_t seq, int64_t time);

/* Append what a flag announces to a brief record, which has its length. */
extern void model_append_brief(StenoBriefMessage *b, uint16_t flag, const void *bytes, uint32_t len);

/* Encode at to (8-aligned); returns the message's length. */
extern uint32_t model_encode(void *to, const StenoRecordMessage *fixed, const ModelStrings *s);
extern uint32_t model_encode_data(void *to, uint64_t seq, uint32_t part, const void *bytes, uint32_t len);
extern uint32_t model_encode_session(void *to, const void *body, uint32_t len,
									 uint64_t seq, uint64_t statement);

/* A session body: start time, process id, and n facts as key, value. */
extern uint32_t model_body(uint8_t *to, int64_t start, uint32_t pid, int n,
						   const uint8_t *keys, const char *const *values);

/* A random record message (at most room bytes; room at least 4096) of any kind and with any fields. */
extern uint32_t model_random(void *to, uint32_t room, uint64_t *random, uint64_t seq, uint64_t *statement);

/* Whether the decoded record or part is this message's, of this session. */
extern bool model_matches(const StenoMessage *m, const void *body, uint32_t body_len,
						  const StenoTrailRecord *r);

#endif							/* STENO_MODEL_H */
