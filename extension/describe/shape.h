/*
 * extension/describe/shape.h
 *		Shapes: what a statement is and does, without its text and the values of its
 *		parameters.  Statements that differ only in these have the same shape, which
 *		a block of the trail contains once.
 */
#ifndef STENO_SHAPE_H
#define STENO_SHAPE_H

#include "base/facts.h"
#include "describe/object.h"
#include "value/param.h"
#include "describe/relation.h"

#pragma GCC visibility push(hidden)

/*
 * What a shape is made from; parts that it does not have are 0 or NULL.  It is on
 * the stack of the function that makes the record, and owns nothing: relations,
 * params and objects are only read.
 */
typedef struct StenoWrittenName
{
	const char *schema;			/* empty: none is written */
	const char *name;
	uint32		access;			/* STENO_ACCESS_* */
} StenoWrittenName;

/* Relations that a statement which has failed names, as they are written (written/written.h). */
#define STENO_WRITTEN_MOST 64

typedef struct StenoWritten
{
	int			count;
	int			omitted;
	int			class;			/* of the statement, if it is a query: STENO_CLASS_READ or WRITE; 0: it is not known */
	int			depth;			/* while they are looked for */
	bool		writes;			/* the same: there is a query that changes data */
	bool		executes;		/* it is EXECUTE, whose query names others */
	const struct StenoScope *scope; /* the same: names that are no relations */
	StenoWrittenName names[STENO_WRITTEN_MOST];
} StenoWritten;

typedef struct StenoShape
{
	int			class;			/* STENO_CLASS_* */
	uint64		query_id;
	const char *command;		/* tag; NULL: SELECT */
	const char *query_command;	/* of the query that a utility statement contains; NULL: SELECT, or none */
	const char *prepared;		/* name of the prepared statement; NULL: none */
	const StenoAccess *relations;
	int			count;			/* of relations */
	int			missing;		/* relations that are not in the list, because there was no memory for them */
	ParamListInfo params;
	bool		failing;		/* an error is being handled: values are encoded without calling
								 * output functions */
	StenoObjects *objects;
	const StenoWritten *written;	/* after relations; NULL: none */
} StenoShape;

/*
 * The shape is the one string of a record that cannot be sent ahead in data parts.
 * What does not fit into three quarters of a message is omitted, and the record
 * says how much that is.  Types of parameters have precedence, but leave space for
 * a few relations.
 */
#define STENO_SHAPE_LIMIT (steno_my.producer.max_message / 4 * 3)

/* ---- shape.c ---- */

/*
 * Encode a record's shape and parameters.  values has room for the parameters; it
 * may be NULL if there are none.  The shape is valid until the next one is encoded.
 */
extern void steno_encode_shape(StenoRecord *record, const StenoShape *what, StenoParams *values);
extern bool steno_shape_find_objects(const uint8 *shape, uint32 len, uint32 *from, uint32 *to);
extern void steno_record_add_extra(StenoRecord *record, const char *name, const char *value);
extern bool steno_record_put_further(StenoRecord *record, const StenoAccess *relations, int from, int count,
									 const StenoObjects *objects);
extern uint8 *steno_put_identifier(uint8 *p, const char *s);
extern void steno_record_add_omitted(StenoRecord *record, const char *name, int count);

/* ---- class.c ---- */

static inline int
steno_query_class(CmdType operation, bool modifying_cte)
{
	return operation == CMD_SELECT && !modifying_cte ? STENO_CLASS_READ : STENO_CLASS_WRITE;
}

/*
 * The command tag of a query.  NULL is SELECT, which then is in the code: the
 * page of our constants is another one to miss.
 */
static inline const char *
steno_query_command(CmdType operation)
{
	switch (operation)
	{
		case CMD_SELECT:
			return NULL;
		case CMD_INSERT:
			return "INSERT";
		case CMD_UPDATE:
			return "UPDATE";
		case CMD_DELETE:
			return "DELETE";
		case CMD_MERGE:
			return "MERGE";
		default:
			return "";
	}
}

/* Whether a query of this kind is one that changes rows. */
static inline bool
steno_changes_rows(CmdType operation)
{
	return operation == CMD_INSERT || operation == CMD_UPDATE || operation == CMD_DELETE || operation == CMD_MERGE;
}

extern int	steno_class_of_utility(Node *statement);
extern uint32 steno_further_classes(Node *statement, int class);

#pragma GCC visibility pop

#endif							/* STENO_SHAPE_H */
