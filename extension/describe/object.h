/*
 * extension/describe/object.h
 *		The objects of statements: what the files that collect and name them share.
 *
 *		object.c			the lists
 *		object_name.c		types and names, and which tables objects belong to
 *		object_named.c		objects for which no hook is called: those that the statement names
 *		function.c			functions that are called
 */
#ifndef STENO_OBJECT_H
#define STENO_OBJECT_H

#include "catalog/objectaddress.h"
#include "nodes/parsenodes.h"

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/* ---- object.c ---- */

typedef struct StenoObjects StenoObjects;

/* Called to add a relation to a statement; access is a STENO_ACCESS_*. */
typedef void (*StenoAddRelation) (Oid relid, uint32 access);

extern void steno_objects_install(void);
extern StenoObjects *steno_objects_new(void);
extern bool steno_objects_have_call(StenoObjects *list, Oid function);
extern void steno_objects_add_call(StenoObjects *list, Oid function, const char *kind, const char *name);
extern void steno_objects_add_pending_call(Oid function, const char *kind, const char *name);
extern void steno_objects_called(StenoObjects *list, Oid function);
extern void steno_objects_adopt(StenoStatement *s);
extern void steno_objects_name(StenoStatement *s, Node *utility, StenoAddRelation add_relation);
extern uint32 steno_objects_size(StenoObjects *list, uint32 room, int *further, int *omitted);
extern uint8 *steno_objects_put(uint8 *p, const StenoObjects *list);
extern uint64 steno_objects_further_size(const StenoObjects *list);
extern uint8 *steno_objects_put_further(uint8 *p, const StenoObjects *list);
extern void steno_objects_release(StenoObjects **mine);
extern void steno_objects_release_all(void);
extern void steno_objects_forget_pending(void);
extern void steno_objects_add(StenoObjects *list, Oid class, Oid oid, int sub, int action);
extern void steno_objects_add_part(StenoObjects *list, Oid class, Oid oid, int sub, bool created);
extern void steno_objects_add_index(StenoObjects *list, Oid index);
extern void steno_objects_add_written(StenoObjects *list, const char *type, const char *name, int action);
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
extern bool steno_object_constraint(Oid constraint, Oid *table, Oid *references);

/* ---- object_named.c ---- */

extern bool steno_objects_are_named(Node *statement);
extern bool steno_objects_are_expected(Node *statement);
extern void steno_objects_expect_named(StenoObjects *list, Node *statement);
extern void steno_objects_add_named(StenoObjects *list, Node *statement);

/* ---- function.c ---- */

extern const char *steno_function_name(Oid function, bool catalog, const char **kind);

#pragma GCC visibility pop

#endif							/* STENO_OBJECT_H */
