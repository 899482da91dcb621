/*
 * extension/describe/column.c
 *		Columns that statements read and write, and the views through which they do so.
 *
 * The permissions of a plan name the columns, by their numbers; the server requires them for the
 * relations that a statement names and, with the owner of a view, for those in the view's query.
 * They do not say which view that is, so the relations in a view are looked up in its query, and
 * compared with the permissions that the plan has of it.
 *
 * Like the names of relations, those of columns are looked up when a statement starts.  When its
 * shape is encoded, only the cache is read.  A column whose name is not there is recorded by its
 * number.
 */
#include "base/steno.h"

#include "access/sysattr.h"
#include "catalog/heap.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "port/pg_bitutils.h"
#include "rewrite/prs2lock.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "base/facts.h"
#include "describe/relation.h"
#include "describe/relation_cache.h"
#include "value/defaults.h"

/* ---- what is looked up ---- */

/* Look up the names of a relation's columns. */
static void
look_up_columns(StenoRelation *r)
{
	uint64		before = steno_relation_invalidations;
	Relation	relation = RelationIdGetRelation(r->oid);
	StenoColumnNames *names;
	TupleDesc	columns;
	Size		size;
	int			i;

	if (relation == NULL)
		return;
	columns = relation->rd_att;
	size = offsetof(StenoColumnNames, ends) + (columns->natts + 1) * sizeof(uint32);
	for (i = 0; i < columns->natts; i++)
		if (!TupleDescAttr(columns, i)->attisdropped)
			size += strlen(steno_quote_name(NameStr(TupleDescAttr(columns, i)->attname)));
	names = steno_relation_alloc(size);
	if (names == NULL)
	{
		RelationClose(relation);
		return;					/* columns are recorded by their numbers */
	}
	names->size = size;
	names->count = columns->natts;
	names->ends[0] = offsetof(StenoColumnNames, ends) + (columns->natts + 1) * sizeof(uint32);
	for (i = 0; i < columns->natts; i++)
	{
		const char *name = "";

		if (!TupleDescAttr(columns, i)->attisdropped)
			name = steno_quote_name(NameStr(TupleDescAttr(columns, i)->attname));
		memcpy((char *) names + names->ends[i], name, strlen(name));
		names->ends[i + 1] = names->ends[i] + strlen(name);
	}
	RelationClose(relation);
	steno_relation_keep_columns(r, names);
	if (steno_relation_invalidations == before)
		r->valid |= STENO_RELATION_COLUMNS;
}

/* The search for the relations in a view's query. */
typedef struct InView
{
	Oid			view;
	StenoRelation *r;			/* to which they are added; NULL: they are only counted */
	int			count;
} InView;

static void
add_in_view(StenoRelation *r, const StenoPermission *p)
{
	StenoViewRelation *v = &r->in_view[r->in_view_count];

	v->relid = p->relid;
	v->user_id = p->checkAsUser;
	v->columns = NULL;
	r->in_view_count++;
	v->columns = unconstify(Bitmapset *, steno_columns_add(NULL, p->selectedCols));
}

/* Find the permissions of a query, and of those in it. */
static bool
find_in_view(Node *node, void *arg)
{
	InView	   *in = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		ListCell   *lc;

		foreach(lc, STENO_QUERY_PERMISSIONS((Query *) node))
		{
			StenoPermission *p = (StenoPermission *) lfirst(lc);

			/* before PostgreSQL 17, the query of a view has entries for the view itself */
			if (!STENO_IS_PERMISSION(p) || p->relid == in->view)
				continue;
			in->count++;
			if (in->r)
				add_in_view(in->r, p);
		}
		return query_tree_walker((Query *) node, find_in_view, arg, 0);
	}
	return expression_tree_walker(node, find_in_view, arg);
}

static void
find_in_relation(Relation relation, InView *in)
{
	int			i;

	if (relation->rd_rel->relkind == RELKIND_VIEW && relation->rd_rules)
		for (i = 0; i < relation->rd_rules->numLocks; i++)
			if (relation->rd_rules->rules[i]->event == CMD_SELECT)
				(void) find_in_view((Node *) linitial(relation->rd_rules->rules[i]->actions), in);
}

/* Look up the relations in a view.  If there is no memory for them, the next statement tries again. */
static void
look_up_view(StenoRelation *r)
{
	uint64		before = steno_relation_invalidations;
	Relation	relation = RelationIdGetRelation(r->oid);
	InView		in = {r->oid, NULL, 0};

	if (relation == NULL)
		return;
	find_in_relation(relation, &in);
	steno_relation_forget_view(r);
	if (in.count > 0)
	{
		r->in_view = steno_relation_alloc(in.count * sizeof(StenoViewRelation));
		in.r = r;
		if (r->in_view)
			find_in_relation(relation, &in);
	}
	RelationClose(relation);
	if (steno_relation_invalidations == before && (in.count == 0 || r->in_view))
		r->valid |= STENO_RELATION_VIEW;
}

/* While catalogs can be read: make what steno_columns_put needs of a permission's relation available. */
void
steno_columns_cache(const StenoPermission *p)
{
	StenoRelation *r;

	if (!steno_logs_relations() && !steno_role_is_set())
		return;
	r = steno_relation_enter(p->relid);
	if (r == NULL)
		return;					/* columns are recorded by their numbers */
	if (!(r->valid & STENO_RELATION_COLUMNS) && (p->selectedCols || p->insertedCols || p->updatedCols))
		look_up_columns(r);
	if (!(r->valid & STENO_RELATION_VIEW))
		look_up_view(r);
}

/* ---- sets of columns ---- */

/*
 * The set mine, which is NULL or our own, with the members of more: mine itself or another one,
 * instead of it, in the memory of the state of this process.  If there is no memory, members are
 * missing.
 */
const Bitmapset *
steno_columns_add(const Bitmapset *mine, const Bitmapset *more)
{
	Bitmapset  *all = unconstify(Bitmapset *, mine);
	int			i;

	if (more == NULL)
		return mine;
	if (all == NULL || all->nwords < more->nwords)
	{
		Size		size = offsetof(Bitmapset, words) + more->nwords * sizeof(bitmapword);

		all = MemoryContextAllocExtended(TopMemoryContext, size, MCXT_ALLOC_NO_OOM);
		if (all == NULL)
			return mine;
		memcpy(all, more, size);
		more = mine;
	}
	for (i = 0; more != NULL && i < more->nwords; i++)
		all->words[i] |= more->words[i];
	if (mine != NULL && all != mine)
		pfree(unconstify(Bitmapset *, mine));
	return all;
}

/* ---- entries of a list by their key, for statements with many relations ---- */

/* Shorter lists are searched from one end to the other. */
#define MANY_RELATIONS 64

/* Entries whose keys have the same hash, the last one first.  Numbers are indexes plus 1; 0: none. */
typedef struct Chains
{
	uint32		mask;
	int		   *heads;
	int		   *next;			/* of each entry */
} Chains;

/* Chains for count entries; false if there is no memory for them. */
static bool
start_chains(Chains *c, int count)
{
	uint32		size = pg_nextpower2_32(count);

	c->heads = steno_scratch((size + (Size) count) * sizeof(int));
	if (c->heads == NULL)
		return false;
	memset(c->heads, 0, size * sizeof(int));
	c->mask = size - 1;
	c->next = c->heads + size;
	return true;
}

static void
add_to_chain(Chains *c, uint32 hash, int i)
{
	int		   *head = &c->heads[hash & c->mask];

	c->next[i] = *head;
	*head = i + 1;
}

static uint32
hash_of_oids(Oid one, Oid other)
{
	return hash_combine(murmurhash32(one), murmurhash32(other));
}

/* ---- what a plan does with relations ---- */

/* How well a permission of a plan fits a relation in a view, from the worst to the best. */
typedef enum Fit
{
	FIT_NONE,
	FIT_RELATION,				/* it is the same relation, read for the same user */
	FIT_COLUMNS					/* and the same columns of it */
} Fit;

static Fit
fit_of(const StenoPermission *p, const StenoAccess *access, const StenoViewRelation *v)
{
	if (p->relid != v->relid || p->checkAsUser != v->user_id || OidIsValid(access->via))
		return FIT_NONE;
	/* an automatically updatable view passes other columns on */
	return bms_equal(p->selectedCols, v->columns) ? FIT_COLUMNS : FIT_RELATION;
}

/*
 * Find the relations that the plan reaches through a view.  found has those of the permissions
 * whose relations are recorded, in their order.  A view that a plan names twice has each of its
 * relations twice.  Of several that fit equally well, the last one is chosen, because those that
 * the statement names come first.
 */
static void
find_through_view(const List *permissions, StenoAccess *found, int count, int view)
{
	const StenoRelation *r = steno_relation_find(found[view].relid);
	int			i;

	for (i = 0; r && i < r->in_view_count; i++)
	{
		const StenoViewRelation *v = &r->in_view[i];
		StenoAccess *best = NULL;
		Fit			fit = FIT_RELATION;
		int			n = 0;
		ListCell   *lc;

		foreach(lc, permissions)
		{
			const StenoPermission *p = lfirst(lc);
			Fit			one;

			if (!STENO_IS_PERMISSION(p))
				continue;
			if (n == count)
				break;
			one = n == view ? FIT_NONE : fit_of(p, &found[n], v);
			if (one >= fit)
			{
				fit = one;
				best = &found[n];
			}
			n++;
		}
		if (best)
			best->via = found[view].relid;
	}
}

/*
 * The last entry of a chain that fits so well, and that is not reached through a view yet.  Those that are
 * leave the chain, so each of them is met once.
 */
static StenoAccess *
take_last(Chains *c, uint32 hash, const StenoPermission *const *permissions, StenoAccess *found, int view,
		  const StenoViewRelation *v, Fit fit)
{
	int		   *link = &c->heads[hash & c->mask];

	while (*link != 0)
	{
		int			n = *link - 1;

		if (OidIsValid(found[n].via))
		{
			*link = c->next[n];
			continue;
		}
		if (n != view && fit_of(permissions[n], &found[n], v) >= fit)
			return &found[n];
		link = &c->next[n];
	}
	return NULL;
}

/*
 * The same as find_through_view, of all views, in a time that grows with the number of relations
 * instead of its square.  False if there is no memory for that.
 */
STENO_COLD static bool
find_through_views(const List *list, StenoAccess *found, int count)
{
	const StenoPermission **permissions = steno_scratch(count * sizeof(StenoPermission *));
	Chains		same;			/* by relation, user and columns that are read */
	Chains		any;			/* by relation and user */
	ListCell   *lc;
	int			n = 0;
	int			i;
	int			view;

	if (permissions == NULL || !start_chains(&same, count) || !start_chains(&any, count))
		return false;
	foreach(lc, list)
	{
		const StenoPermission *p = lfirst(lc);
		uint32		hash = hash_of_oids(p->relid, p->checkAsUser);

		if (!STENO_IS_PERMISSION(p))
			continue;
		if (n == count)
			break;
		permissions[n] = p;
		add_to_chain(&same, hash_combine(hash, bms_hash_value(p->selectedCols)), n);
		add_to_chain(&any, hash, n);
		n++;
	}
	for (view = 0; view < count; view++)
	{
		const StenoRelation *r = steno_relation_find(found[view].relid);

		for (i = 0; r && i < r->in_view_count; i++)
		{
			const StenoViewRelation *v = &r->in_view[i];
			uint32		hash = hash_of_oids(v->relid, v->user_id);
			StenoAccess *best = take_last(&same, hash_combine(hash, bms_hash_value(v->columns)),
										  permissions, found, view, v, FIT_COLUMNS);

			if (best == NULL)
				best = take_last(&any, hash, permissions, found, view, v, FIT_RELATION);
			if (best)
				best->via = found[view].relid;
		}
	}
	return true;
}

/* Merge entry i into entry j, the first one of its kind. */
static inline void
merge(StenoAccess *found, int j, int i)
{
	found[i].first = j;
	found[i].next = found[j].next;
	found[j].next = i;
	found[j].access |= found[i].access;
}

/* Merge entries of the same relation and view; false if there is no memory to do so fast. */
STENO_COLD static bool
merge_many(StenoAccess *found, int count)
{
	Chains		firsts;
	int			i;

	if (!start_chains(&firsts, count))
		return false;
	for (i = 0; i < count; i++)
	{
		uint32		hash = hash_of_oids(found[i].relid, found[i].via);
		int			j = firsts.heads[hash & firsts.mask];

		while (j != 0 && (found[j - 1].relid != found[i].relid || found[j - 1].via != found[i].via))
			j = firsts.next[j - 1];
		if (j != 0)
			merge(found, j - 1, i);
		else
			add_to_chain(&firsts, hash, i);
	}
	return true;
}

/*
 * Collect what a plan does with relations from its permissions; returns the number of entries, at
 * most room.
 */
STENO_HOT int
steno_accesses_of(List *permissions, StenoAccess *found, int room)
{
	ListCell   *lc;
	int			count = 0;
	int			i;
	int			j;

	foreach(lc, permissions)
	{
		const StenoPermission *p = (const StenoPermission *) lfirst(lc);

		if (!STENO_IS_PERMISSION(p))
			continue;
		if (count == room)
			break;
		found[count] = (StenoAccess) {.relid = p->relid, .access = steno_access_of(p->requiredPerms), .first = count};
		for (i = 0; i < STENO_COLUMN_SETS; i++)
			found[count].columns[i] = steno_columns_of(p, i);
		count++;
	}
	if (likely(count < 2))
		return count;
	if (likely(count < MANY_RELATIONS) || !find_through_views(permissions, found, count))
		for (i = 0; i < count; i++)
			find_through_view(permissions, found, count, i);
	if (unlikely(count >= MANY_RELATIONS) && merge_many(found, count))
		return count;
	for (i = 1; i < count; i++)
		for (j = 0; j < i; j++)
			if (found[j].relid == found[i].relid && found[j].via == found[i].via)
			{
				merge(found, j, i);
				break;
			}
	return count;
}

/* ---- in the shape ---- */

/* Where columns are put; p is NULL if they are only counted. */
typedef struct Output
{
	uint8	   *p;
	uint32		size;			/* bytes so far */
	uint32		limit;
} Output;

static void
output_number(Output *out, uint64 n)
{
	if (out->p)
		out->p = steno_put_varint(out->p, n);
	out->size += steno_varint_size(n);
}

static void
output_string(Output *out, const char *s, uint32 len)
{
	output_number(out, len);
	if (out->p)
	{
		memcpy(out->p, s, len);
		out->p += len;
	}
	out->size += len;
}

/*
 * The sets of columns of a relation: the union of those of all entries that are merged into it, one
 * word at a time.  Returns the columns in any of them.
 */
static bitmapword
word_of(const StenoAccess *relations, int first, int word, bitmapword sets[STENO_COLUMN_SETS])
{
	bitmapword	any = 0;
	int			i;
	int			set;

	memset(sets, 0, STENO_COLUMN_SETS * sizeof(bitmapword));
	for (i = first;; i = relations[i].next)
	{
		for (set = 0; set < STENO_COLUMN_SETS; set++)
			if (relations[i].columns[set] && word < relations[i].columns[set]->nwords)
				any |= sets[set] |= relations[i].columns[set]->words[word];
		if (relations[i].next == 0)
			return any;
	}
}

/* How many words these sets have. */
static int
words_of(const StenoAccess *relations, int first)
{
	int			words = 0;
	int			i;
	int			set;

	for (i = first;; i = relations[i].next)
	{
		for (set = 0; set < STENO_COLUMN_SETS; set++)
			if (relations[i].columns[set])
				words = Max(words, relations[i].columns[set]->nwords);
		if (relations[i].next == 0)
			return words;
	}
}

/* The name of a column; the caller has room for a number. */
static const char *
column_name(const StenoRelation *r, AttrNumber column, char number[16], uint32 *len)
{
	const char *name;

	if (column == InvalidAttrNumber)
		name = "*";				/* a column of this name is quoted */
	else if (column < 0)
		name = NameStr(SystemAttributeDefinition(column)->attname);
	else if (r && r->names && column <= r->names->count && r->names->ends[column] > r->names->ends[column - 1])
	{
		*len = r->names->ends[column] - r->names->ends[column - 1];
		return (const char *) r->names + r->names->ends[column - 1];
	}
	else
	{
		snprintf(number, 16, "%d", column);	/* a column of this name is quoted */
		name = number;
	}
	*len = strlen(name);
	return name;
}

/*
 * Put the columns of one relation, as far as they fit; *omitted counts the others.  The list then
 * ends with an empty name, which has the accesses to them.
 */
static void
put_columns_of(Output *out, const StenoAccess *relations, int first, int *omitted)
{
	const StenoRelation *r = steno_relation_find(relations[first].relid);
	int			words = words_of(relations, first);
	Output		end = *out;
	uint32		fitting = 0;
	uint32		left_out = 0;
	int			pass;

	/* which fit, and then these */
	for (pass = 0; pass < 2; pass++)
	{
		uint32		left = fitting;
		int			word;

		if (pass == 0)
			end.p = NULL;
		else
		{
			output_number(out, fitting + (left_out ? 1 : 0));
			end = *out;
		}
		for (word = 0; word < words; word++)
		{
			bitmapword	sets[STENO_COLUMN_SETS];
			bitmapword	any = word_of(relations, first, word, sets);

			for (; any != 0; any &= any - 1)
			{
				int			bit = pg_rightmost_one_pos64((uint64) any);
				bitmapword	mask = (bitmapword) 1 << bit;
				uint32		access = 0;
				char		number[16];
				uint32		len;
				const char *name;
				int			set;

				for (set = 0; set < STENO_COLUMN_SETS; set++)
					if (sets[set] & mask)
						access |= 1 << set;
				name = column_name(r, word * BITS_PER_BITMAPWORD + bit + FirstLowInvalidHeapAttributeNumber,
								   number, &len);
				if (pass == 0)
				{
					if (left_out || end.size + len + 2 * STENO_VARINT_MAX > out->limit)
					{
						left_out |= access;
						++*omitted;
						continue;
					}
					fitting++;
				}
				else if (left == 0)
					continue;
				else
					left--;
				output_number(&end, access);
				output_string(&end, name, len);
			}
		}
	}
	*out = end;
	if (left_out)
	{
		output_number(out, left_out);
		output_string(out, "", 0);
	}
}

/* The relations that are put, by their OIDs, if there are many. */
typedef struct Shown
{
	bool		many;
	Chains		chains;			/* the first one of each relation */
	int		   *indexes;		/* among those that are put, from 1 */
} Shown;

STENO_COLD static void
index_many(Shown *shown, const StenoAccess *relations, int count)
{
	int			index = 0;
	int			i;

	shown->indexes = steno_scratch(count * sizeof(int));
	if (shown->indexes == NULL || !start_chains(&shown->chains, count))
		return;
	shown->many = true;
	for (i = 0; i < count; i++)
		shown->indexes[i] = steno_relation_is_shown(relations, i) ? ++index : 0;
	for (i = count - 1; i >= 0; i--)	/* so that the first one comes first */
		if (shown->indexes[i] != 0)
			add_to_chain(&shown->chains, murmurhash32(relations[i].relid), i);
}

/* The index of a view among the relations that are put, from 1; 0: it is not there. */
static int
index_of_view(const Shown *shown, const StenoAccess *relations, int count, Oid view)
{
	int			index = 0;
	int			i;

	if (!OidIsValid(view))
		return 0;
	if (unlikely(shown->many))
	{
		for (i = shown->chains.heads[murmurhash32(view) & shown->chains.mask]; i != 0; i = shown->chains.next[i - 1])
			if (relations[i - 1].relid == view)
				return shown->indexes[i - 1];
		return 0;
	}
	for (i = 0; i < count; i++)
		if (steno_relation_is_shown(relations, i))
		{
			index++;
			if (relations[i].relid == view)
				return index;
		}
	return 0;
}

/*
 * Put the columns of all relations that are shown, or only count the bytes, if p is NULL; returns
 * the number of bytes.  They are at most limit, if it has STENO_COLUMNS_LEAST for each of these
 * relations: what the later ones need at least is not used for the columns of the earlier ones.
 * *omitted is the number of columns that do not fit.
 */
uint32
steno_columns_put(uint8 *p, const StenoAccess *relations, int count, uint32 limit, int *omitted)
{
	Output		out = {p, 0, limit};
	Shown		shown;
	int			i;

	shown.many = false;
	if (unlikely(count >= MANY_RELATIONS))
		index_many(&shown, relations, count);
	*omitted = 0;
	for (i = 0; i < count; i++)
		if (steno_relation_is_shown(relations, i))
			out.limit -= Min(out.limit, STENO_COLUMNS_LEAST);
	for (i = 0; i < count; i++)
	{
		if (!steno_relation_is_shown(relations, i))
			continue;
		out.limit += STENO_COLUMNS_LEAST;
		output_number(&out, index_of_view(&shown, relations, count, relations[i].via));
		put_columns_of(&out, relations, i, omitted);
	}
	return out.size;
}

/* ---- behind the values ---- */

/* Put the columns of a relation that has no space in the shape, all of them; without p, only count the bytes. */
static void
put_further_columns(Output *out, const Shown *shown, const StenoAccess *relations, int count, int i)
{
	int			omitted = 0;

	output_number(out, index_of_view(shown, relations, count, relations[i].via));
	put_columns_of(out, relations, i, &omitted);
}

static void
index_shown(Shown *shown, const StenoAccess *relations, int count)
{
	shown->many = false;
	if (count >= MANY_RELATIONS)
		index_many(shown, relations, count);
}

/* How many of the first relations are put. */
static int
count_shown(const StenoAccess *relations, int count)
{
	int			n = 0;
	int			i;

	for (i = 0; i < count; i++)
		if (steno_relation_is_shown(relations, i))
			n++;
	return n;
}

/*
 * A relation in the shape may be reached through a view that is not there: the shape cannot refer to it, so
 * that stands behind the values, too.
 */
static uint8 *
put_via(uint8 *p, const Shown *shown, const StenoAccess *relations, int from, int count)
{
	int			most = count_shown(relations, from);
	int			index = 0;
	int			i;

	for (i = 0; i < from; i++)
	{
		int			view;
		uint8	   *end;

		if (!steno_relation_is_shown(relations, i))
			continue;
		index++;
		view = index_of_view(shown, relations, count, relations[i].via);
		if (view <= most)
			continue;
		end = steno_put_varint(p + STENO_FURTHER_HEAD, index);
		p = steno_further_end(p, STENO_FURTHER_VIA, steno_put_varint(end, view));
	}
	return p;
}

/* The most bytes that the relations from an index on, which have no space in the shape, take behind the values. */
STENO_COLD uint64
steno_relations_further_size(const StenoAccess *relations, int from, int count)
{
	uint64		size = from * (uint64) (STENO_FURTHER_HEAD + 2 * STENO_VARINT_MAX);
	Shown		shown;
	int			i;

	index_shown(&shown, relations, count);
	for (i = from; i < count; i++)
	{
		Output		out = {NULL, 0, PG_UINT32_MAX};

		if (!steno_relation_is_shown(relations, i))
			continue;
		put_further_columns(&out, &shown, relations, count, i);
		size += STENO_FURTHER_HEAD + steno_relation_size(relations[i].relid) + out.size;
	}
	return size;
}

/* Put these. */
STENO_COLD uint8 *
steno_relations_put_further(uint8 *p, const StenoAccess *relations, int from, int count)
{
	Shown		shown;
	int			i;

	index_shown(&shown, relations, count);
	for (i = from; i < count; i++)
	{
		Output		out = {NULL, 0, PG_UINT32_MAX};

		if (!steno_relation_is_shown(relations, i))
			continue;
		out.p = steno_relation_put(p + STENO_FURTHER_HEAD, relations[i].relid, relations[i].access);
		put_further_columns(&out, &shown, relations, count, i);
		p = steno_further_end(p, STENO_FURTHER_RELATION, out.p);
	}
	return put_via(p, &shown, relations, from, count);
}
