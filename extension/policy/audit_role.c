/*
 * extension/policy/audit_role.c
 *		Object auditing: which statements use a privilege that steno.role has.
 *
 * What the role has on a relation is kept in a cache of this process, made from
 * the relation's own access control list and those of its columns, and
 * invalidated by changes of the relation, of roles and their memberships, and of
 * the setting.  A statement's permissions are then compared with it: no catalog
 * is read in the steady state.
 *
 * The role has what is granted to it, or to a role whose privileges it has.
 * Grants to PUBLIC do not count, nor does what ownership gives while no list
 * says it: else every relation would be audited.
 *
 * If there is no memory for what the role has, the statement is audited: more may be recorded
 * than was asked for, but nothing less.
 *
 * Statements are judged when they start, when catalogs can be read.  Later, and in
 * failures, steno_audit_known reads the cache alone: an entry that was
 * invalidated keeps what it says until the next statement that asks.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "describe/relation_cache.h"
#include "policy/audit_role.h"
#include "policy/policy.h"

/* Privileges that are looked at, and those of them that columns can have. */
#define PRIVILEGES (ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE)
#define COLUMN_PRIVILEGES (ACL_SELECT | ACL_INSERT | ACL_UPDATE)

/* The role of the setting. */
static Oid	role;
static bool role_valid;
static bool missing_told;		/* the server's log says that there is none of that name */

static void
forget_audit_role(void)
{
	role_valid = false;
	steno_relations_forget_grants();
}

/* A role or membership has changed. */
static void
roles_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	forget_audit_role();
	/* rules may ask for roles */
	if (steno_my.policy & STENO_POLICY_RULES)
		steno_my.policy |= STENO_POLICY_STALE;
}

/* From now on changes of roles are seen, by object auditing and by the session's rules. */
void
steno_watch_roles(void)
{
	static bool registered;

	if (registered)
		return;
	CacheRegisterSyscacheCallback(AUTHOID, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, roles_changed, (Datum) 0);
	registered = true;
}

/* The setting has changed. */
void
steno_audit_role_changed(void)
{
	missing_told = false;
	forget_audit_role();
}

/* The privileges that a list gives the role. */
static AclMode
privileges_in_acl(Datum list)
{
	Acl		   *acl = DatumGetAclP(list);
	AclMode		mode = 0;
	int			i;

	for (i = 0; i < ACL_NUM(acl); i++)
	{
		AclItem    *item = &ACL_DAT(acl)[i];
		AclMode		gives = item->ai_privs & PRIVILEGES & ~mode;

		if (gives != 0 && item->ai_grantee != ACL_ID_PUBLIC &&
			(item->ai_grantee == role || has_privs_of_role(role, item->ai_grantee)))
			mode |= gives;
	}
	if ((Pointer) acl != DatumGetPointer(list))
		pfree(acl);
	return mode;
}

/* Privileges on a column; attnum may be one that there is not. */
static AclMode
granted_on_column(Oid relid, AttrNumber attnum)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid),
										Int16GetDatum(attnum));
	AclMode		mode = 0;
	Datum		list;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		return 0;
	if (!((Form_pg_attribute) GETSTRUCT(tuple))->attisdropped)
	{
		list = SysCacheGetAttr(ATTNUM, tuple, Anum_pg_attribute_attacl, &isnull);
		if (!isnull)
			mode = privileges_in_acl(list) & COLUMN_PRIVILEGES;
	}
	ReleaseSysCache(tuple);
	return mode;
}

/* Read from the catalogs what the role has on a relation. */
static void
look_up_grants(StenoRelation *r)
{
	uint64		before = steno_relation_invalidations;
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(r->oid));
	StenoGrantedColumn *columns = NULL;
	int			attributes = 0;
	AttrNumber	attnum;
	Datum		list;
	bool		isnull;

	r->granted = 0;
	r->granted_on_any = 0;
	r->column_count = 0;
	r->any_column = false;
	if (HeapTupleIsValid(tuple))
	{
		attributes = ((Form_pg_class) GETSTRUCT(tuple))->relnatts;
		list = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
		if (!isnull)
			r->granted = privileges_in_acl(list);
		ReleaseSysCache(tuple);
	}

	for (attnum = FirstLowInvalidHeapAttributeNumber + 1; attnum <= attributes; attnum++)
	{
		AclMode		mode = attnum == InvalidAttrNumber ? 0 :
			granted_on_column(r->oid, attnum);

		if (mode == 0)
			continue;
		r->granted_on_any |= mode;
		if (r->any_column)
			continue;
		if (columns == NULL)
		{
			if (r->columns)
				pfree(r->columns);
			columns = steno_relation_alloc(sizeof(StenoGrantedColumn) *
										   (attributes - FirstLowInvalidHeapAttributeNumber));
			r->columns = columns;
			r->any_column = columns == NULL;
			if (r->any_column)
				continue;
		}
		columns[r->column_count].member = attnum - FirstLowInvalidHeapAttributeNumber;
		columns[r->column_count++].mode = mode;
	}
	if (steno_relation_invalidations == before && !r->any_column)
		r->valid |= STENO_RELATION_GRANTS;
}

/* The role of the setting; invalid: there is none of that name. */
static Oid
look_up_audit_role(void)
{
	uint64		before;

	if (likely(role_valid))
		return role;
	before = steno_relation_invalidations;
	role = get_role_oid(steno_audit_role, true);
	role_valid = steno_relation_invalidations == before;
	if (!OidIsValid(role) && !missing_told)
	{
		missing_told = true;
		ereport(LOG_SERVER_ONLY,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" of \"steno.role\" does not exist", steno_audit_role),
				 errdetail("No relation is audited through it until it is created."),
				 errhidestmt(true), errhidecontext(true)));
	}
	return role;
}

/* What the role has on a relation, from the cache or the catalogs; NULL: there is no memory for it. */
static const StenoRelation *
relation_grants(Oid relid)
{
	StenoRelation *r = steno_relation_enter(relid);

	/* a failure on the way leaves an entry that is not valid */
	if (r && !(r->valid & STENO_RELATION_GRANTS))
		look_up_grants(r);
	return r;
}

/* Whether there is a role.  From now on changes of roles are seen. */
static bool
has_audit_role(void)
{
	steno_watch_roles();
	return OidIsValid(look_up_audit_role());
}

/* One of the columns of the set with one of the privileges?  No set, or the whole row, is all columns. */
static bool
covers_granted_column(const StenoRelation *r, const Bitmapset *columns, AclMode mode)
{
	int			i;

	if ((r->granted_on_any & mode) == 0)
		return false;
	if (columns == NULL || r->any_column ||
		bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber, columns))
		return true;
	for (i = 0; i < r->column_count; i++)
		if ((r->columns[i].mode & mode) && bms_is_member(r->columns[i].member, columns))
			return true;
	return false;
}

/*
 * Does the statement use a privilege that the role has?  Columns that are written
 * count with every privilege that the statement needs of the relation, as with
 * pgaudit: SELECT on a column audits an update of it that reads another.
 */
static bool
uses_granted(const StenoRelation *r, const StenoPermission *p)
{
	AclMode		used = p->requiredPerms & PRIVILEGES;
	AclMode		columns = used & COLUMN_PRIVILEGES;

	if (r->granted & used)
		return true;
	if ((r->granted_on_any & columns) == 0)
		return false;
	return ((used & ACL_SELECT) && covers_granted_column(r, p->selectedCols, ACL_SELECT)) ||
		((used & ACL_INSERT) && covers_granted_column(r, p->insertedCols, columns)) ||
		((used & ACL_UPDATE) && covers_granted_column(r, p->updatedCols, columns));
}

/* At the start of a statement, or in one that runs: is this permission audited? */
bool
steno_audit_permission(const StenoPermission *p)
{
	const StenoRelation *r;

	if (!STENO_IS_PERMISSION(p) || !has_audit_role())
		return false;
	r = relation_grants(p->relid);
	return r == NULL || uses_granted(r, p);
}

/* As steno_audit_permission, of all permissions of a statement: is one audited? */
bool
steno_audit_permissions(List *permissions)
{
	ListCell   *lc;
	bool		result = false;

	/* all of them, for steno_audit_known */
	foreach(lc, permissions)
		result |= steno_audit_permission(lfirst(lc));
	return result;
}

/* As steno_audit_permission, for privileges on a relation as a whole. */
bool
steno_audit_relation(Oid relid, AclMode mode)
{
	const StenoRelation *r;

	if (!has_audit_role())
		return false;
	r = relation_grants(relid);
	return r == NULL || (r->granted & mode) != 0;
}

/* What steno_audit_permission has said of a permission.  Reads no catalog. */
bool
steno_audit_known(const StenoPermission *p)
{
	const StenoRelation *r = steno_relation_find(p->relid);

	return r != NULL && OidIsValid(role) && uses_granted(r, p);
}
