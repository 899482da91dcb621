/*
 * extension/kept/kept_shape.c
 *		Keeping the shapes of clients' queries.
 *
 * What the ring's page has no room for is in steno_kept_far, which few queries touch.
 */
#include "base/steno.h"

#include "delivery/template.h"
#include "describe/shape.h"
#include "kept/kept_shape.h"

bool
steno_kept_has_far_columns(const StenoKept *k, int relation, const StenoPermission *p)
{
	const StenoKeptFar *far = &steno_kept_far[k - steno_my.kept];
	int			set;
	int			word;

	for (set = 0; set < STENO_COLUMN_SETS; set++)
	{
		const Bitmapset *columns = steno_columns_of(p, set);

		if (columns && columns->nwords > STENO_KEPT_FAR_WORDS + 1)
			return false;
		for (word = 0; word < STENO_KEPT_FAR_WORDS; word++)
			if (steno_columns_word(columns, word + 1) != (k->wide ? far->columns[relation][set][word] : 0))
				return false;
	}
	return true;
}

/* Keep all but the first words of the sets of columns of a relation; false if there are too many. */
STENO_COLD static bool
keep_far_columns(const StenoKept *k, int relation, const StenoPermission *p)
{
	StenoKeptFar *far = &steno_kept_far[k - steno_my.kept];
	int			set;
	int			word;

	for (set = 0; set < STENO_COLUMN_SETS; set++)
	{
		const Bitmapset *columns = steno_columns_of(p, set);

		if (columns && columns->nwords > STENO_KEPT_FAR_WORDS + 1)
			return false;
		for (word = 0; word < STENO_KEPT_FAR_WORDS; word++)
			far->columns[relation][set][word] = steno_columns_word(columns, word + 1);
	}
	return true;
}

/* Keep the columns of the relations; false if there are too many.  What few queries have is far, in other pages. */
static bool
keep_columns(StenoKept *k, const StenoShapeKey *key)
{
	int			set;
	int			i;

	for (i = 0; i < key->count; i++)
		for (set = 0; set < STENO_COLUMN_SETS; set++)
		{
			const Bitmapset *columns = steno_columns_of(key->relations[i], set);

			k->columns[i][set] = steno_columns_word(columns, 0);
			k->wide |= steno_columns_are_wide(columns);
		}
	for (i = 0; k->wide && i < key->count; i++)
		if (!keep_far_columns(k, i, key->relations[i]))
			return false;
	return true;
}

bool
steno_keep_key(StenoKept *k, const StenoShapeKey *key)
{
	int			i;

	/* clear the padding: the bytes of the stack must not be copied to shared memory */
	memset(k, 0, offsetof(StenoKept, shape));
	k->query_id = key->query_id;
	k->operation = key->operation;
	k->class = key->class;
	k->count = key->count;
	if (unlikely(key->prepared != NULL))
	{
		size_t		len = strlen(key->prepared);

		if (len >= NAMEDATALEN)
			return false;		/* the shape has a part of it */
		k->name_len = (uint8) len;
	}
	for (i = 0; i < key->count; i++)
	{
		k->relids[i] = key->relations[i]->relid;
		k->permissions[i] = (uint32) key->relations[i]->requiredPerms;
	}
	return keep_columns(k, key);
}

void
steno_keep_len(StenoKept *k, const StenoRecord *record, uint32 objects)
{
	k->params_len = record->params ? record->params->shape_len : 1;
	k->params = objects - k->params_len;
	k->len = record->shape_len;
}

void
steno_keep_shape(const StenoShapeKey *key, const StenoRecord *record)
{
	StenoKept  *k = &steno_my.kept[steno_my.kept_next];
	uint32		objects;
	uint32		others;
	int			i;

	if (record->shape_len > STENO_KEPT_FAR_ROOM || record->extra_len > 0 ||
		!steno_shape_find_objects(record->shape, record->shape_len, &objects, &others))
		return;
	for (i = 0; i < STENO_PREPARED; i++)
		if (steno_my.prepared[i].kept == steno_my.kept_next)
			steno_forget_prepared(i);
	steno_my.kept_next = (steno_my.kept_next + 1) % STENO_KEPT_SHAPES;
	steno_template_release(&k->template);
	if (!steno_keep_key(k, key))
		return;
	memcpy(record->shape_len <= STENO_KEPT_ROOM ? k->shape : steno_kept_far[k - steno_my.kept].shape,
		   record->shape, record->shape_len);
	steno_keep_len(k, record, objects);
}
