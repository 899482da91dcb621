/*
 * extension/describe/object.h
 *		The objects of statements: what the files that collect and name them share.
 *
 *		object_list.c		the lists
 *		object.c			what is added to them while the statement runs
 *		object_name.c		types and names, and which tables objects belong to
 *		object_named.c		objects for which no hook is called: those that the statement names
 *		object_end.c		what has become of all of them at the end
 */
#ifndef STENO_OBJECT_H
#define STENO_OBJECT_H

#include "catalog/objectaddress.h"
#include "nodes/parsenodes.h"

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/* ---- object_list.c ---- */

/* What has happened to an object. */
typedef struct StenoObjectEvent
{
	Oid			class;			/* the catalog that contains it */
	Oid			oid;
	int32		sub;			/* number of a column; 0: the object itself */
	uint8		action;			/* STENO_ACTION_* */
	bool		named;			/* type and name are known */
	bool		dropped;		/* not to be shown: it is part of another object */
	bool		hidden;			/* likewise, and only what it belongs to is of interest */
	int			next;			/* number of the item before with the same hash, plus 1; 0: none */
	uint32		type;			/* offsets into the list's bytes */
	uint32		name;
	uint32		to;				/* the new name of a renamed object */
} StenoObjectEvent;

typedef struct StenoObjects
{
	struct StenoObjects *next;	/* in the list of lists in use, or of released ones */
	StenoObjectEvent *items;
	int			count;
	int			room;
	int		   *heads;			/* by hash: number of the last item, plus 1; NULL: not many, or no memory */
	int			heads_room;		/* a power of two */
	int			fitting;		/* the number of those that steno_objects_put writes */
	int			after;			/* number of the first item after these */
	int			omitted;		/* objects for which there was no memory */
	bool		unfinished;		/* some have no name yet, or may be renamed */
	char	   *bytes;			/* strings, NUL-terminated; the first is empty */
	uint32		bytes_count;
	uint32		bytes_room;
} StenoObjects;

extern StenoObjects *steno_objects_new(void);
extern uint32 steno_objects_size(StenoObjects *list, uint32 room, int *further, int *omitted);
extern uint8 *steno_objects_put(uint8 *p, const StenoObjects *list);
extern uint64 steno_objects_further_size(const StenoObjects *list);
extern uint8 *steno_objects_put_further(uint8 *p, const StenoObjects *list);
extern void steno_objects_release(StenoObjects **mine);
extern void steno_objects_release_used(void);
extern void steno_objects_install(void);
extern StenoObjectEvent *steno_objects_append(StenoObjects *list, Oid class, Oid oid, int sub, int action);
extern StenoObjectEvent *steno_objects_find(StenoObjects *list, Oid class, Oid oid, int sub);
extern void steno_objects_remove_last(StenoObjects *list);
extern uint32 steno_objects_keep(StenoObjects *list, const char *s);
extern const char *steno_objects_string(const StenoObjects *list, uint32 at);

/* ---- object.c ---- */

/* An event of a list, or to be added to it, for work that steno_object_guarded does. */
typedef struct StenoNaming
{
	StenoObjects *list;
	StenoObjectEvent *item;
} StenoNaming;

/* Argument of steno_objects_add_related. */
typedef struct StenoRelated
{
	StenoObjects *list;
	int			action;
	Oid			except;			/* a table that the record has as a relation */
} StenoRelated;

extern bool steno_objects_have_call(StenoObjects *list, Oid function);
extern void steno_objects_add_call(StenoObjects *list, Oid function, const char *kind, const char *name);
extern void steno_objects_add_pending_call(Oid function, const char *kind, const char *name);
extern void steno_objects_called(StenoObjects *list, Oid function);
extern void steno_objects_adopt(StenoStatement *s);
extern void steno_objects_forget_pending(void);
extern void steno_objects_release_all(void);
extern void steno_objects_add(StenoObjects *list, Oid class, Oid oid, int sub, int action);
extern void steno_objects_add_part(StenoObjects *list, Oid class, Oid oid, int sub, bool created);
extern void steno_objects_add_index(StenoObjects *list, Oid index);
extern void steno_objects_add_written(StenoObjects *list, const char *type, const char *name, int action);
extern void steno_object_name_item(void *naming);
extern void steno_object_number_item(StenoNaming *n);
extern void steno_objects_add_related(const ObjectAddress *object, void *related);
extern void steno_objects_add_table_of(StenoObjects *list, const StenoObjectEvent *column, int action);
extern void steno_objects_expect(StenoObjects *list, Oid class, Oid oid, int action);

/* ---- object_name.c ---- */

/* Called for an object that belongs to another one. */
typedef void (*StenoFoundObject) (const ObjectAddress *object, void *arg);

extern bool steno_object_guarded(void (*work) (void *arg), void *arg);
extern void steno_object_redirect(ObjectAddress *object);
extern bool steno_object_identify(const ObjectAddress *object, char **type, char **name);
extern void steno_object_wholes(const ObjectAddress *part, StenoFoundObject found, void *arg);
extern void steno_object_references(const ObjectAddress *object, const CommandId *since, StenoFoundObject found,
									void *arg);
extern bool steno_object_index_changes(Oid index);
extern const char *steno_function_name(Oid function, bool catalog, const char **kind);
extern bool steno_object_constraint(Oid constraint, Oid *table, Oid *references);

/* ---- object_named.c ---- */

extern bool steno_objects_are_named(Node *statement);
extern bool steno_objects_are_expected(Node *statement);
extern void steno_objects_expect_named(StenoObjects *list, Node *statement);
extern void steno_objects_add_named(StenoObjects *list, Node *statement);

/* ---- object_end.c ---- */

/* Called to add a relation to a statement; access is a STENO_ACCESS_*. */
typedef void (*StenoAddRelation) (Oid relid, uint32 access);

extern void steno_objects_name(StenoStatement *s, Node *utility, StenoAddRelation add_relation);

#pragma GCC visibility pop

#endif							/* STENO_OBJECT_H */
