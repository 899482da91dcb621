/*
 * extension/sql/show.h
 *		What a record says, as values of SQL: texts in the database's encoding,
 *		parameters as their types print them, relations and objects as composites.
 *
 * Nothing of a record is trusted: whatever its bytes are, a value is shown, or what
 * cannot be shown is replaced; no error is raised for them.
 */
#ifndef STENO_SHOW_H
#define STENO_SHOW_H

#include "base/steno.h"

#include "access/htup.h"
#include "fmgr.h"
#include "funcapi.h"

#pragma GCC visibility push(hidden)

/* No text, and no list of parameters, is shown with more bytes: a row is limited to 1 GB. */
#define STENO_SHOWN_MAX (MaxAllocSize / 4)

/* The composite types that rows contain arrays of. */
typedef struct StenoShownTypes
{
	Oid			relation_type;
	Oid			column_type;
	Oid			object_type;
	TupleDesc	relation;
	TupleDesc	column;
	TupleDesc	object;
} StenoShownTypes;

/* A shape that was parsed.  Its strings point into the bytes that it was parsed from. */
typedef struct StenoShownShape
{
	uint64		class;
	StenoBytes	command;
	uint64		nrelations;
	StenoBytes	relations;
	uint64		nparams;
	StenoBytes	params;
	uint64		nobjects;
	StenoBytes	objects;
	StenoBytes	columns;		/* list of columns; empty: none */
} StenoShownShape;

/*
 * A function that returns rows begins; types are those of its columns, with RECORDARRAYOID for
 * arrays of composites.  The database's declaration of it must be that of this library: values are
 * passed by position, and one of another type in its place would be taken for a pointer.
 */
extern void steno_rows_begin(FunctionCallInfo fcinfo, int columns, const Oid *types);

/*
 * The composite types of two columns of a result, relations and objects.  They live as long as the
 * current memory context.
 */
extern void steno_shown_types(FunctionCallInfo fcinfo, int relations, int objects, StenoShownTypes *types);

/* False if the bytes are not a shape. */
extern bool steno_shape_parse(StenoBytes shape, StenoShownShape *parsed);

/* The server's number of the encoding with this name, that of a session; PG_SQL_ASCII if it is not known. */
extern int	steno_shown_encoding(StenoBytes name);

/* A text of a session with this encoding, in that of the database, or, if that is SQL_ASCII, of the client. */
extern Datum steno_show_text(StenoBytes text, int encoding);

/*
 * The encoding of the name of an object of this type; an empty type stands for roles and databases.  What all databases
 * share has a name in the encoding of one of them, it is not known which.  UTF-8 is hardly ever mistaken for another
 * one.
 */
extern int	steno_name_encoding(StenoBytes type, StenoBytes name, int encoding);
extern int	steno_shown_as(void);

/* Names of records.def; NULL if there is none. */
extern const char *steno_kind_name(uint64 kind);
extern const char *steno_outcome_name(uint64 outcome);
extern const char *steno_event_name(uint64 event);
extern const char *steno_show_class_name(uint64 class);

/* Arrays: reasons for which a statement was recorded; parameters; relations; objects. */
extern Datum steno_show_audited(uint8 audited);
extern Datum steno_show_params(const StenoShownShape *shape, StenoBytes nulls, StenoBytes values, int encoding);
extern Datum steno_show_relations(const StenoShownShape *shape, const StenoShownTypes *types, int encoding);
extern Datum steno_show_objects(const StenoShownShape *shape, const StenoShownTypes *types, int encoding);

/* The ID of a session, as PostgreSQL's %c. */
extern Datum steno_show_session(int64 start, uint32 pid);

#pragma GCC visibility pop

#endif							/* STENO_SHOW_H */
