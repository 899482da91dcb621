/*
 * extension/policy/policy.c
 *		Applies the rules, and the settings that exclude noise, to the statements of
 *		this session.
 *
 * The rules that can match a session are chosen once, and again when the rules, the
 * session user, memberships or the application name have changed.  What they decide
 * for whole classes goes into steno_my.log_mask, and costs a statement nothing.
 * steno_my.policy is the only word that a statement tests when there are no rules.
 * It is not zero when a statement must be examined more closely, or when the
 * session must find out whether its rules are still valid.
 *
 * A statement is judged when its relations are known: queries at their start,
 * utility statements at their end.  What rules have to know of a relation is
 * in the cache of relations, which alone is read when a statement has failed.
 * Classes of steno.mandatory are not touched.
 *
 * If there is no memory to find out which rule decides, a statement that a rule may ask for is recorded,
 * and everything is hidden that one of the rules may hide (undecided_rule).
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "replication/walsender.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/client.h"
#include "base/compat.h"
#include "describe/relation_cache.h"
#include "filter/rules.h"
#include "policy/audit_role.h"
#include "policy/policy.h"
#include "policy/rules.h"

/* The session's rules, and what they were chosen by. */
static StenoChoice choice STENO_SESSION_DATA;
static const char *chosen_application STENO_SESSION_DATA;	/* for its address alone */
static Oid	chosen_user STENO_SESSION_DATA;		/* InvalidOid: not authenticated yet */
static bool chosen STENO_SESSION_DATA;

#define BIT(class) (1u << (class))

/* ---- start records, and waits for the disk ---- */

/*
 * steno_my.start_mask has a bit for each class whose statements may have start records, or may wait until
 * their records are on disk, and bits for what the session has to look at besides (STENO_START_*).
 * Every statement looks at the mask of its class anyway: a session that asks for none of this does not
 * pay for it.  Nobody but this process reads or sets the mask.
 */

/* What start_mask is made of. */
static uint32 log_start_classes STENO_SESSION_DATA;	/* steno.log_start */
static uint32 sync_classes STENO_SESSION_DATA;		/* steno.sync */
static bool sync_start STENO_SESSION_DATA;	/* they wait before they start, too */
static uint32 rule_classes STENO_SESSION_DATA;		/* a rule with the action sync may match some of their statements */
static uint32 rule_all STENO_SESSION_DATA;			/* of these, those whose statements all match it */

static void
set_start_mask(void)
{
	steno_my.start_mask = (steno_my.start_mask & ~STENO_START_CLASSES) |
		((steno_my.start_mask & STENO_START_SHORT) ? STENO_START_CLASSES :
		 (log_start_classes | sync_classes | rule_classes) & STENO_START_CLASSES);
}

/* Whether statements that begin must look for the reserve of the ring first. */
STENO_COLD void
steno_start_mask_short(bool is_short)
{
	if (is_short)
		steno_my.start_mask |= STENO_START_SHORT;
	else
		steno_my.start_mask &= ~STENO_START_SHORT;
	set_start_mask();
}

/* Settings have come into force. */
void
steno_start_mask_adopt(const StenoWanted *wanted)
{
	log_start_classes = wanted->start_mask;
	sync_classes = wanted->sync_mask;
	sync_start = wanted->sync_start;
	set_start_mask();
}

/* Whether a statement's transaction ends only when the statement's records are on disk. */
bool
steno_is_synced(const StenoStatement *s)
{
	return ((sync_classes | rule_all) & steno_classes_of(s)) != 0 || (s->policy & STENO_S_SYNC);
}

/* Whether it also starts only when its start record is on disk. */
bool
steno_waits_to_start(const StenoStatement *s)
{
	return sync_start && steno_is_synced(s);
}

/* A statement begins one of whose classes is in start_mask: whether it has a start record. */
STENO_COLD bool
steno_start_mask_begin(const StenoStatement *s)
{
	if (steno_is_synced(s))
		steno_my.start_mask |= STENO_START_SYNC;
	return steno_waits_to_start(s) || (log_start_classes & steno_classes_of(s)) != 0;
}

/* A statement is recorded that did not seem to be when it began. */
STENO_COLD void
steno_start_mask_late(const StenoStatement *s)
{
	if ((steno_my.start_mask & steno_classes_of(s)) && steno_is_synced(s))
		steno_my.start_mask |= STENO_START_SYNC;
}

/* A prepared transaction is finished, and what was in it is not known. */
STENO_COLD void
steno_start_mask_prepared(void)
{
	if ((sync_classes | rule_classes) & STENO_START_CLASSES)
		steno_my.start_mask |= STENO_START_SYNC;
}

/* Whether transactions that write wait for the disk at their end, whatever ran in them. */
bool
steno_transactions_are_synced(void)
{
	return ((sync_classes | rule_all) & (1u << STENO_CLASS_TRANSACTION)) != 0;
}

/* ---- masks ---- */

/* steno.log, steno.mandatory, or the rules have changed. */
void
steno_policy_masks(void)
{
	uint32		mask = (steno_my.session_mask & ~choice.skipped) | choice.forced;

	steno_my.log_mask = mask | (choice.looked_at & choice.may_record) | steno_private.mandatory_mask;
	rule_classes = choice.syncing;
	rule_all = choice.synced;
	set_start_mask();
}

void
steno_policy_switch(uint32 flag, bool on)
{
	if (on)
		steno_my.policy |= flag;
	else
		steno_my.policy &= ~flag;
}

/* ---- what rules know of relations ---- */

/*
 * The last top-level statement for which there was no memory for what rules need of one of its relations,
 * numbered from 1; 0: none.  Entries that are not valid say nothing then.
 */
static uint64 unknown_at STENO_SESSION_DATA;

/* Indexes of the choice's rules that name a relation; false: there is no memory for them. */
static bool
keep_matches(StenoRelation *r, const uint32 *indexes, uint32 count)
{
	uint32	   *kept = unconstify(uint32 *, r->matches.indexes);

	r->matches = (StenoRuleMatches) {NULL, 0};
	if (kept)
		pfree(kept);
	if (count == 0)
		return true;
	kept = steno_relation_alloc(count * sizeof(uint32));
	if (kept == NULL)
		return false;
	memcpy(kept, indexes, count * sizeof(uint32));
	r->matches = (StenoRuleMatches) {kept, count};
	return true;
}

/* False: there is no memory for what is looked up, and the entry is not valid. */
static bool
look_up_rules(StenoRelation *r)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(r->oid));
	Form_pg_class class;
	char	   *namespace;
	bool		kept = true;

	r->in_catalog = false;
	r->matches.count = 0;
	if (!HeapTupleIsValid(tuple))
		return true;
	class = (Form_pg_class) GETSTRUCT(tuple);
	r->in_catalog = class->relnamespace == PG_CATALOG_NAMESPACE;
	namespace = choice.objects ? get_namespace_name(class->relnamespace) : NULL;
	if (namespace)
	{
		uint32	   *indexes = palloc_extended(Max(choice.count, 1) * sizeof(uint32),
											  MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

		kept = indexes != NULL &&
			keep_matches(r, indexes, steno_rules_of_object(&choice, namespace, NameStr(class->relname), indexes));
		if (indexes)
			pfree(indexes);
		pfree(namespace);
	}
	ReleaseSysCache(tuple);
	if (kept)
		r->valid |= STENO_RELATION_RULES;
	return kept;
}

/* While catalogs can be read: enter what rules need to know about a relation into the cache. */
void
steno_policy_cache_relation(Oid relid)
{
	StenoRelation *r;

	if (!choice.objects && !(steno_my.policy & STENO_POLICY_CATALOG))
		return;
	r = steno_relation_enter(relid);
	if (r == NULL || (!(r->valid & STENO_RELATION_RULES) && !look_up_rules(r)))
		unknown_at = steno_my.statement + 1;
}

/* The same for all relations of a statement that the rules are about to be applied to. */
static void
look_up_rules_of_all(const StenoAccess *relations, int count)
{
	int			i;

	if (!IsTransactionState())
		return;
	if (count > 0 && (choice.objects || (steno_my.policy & STENO_POLICY_CATALOG)))
		steno_relations_expect(count);
	for (i = 0; i < count; i++)
		steno_policy_cache_relation(relations[i].relid);
}

/* ---- choosing the session's rules ---- */

static bool
is_member_of_group(void *arg, const char *group)
{
	Oid			role = get_role_oid(group, true);
	Oid			user = *(Oid *) arg;

	return OidIsValid(role) && OidIsValid(user) && is_member_of_role_nosuper(user, role);
}

/* Before authentication is over there is no session user, but the client's name for it. */
static Oid
session_user_id(void)
{
	return ClientAuthInProgress ? InvalidOid : GetSessionUserId();
}

static void
free_session_rules(void)
{
	if (choice.rules)
		steno_choice_free(&choice);
	steno_relations_forget_rules();
}

/* As records have it: a role that was dropped keeps its name, unless another one has it now. */
static char *
name_of_user(Oid user_id)
{
	static Oid	last STENO_SESSION_DATA;
	static char last_name[NAMEDATALEN] STENO_SESSION_DATA;
	char	   *name = GetUserNameFromId(user_id, true);

	if (name)
	{
		last = user_id;
		strlcpy(last_name, name, NAMEDATALEN);
	}
	else if (user_id == last && !OidIsValid(get_role_oid(last_name, true)))
		name = pstrdup(last_name);
	return name;
}

static void
choose_session_rules(void)
{
	StenoRuleSession session = {0};
	char	   *user = NULL;
	char	   *database = NULL;
	Oid			user_id = session_user_id();

	/* what changes while we look is looked at again */
	steno_my.policy &= ~STENO_POLICY_STALE;
	free_session_rules();
	chosen = true;
	chosen_user = user_id;
	chosen_application = application_name;
	steno_policy_switch(STENO_POLICY_RULES, steno_rules && steno_rules->count > 0);
	steno_policy_masks();
	if (!(steno_my.policy & STENO_POLICY_RULES))
		return;

	/* until this is done, the settings alone decide */
	steno_my.policy |= STENO_POLICY_STALE;
	steno_watch_roles();
	if (ClientAuthInProgress && MyProcPort)
	{
		session.user = MyProcPort->user_name;
		user_id = session.user ? get_role_oid(session.user, true) : InvalidOid;
	}
	else
		session.user = user = name_of_user(user_id);
	if (OidIsValid(MyDatabaseId))
		session.database = database = get_database_name(MyDatabaseId);
	else if (MyProcPort && !am_walsender)
		session.database = MyProcPort->database_name;
	session.application = application_name ? application_name : "";
	if (ClientAuthInProgress && *session.application == '\0' && MyProcPort && MyProcPort->application_name)
		session.application = MyProcPort->application_name;
	session.client = steno_client.address;
	session.member = is_member_of_group;
	session.arg = &user_id;
	/* an error, or a cancel, while roles are looked up: all of this again with the next statement */
	chosen = false;
	steno_my.policy &= ~STENO_POLICY_STALE;
	chosen = steno_rules_choose(steno_rules, &session, &choice);
	if (chosen)
		steno_rules_prepare(&choice);
	if (user)
		pfree(user);
	if (database)
		pfree(database);
	steno_policy_masks();
}

/*
 * Before a statement's class is looked at, when policy or news is not zero: the
 * rules that hold for it.  The caller has attached to the ring.
 */
void
steno_policy_refresh(void)
{
	bool		stale;

	if (steno_my.state != STENO_READY || !IsTransactionState())
		return;
	stale = (steno_my.policy & STENO_POLICY_STALE) != 0;
	if (stale && steno_my.producer.ring != &steno_area.page)
		steno_my.policy |= STENO_POLICY_FAR;	/* no news come to our state */
	if (stale || (atomic_load(&steno_my.news) & STENO_NEWS_RULES) ||
		(steno_my.policy & STENO_POLICY_FAR))
	{
		/* before the generation is read: see announce_rules in rules.c */
		atomic_fetch_and(&steno_my.news, ~STENO_NEWS_RULES);
		stale |= steno_rules_renew(free_session_rules);
	}
	if (steno_my.policy & STENO_POLICY_RULES)
		stale |= !chosen || chosen_application != application_name || chosen_user != session_user_id();
	if (stale)
		choose_session_rules();
}

/* ---- a statement ---- */

/*
 * A statement begins.  outer: the one that runs it, NULL: none.  What foreign
 * keys run, they run in a security context that nothing else has; the queries
 * of triggers that fire in it have an outer statement of that kind.
 */
void
steno_policy_begin(StenoStatement *s, const StenoStatement *outer)
{
	uint32		bit = BIT(s->class);

	if (InNoForceRLSOperation())
		s->policy |= STENO_S_IN_CHECK;
	if (steno_private.mandatory_mask & bit)
		return;
	if (choice.hiding & (bit | BIT(STENO_CLASS_ERROR)))
		s->policy |= STENO_S_HIDDEN;
	if (choice.forced & bit)
		s->policy |= STENO_S_RULE;
	else if (choice.skipped & bit)
		s->policy |= STENO_S_SKIPPED;
	else if (s->depth > 0 &&
			 (((steno_my.policy & STENO_POLICY_SCRIPTS) && creating_extension) ||
			  ((steno_my.policy & STENO_POLICY_REFERENTIAL) && (s->policy & STENO_S_IN_CHECK) &&
			   !(outer && (outer->policy & STENO_S_IN_CHECK)))))
		s->policy |= STENO_S_NOISE;
}

/*
 * It is not recorded, unless it fails: should we die, there is nothing to say of
 * it.  Object auditing keeps it.
 */
static void
stop_recording(StenoStatement *s)
{
	if (s->audited & STENO_AUDITED_OBJECT)
		return;
	s->recorded = false;
	if (s->top_level)
		steno_inflight_end(&steno_my.producer.ring->inflight);
}

/* A read of nothing but pg_catalog. */
static bool
all_in_catalog(const StenoStatement *s, const StenoAccess *relations, int count)
{
	int			i;

	if (s->class != STENO_CLASS_READ || count <= 0)
		return false;
	for (i = 0; i < count; i++)
	{
		const StenoRelation *r = steno_relation_find(relations[i].relid);

		if (r == NULL || !r->in_catalog)
			return false;
	}
	return true;
}

/*
 * There is no memory to find out which rule decides: the statement is recorded if one of them may ask for
 * that, is on disk as soon as any of them may want it to be, and has neither text nor parameters if any
 * of them may hide these.  NULL: the settings alone decide.
 */
STENO_COLD static StenoRule *
undecided_rule(int class)
{
	static StenoRule undecided;
	uint32		i;

	if (!(choice.may_record & BIT(class)))
		return NULL;
	memset(&undecided, 0, sizeof(undecided));
	undecided.action = (choice.syncing & BIT(class)) ? STENO_RULE_SYNC : STENO_RULE_RECORD;
	for (i = 0; i < choice.count; i++)
	{
		const StenoRule *rule = choice.rules[i];

		if (!(rule->classes & BIT(class)))
			continue;
		undecided.no_text |= rule->no_text || rule->redact;
		undecided.no_parameters |= rule->no_parameters;
	}
	return &undecided;
}

/* For the relations of a statement: there was no memory for them. */
#define COUNT_UNKNOWN (-1)

/* The rule that decides on the statement as one of the class; NULL: none. */
static StenoRule *
find_rule(int class, const StenoAccess *relations, int count, const char *text, size_t text_len)
{
	StenoRuleMatches few[32];
	StenoRuleMatches *matches = few;
	int			i;

	if (!choice.objects)
		count = 0;
	if (count == COUNT_UNKNOWN)
		return undecided_rule(class);
	if (count > (int) lengthof(few))
	{
		steno_my.scratch_used = true;
		matches = MemoryContextAllocExtended(steno_private.scratch, count * sizeof(StenoRuleMatches),
											 MCXT_ALLOC_NO_OOM);
		if (matches == NULL)
			return undecided_rule(class);
	}
	for (i = 0; i < count; i++)
	{
		const StenoRelation *r = steno_relation_find(relations[i].relid);

		if (unlikely(unknown_at == steno_my.statement + 1) && (r == NULL || !(r->valid & STENO_RELATION_RULES)))
			return undecided_rule(class);
		matches[i].count = 0;
		if (r)
			matches[i] = r->matches;
	}
	return steno_rules_first(&choice, class, matches, count, text, text_len);
}

/*
 * The same for a statement, as one of its own class, or else of its further classes.  asked: the classes that
 * there is a rule for.
 */
static StenoRule *
find_rule_of(const StenoStatement *s, uint32 asked, const StenoAccess *relations, int count)
{
	uint32		further = steno_classes_of(s) & asked & ~BIT(s->class);
	StenoRule  *rule = NULL;
	int			class;

	if (asked & BIT(s->class))
		rule = find_rule(s->class, relations, count, s->text, s->text_len);
	for (class = STENO_CLASS_READ; rule == NULL && BIT(class) <= further; class++)
		if (further & BIT(class))
			rule = find_rule(class, relations, count, s->text, s->text_len);
	return rule;
}

/* What a rule that records asks for. */
static void
apply_rule(StenoStatement *s, const StenoRule *rule)
{
	s->policy |= STENO_S_RULE;
	if (rule->no_text)
		s->policy |= STENO_S_NO_TEXT;
	if (rule->no_parameters)
		s->policy |= STENO_S_NO_PARAMETERS;
	if (rule->redact)
		s->redact = (uint16) rule->tag;
	if (rule->action == STENO_RULE_SYNC)
		s->policy |= STENO_S_SYNC;
}

static bool
hides_statement_text(const StenoRule *rule)
{
	return rule->no_text || rule->redact;
}

/* Its text may be shown while it runs, unless a rule would hide that of its failure. */
static void
allow_text(StenoStatement *s)
{
	if (!(choice.hiding & BIT(STENO_CLASS_ERROR)))
		s->policy &= ~STENO_S_HIDDEN;
}

/* One of steno.mandatory is recorded anyway; rules say whether it waits for the disk. */
static void
judge_mandatory(StenoStatement *s, const StenoAccess *relations, int count)
{
	StenoRule  *rule;

	look_up_rules_of_all(relations, count);
	rule = find_rule(s->class, relations, count, s->text, s->text_len);
	if (rule && rule->action == STENO_RULE_SYNC)
		s->policy |= STENO_S_SYNC;
}

/*
 * Its relations are known: whether it is recorded, and with what.  Called when
 * policy is not zero.  failing: in the middle of a failure, where catalogs cannot
 * be read.
 */
void
steno_policy_judge(StenoStatement *s, const StenoAccess *relations, int count, bool failing)
{
	uint32		bit = BIT(s->class);
	StenoRule  *rule;

	if ((steno_private.mandatory_mask & choice.syncing & bit) && s->recorded && !failing)
		judge_mandatory(s, relations, count);
	if (!s->recorded || (steno_private.mandatory_mask & bit) || (s->policy & (STENO_S_RULE | STENO_S_SKIPPED)))
		return;
	if (!failing)
		look_up_rules_of_all(relations, count);
	rule = find_rule_of(s, choice.looked_at, relations, count);
	if (rule == NULL || !hides_statement_text(rule))
		allow_text(s);
	if (rule != NULL)
	{
		if (rule->action != STENO_RULE_SKIP && steno_rule_sampled(rule))
			apply_rule(s, rule);
		else
		{
			s->policy |= STENO_S_SKIPPED;
			stop_recording(s);
		}
		return;
	}
	if (((steno_my.session_mask & bit) == 0 && !(s->policy & STENO_S_ALSO)) ||
		(s->policy & STENO_S_NOISE) ||
		((steno_my.policy & STENO_POLICY_CATALOG) && all_in_catalog(s, relations, count)))
		stop_recording(s);
}

/*
 * A utility statement begins: what can be said without its relations is said now.
 * If a rule that looks at relations may want it on disk, it goes there.
 */
void
steno_policy_judge_early(StenoStatement *s)
{
	if (choice.objects)
	{
		if (choice.syncing & steno_classes_of(s))
			s->policy |= STENO_S_SYNC;
		return;
	}
	if ((steno_private.mandatory_mask & choice.syncing & BIT(s->class)) && s->recorded)
		judge_mandatory(s, NULL, 0);
	steno_policy_judge(s, NULL, 0, true);
}

/*
 * It has failed, and is not recorded but for that: as one of class error.  Reads
 * no catalogs.
 */
void
steno_policy_judge_failure(StenoStatement *s, const StenoAccess *relations, int count)
{
	uint32		bit = BIT(STENO_CLASS_ERROR);
	StenoRule  *rule;

	if (!s->failures || (steno_private.mandatory_mask & bit))
		return;
	if (choice.looked_at & bit &&
		(rule = find_rule(STENO_CLASS_ERROR, relations, count, s->text, s->text_len)) != NULL)
	{
		if (rule->action != STENO_RULE_SKIP && steno_rule_sampled(rule))
			apply_rule(s, rule);
		else
			s->failures = false;
	}
	else if (choice.forced & bit)
		s->policy |= STENO_S_RULE;
	else if (!(steno_my.session_mask & bit))
		s->failures = false;
}

/* The same for a query, whose relations the plan names. */
void
steno_policy_judge_plan(StenoStatement *s, PlannedStmt *plan, bool failed)
{
	StenoAccess few[32];
	StenoAccess *relations = few;
	int			most = list_length(STENO_PLAN_PERMISSIONS(plan));
	int			count = 0;
	ListCell   *lc;

	if (most > (int) lengthof(few))
	{
		steno_my.scratch_used = true;
		relations = MemoryContextAllocExtended(steno_private.scratch, most * sizeof(StenoAccess),
											   MCXT_ALLOC_NO_OOM);
		if (relations == NULL)
			count = COUNT_UNKNOWN;
	}
	foreach(lc, STENO_PLAN_PERMISSIONS(plan))
	{
		StenoPermission *p = (StenoPermission *) lfirst(lc);

		if (!STENO_IS_PERMISSION(p) || relations == NULL)
			continue;
		relations[count].relid = p->relid;
		relations[count++].access = 0;
	}
	if (failed)
		steno_policy_judge_failure(s, relations, count);
	else
		steno_policy_judge(s, relations, count, false);
}

/* ---- its record ---- */

/* The message of a record's failure, as the rule that matched leaves it. */
STENO_COLD void
steno_policy_redact_message(const StenoStatement *s, StenoRecord *record)
{
	char	   *clean = steno_rules_redact(s->redact, record->message, strlen(record->message));

	record->message = clean ? clean : "<redacted>";
}

static void
redact_record(const StenoStatement *s, StenoRecord *record)
{
	if (record->text)
	{
		char	   *clean = steno_rules_redact(s->redact, record->text, record->text_len);

		record->text = clean;
		record->text_len = clean ? strlen(clean) : 0;
	}
	if (record->message)
		steno_policy_redact_message(s, record);
}

/* What the rules hide of a record, and that a rule asked for it. */
STENO_COLD void
steno_policy_apply_rules(const StenoStatement *s, StenoRecord *record)
{
	if (s->policy & STENO_S_RULE)
	{
		record->audited |= STENO_AUDITED_RULE;
		if (steno_my.session_mask & BIT(s->class))
			record->audited |= STENO_AUDITED_SESSION;
	}
	/* a utility statement that starts is not judged yet */
	if ((s->policy & STENO_S_NO_TEXT) ||
		(record->kind == STENO_KIND_START && (s->policy & STENO_S_HIDDEN) && s->redact == 0))
	{
		record->text = NULL;
		record->text_len = 0;
	}
	if (s->redact != 0)
		redact_record(s, record);
}

/* ---- statements that fail before their relations are looked up ---- */

/* The rules that match names as they are written; false: there is no memory to find out. */
static bool
match_written(const StenoWritten *written, StenoRuleMatches *matches)
{
	uint32	   *indexes;
	int			i;

	steno_my.scratch_used = true;
	indexes = MemoryContextAllocExtended(steno_private.scratch, (written->count + 1) * choice.count * sizeof(uint32),
										 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (indexes == NULL)
		return false;
	for (i = 0; i < written->count; i++)
	{
		const StenoWrittenName *n = &written->names[i];
		const char *schema = n->schema[0] != '\0' ? n->schema : NULL;

		matches[i] = (StenoRuleMatches) {indexes, steno_rules_of_object(&choice, schema, n->name, indexes)};
		indexes += choice.count;
	}
	return true;
}

/* The rule that decides on a statement as one of the class, by the names in it; NULL: none. */
static StenoRule *
find_rule_of_written(int class, const StenoStatement *s, const StenoWritten *written)
{
	StenoRuleMatches matches[STENO_WRITTEN_MOST];
	int			count = 0;

	if (!(choice.looked_at & BIT(class)))
		return NULL;
	if (choice.objects)
	{
		/* of others that it names, nothing is known */
		if (written->omitted > 0 || !match_written(written, matches))
			return undecided_rule(class);
		count = written->count;
	}
	return steno_rules_first(&choice, class, matches, count, s->text, s->text_len);
}

/* Whether the names in a statement are used in a way for which a role can be granted a privilege. */
static bool
needs_privilege(const StenoWritten *written)
{
	const uint32 privileged = STENO_ACCESS_SELECT | STENO_ACCESS_INSERT | STENO_ACCESS_UPDATE | STENO_ACCESS_DELETE |
		STENO_ACCESS_TRUNCATE;
	int			i;

	for (i = 0; i < written->count; i++)
		if (written->names[i].access & privileged)
			return true;
	return written->omitted > 0;
}

/* Whether a rule that decides on the statement records it. */
static bool
adopt_rule(StenoStatement *s, StenoRule *rule)
{
	if (rule->action == STENO_RULE_SKIP || !steno_rule_sampled(rule))
		return false;
	apply_rule(s, rule);
	return true;
}

/*
 * A statement has failed perhaps before its relations were looked up, so the names in it decide, if no rule did before.
 * class: its own; 0: it is not known.  What steno.role has been granted on a relation cannot be looked up by a name, so
 * the statement is audited if it needs any privilege.
 */
STENO_COLD void
steno_policy_judge_written(StenoStatement *s, int class, const StenoWritten *written)
{
	StenoRule  *rule = NULL;

	if (class != 0 && (steno_private.mandatory_mask & BIT(class)))
		return;
	if (unlikely(steno_my.policy & STENO_POLICY_RULES) && !(s->policy & (STENO_S_RULE | STENO_S_SKIPPED)))
	{
		if (class != 0 && (rule = find_rule_of_written(class, s, written)) != NULL)
			s->recorded = adopt_rule(s, rule);
		if (!s->recorded && s->failures && !(steno_private.mandatory_mask & BIT(STENO_CLASS_ERROR)) &&
			(rule = find_rule_of_written(STENO_CLASS_ERROR, s, written)) != NULL)
			s->failures = adopt_rule(s, rule);
	}
	if (steno_role_is_set() && needs_privilege(written) && !(s->policy & STENO_S_NOISE))
	{
		s->recorded = true;
		s->audited |= STENO_AUDITED_OBJECT;
		if (class != 0 && (steno_my.session_mask & BIT(class)))
			s->audited |= STENO_AUDITED_SESSION;
	}
}

/*
 * A statement has failed that is not recorded, and with it perhaps another that it was about to run, of which nothing
 * is known: neither its class nor its relations.
 */
STENO_COLD void
steno_policy_judge_unnamed(StenoStatement *s)
{
	int			class;

	for (class = STENO_CLASS_READ; choice.objects && !s->recorded && class <= STENO_CLASS_MISC; class++)
	{
		StenoRule  *rule = undecided_rule(class);

		if (rule != NULL)
			s->recorded = adopt_rule(s, rule);
	}
	if (steno_role_is_set() && !(s->policy & STENO_S_NOISE))
	{
		s->recorded = true;
		s->audited |= STENO_AUDITED_OBJECT;
	}
}

/* Whether statements of a class are recorded that no rule with a relation or text matches. */
static bool
is_logged(int class)
{
	uint32		mask = (steno_my.session_mask & ~choice.skipped) | choice.forced | steno_private.mandatory_mask;

	return (mask & BIT(class)) != 0;
}

/*
 * A record of class error that no hook has seen begin; false: it is left out.  Its text is that of record.  nested:
 * a function has run the statement, and statements inside functions are not recorded.
 */
STENO_COLD bool
steno_policy_failed(StenoRecord *record, const StenoWritten *written, bool nested)
{
	StenoStatement s = {0};

	s.class = STENO_CLASS_ERROR;
	s.text = record->text;
	s.text_len = record->text_len;
	s.recorded = !nested && written->class != 0 && is_logged(written->class);
	s.failures = !nested && steno_class_logged(STENO_CLASS_ERROR);
	if (steno_my.policy != 0 || steno_role_is_set())
		steno_policy_judge_written(&s, written->class, written);
	/* no rule with a relation or a text has matched */
	if (s.failures && !(s.policy & STENO_S_RULE))
	{
		s.failures = is_logged(STENO_CLASS_ERROR);
		if (choice.forced & ~steno_private.mandatory_mask & BIT(STENO_CLASS_ERROR))
			s.policy |= STENO_S_RULE;
	}
	record->audited |= s.audited;
	if (unlikely(steno_my.policy != 0))
		steno_policy_apply_rules(&s, record);
	return s.recorded || s.failures;
}
