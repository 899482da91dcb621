/*
 * extension/base/steno.h
 *		What the extension's files share.
 *
 * The files, in the order in which the data flows:
 *
 *		pg_steno.c			loading: settings, hooks, shared memory, workers
 *		settings, control	(here) variables of the settings, what processes share
 *		local.h				what this process touches for every statement
 *		shmem.c				the ring file and the control area
 *		statement.h, .c		statements: beginning, shape, failure
 *		planner.c, query.c, utility.c
 *							the hooks of planner, executor, and utility statements
 *		fastpath.c			functions that clients call without a statement
 *		transaction.c		ends of transactions that wrote
 *		start_record.c, announce.c
 *							start records
 *		delivery.h, .c		statements that wait for the disk, waits that are cancelled
 *		class.c				classes of utility statements
 *		object.h, object*.c, function.c
 *							objects that statements change, functions that they call
 *		failure.c, split.c	failures that never reach the executor
 *		replication.c		commands of walsenders
 *		rules.c				the rules file
 *		policy.c			what rules and the switches for noise say of statements
 *		relation.c, param.c	what a statement touched, and with which values
 *		secret.c			passwords and the like kept out of texts and messages
 *		audit_role.c, .h	object auditing: what steno.role has a privilege of
 *		setting_change.c	changes of our own settings
 *		session.c			connect, disconnect, and what is known of a session
 *		leader.h, .c		parallel workers and their leaders
 *		record.c			a record, encoded in place in the ring
 *		writer.c			the background workers that write the trail
 *		seal.c				seals of the trail, the signing key
 *		recover.c			ring files that dead servers left
 *		trouble.c			a trail that cannot be written: steno.on_failure
 *		alert.h, .c			steno.alert_command
 *		claim.c				one trail, one server
 *		key.c, .h			the encryption key of the trail
 *		views.c				SQL functions
 */
#ifndef STENO_H
#define STENO_H

#include "postgres.h"

/*
 * Port is laid out alike with and without GSSAPI, for the sake of extensions;
 * so that its headers need not be installed, do without.
 */
#undef ENABLE_GSS

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "datatype/timestamp.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "portability/instr_time.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "tcop/utility.h"
#include "utils/portal.h"

/* Our symbols are our own: calls among our files are direct. */
#pragma GCC visibility push(hidden)

#include "ring/clock.h"
#include "ring/message.h"
#include "ring/wake.h"

#include "base/settings.h"
#include "base/control.h"

extern void steno_settings_define(void);
extern void steno_settings_adopt(const StenoWanted *wanted);
extern void steno_shmem_install(void);

/* ---- local.h: this process ---- */

#include "base/local.h"
#include "delivery/delivery.h"

/* ---- session.c ---- */

extern void steno_session_install(void);
extern void steno_session_failed(const ErrorData *edata);
extern void steno_session_died(const ErrorData *edata);

/* ---- record.c ---- */

#define STENO_FEW_PARAMS 8

typedef struct StenoParam
{
	const uint8 *data;
	uint32		len;
	bool		prefixed;		/* a varint length goes before the data */
} StenoParam;

/* The parameter values of a statement, as they will be encoded. */
typedef struct StenoParams
{
	int			count;			/* of values: parameters, NULLs included, or pieces of a list */
	uint32		nulls_len;		/* 0: none is NULL */
	uint64		values_len;		/* encoded */
	uint32		shape_len;		/* of their part of the shape */
	const uint8 *nulls;			/* as they are encoded; NULL: values say which are */
	StenoParam *values;			/* data NULL: a NULL */
	StenoParam	few[STENO_FEW_PARAMS];
	uint64		fixed[STENO_FEW_PARAMS];	/* by-value datums of few */
} StenoParams;

/* A record's facts, on their way into the ring. */
typedef struct StenoRecord
{
	int			kind;
	TimestampTz time;
	uint64		duration;		/* microseconds; STENO_NONE64 */
	uint64		rows;			/* STENO_NONE64 */
	uint64		statement;
	uint32		substatement;
	uint16		depth;
	int			outcome;
	uint8		audited;		/* STENO_AUDITED_*; 0: by session alone */
	TransactionId xid;
	int			sqlerrcode;		/* 0: no error */
	const char *message;
	const uint8 *shape;
	uint32		shape_len;
	const char *text;			/* NULL: none */
	uint64		text_len;
	const StenoParams *params;	/* NULL: none */
	int			extra_count;
	const uint8 *extra;
	uint32		extra_len;
} StenoRecord;

static inline void
steno_record_init(StenoRecord *record, int kind)
{
	/* field by field: a memset of this size would be a slow string instruction */
	*record = (StenoRecord) {.kind = kind, .duration = STENO_NONE64, .rows = STENO_NONE64};
}

extern void steno_record_put(StenoRecord *record, bool top_level);
extern void steno_record_put_failed(StenoRecord *record);
extern void *steno_record_room(uint32 len);
extern bool steno_record_stage(const StenoRecord *record);
extern bool steno_record_stage_usual(const StenoStatement *q, const uint8 *shape,
									 uint32 shape_len, const StenoParams *params);
extern bool steno_record_stage_prepared(const StenoStatement *q, StenoPrepared *prepared,
										ParamListInfo params);
extern void steno_record_unstage(void);
extern void steno_record_publish(void);
extern void steno_record_end_staged(uint64 duration, uint64 rows, TransactionId xid);
extern bool steno_record_is_big(const StenoRecord *record);
extern void steno_record_finish(uint64 duration, uint64 rows, TransactionId xid);
extern bool steno_record_finish_failed(uint64 duration, uint64 rows, TransactionId xid,
									   int sqlerrcode, const char *message);
extern uint8 *steno_params_put(uint8 *p, const StenoParams *params);

#define STENO_GAP_PAIRS 4
#define STENO_GAP_EXTRA 128
extern const char *steno_gap_reason(uint32 reason);
extern uint32 steno_gap_extra(uint8 *buf, uint64 count, uint64 first, uint64 last, uint32 reason);
extern void steno_record_leave(void);
extern void steno_record_drop(void);
extern bool steno_record_take_back(void);
extern void steno_record_may_fail(const StenoStatement *s);
extern int	steno_record_covered;	/* how many statements the reserve is for */
extern int	steno_record_owed(void);
extern bool steno_record_cover(int owed);
extern bool steno_record_reserve_is_whole(void);
extern bool steno_record_drops(void);
extern void *steno_record_reserved(uint32 len);
extern bool steno_record_sleep(long *nap);
extern void steno_record_dying(void);
extern void steno_record_take_over(void);
extern void steno_record_tell_left_gap(uint32 ring, StenoWriterControl *writer);

/* ---- copy.c ---- */

typedef struct StenoCopy StenoCopy;

extern void steno_copy_install(void);
extern StenoCopy *steno_copy_record(const StenoRecord *record);
extern StenoCopy *steno_copy_message(const StenoRecordMessage *m,
									  struct StenoObjects *objects);
extern void steno_copy_read(const StenoCopy *c, struct StenoObjects *objects, StenoRecord *record);
extern void steno_copy_release(StenoCopy **mine);

/* ---- statement.c ---- */

extern void steno_statement_install(void);
extern void steno_statement_failed(const ErrorData *edata);
extern bool steno_statement_fatal(const ErrorData *edata);
extern bool steno_statement_take_reported(void);
extern TimestampTz steno_statement_source(const char **source, int *end);
extern StenoStatement *steno_statement_of_event(bool function);
extern void steno_statement_add_relation(Oid relid, uint32 access);

/* ---- class.c ---- */

extern int	steno_class_of_utility(Node *statement);

/* ---- object.c ---- */

typedef struct StenoObjects StenoObjects;

extern void steno_objects_install(void);
extern void steno_objects_called(StenoStatement *s, Oid function);
extern void steno_objects_adopt(StenoStatement *s);
extern void steno_objects_finish(StenoStatement *s, Node *utility);
extern uint32 steno_objects_size(StenoObjects *list, uint32 room, int *omitted);
extern uint8 *steno_objects_put(uint8 *p, const StenoObjects *list);
extern void steno_objects_release(StenoObjects **mine);
extern void steno_objects_release_all(void);
extern void steno_objects_forget_pending(void);

/* ---- transaction.c ---- */

extern void steno_transaction_record(XactEvent event);
extern void steno_transaction_ending(void);
extern void steno_transaction_finish_late(XactEvent event);
extern void steno_transaction_statement(const TransactionStmt *statement);
extern void steno_transaction_statement_done(const TransactionStmt *statement);

/* The end of any transaction: statements are counted anew. */
static inline void
steno_transaction_ended(XactEvent event)
{
	steno_my.transaction_over = event == XACT_EVENT_ABORT;
	/* a statement that is running goes on in the next transaction */
	steno_my.transaction_base = steno_my.statement - (steno_my.level != NULL);
}

/* ---- start_record.c ---- */

extern void steno_running_record(StenoStatement *s, StenoRecord *record);

/* Whether a statement that begins has a start record by its class. */
static inline bool
steno_wants_start(const StenoStatement *s)
{
	return unlikely((steno_my.start_mask & (1u << s->class)) != 0) && s->recorded;
}
/* ---- secret.c ---- */

struct StenoCuts;
extern bool steno_secret_find(const char *text, uint64 len, struct StenoCuts *cuts);
extern void steno_secret_cut(const char *text, uint64 len, const struct StenoCuts *cuts, uint64 room,
							 const char **out, uint64 *out_len);
extern bool steno_secret_hide_text(const char *text, uint64 len, uint64 room, const char **out, uint64 *out_len);
extern const char *steno_secret_hide_message(const char *text, uint64 len, const char *message);
extern void steno_secret_hide(StenoRecord *record);
extern void steno_secret_hide_value(const char *value, char *out);

/* ---- fastpath.c ---- */

/* A client's function call, where others have a command tag. */
#define STENO_CALL_COMMAND "FUNCTION CALL"

extern bool steno_fastpath_message(void);
extern bool steno_fastpath_expected(void);
extern void steno_fastpath_call(Oid function);

/* ---- failure.c ---- */

extern void steno_failure_install(void);
extern bool steno_failure_is_reported(void);

/* ---- replication.c ---- */

extern void steno_replication_logged(const ErrorData *edata);

/* ---- split.c ---- */

extern void steno_split_at(const char *source, int from, int position,
						   const char **text, int *len);

/* ---- audit_role.c, see audit_role.h ---- */

extern void steno_audit_role_changed(void);

/* ---- param.c ---- */

/* Room in the shape for a list of parameters that goes with the values. */
#define STENO_LIST_SHAPE 3

extern void steno_params_starting(SubTransactionId subid);
extern uint32 steno_params_shape_size(ParamListInfo params);
extern uint8 *steno_params_collect_list(ParamListInfo params, bool failing,
										uint8 *shape, StenoParams *result);
extern uint8 *steno_params_collect(ParamListInfo params, bool failing,
								   uint8 *shape, StenoParams *result);

/* ---- relation.c ---- */

typedef struct StenoAccess
{
	Oid			relid;
	uint32		access;			/* STENO_ACCESS_* */
} StenoAccess;

extern uint32 steno_access_of(AclMode mode);
extern void steno_relation_learn(Oid relid);
extern uint32 steno_relation_size(Oid relid);
extern uint8 *steno_relation_put(uint8 *p, Oid relid, uint32 access);

/* Where the relation's name is at hand; -1: nowhere. */
static inline int
steno_relation_near(Oid relid)
{
	int			i;

	for (i = 0; i < STENO_NEAR_RELATIONS; i++)
		if (steno_my.near_relids[i] == relid)
			return i;
	return -1;
}

/* Have the relation's name ready for steno_relation_put. */
static inline void
steno_relation_know(Oid relid)
{
	int			i = steno_relation_near(relid);

	if (unlikely(i < 0))
		steno_relation_learn(relid);
	else
		__builtin_prefetch(&steno_my.near[i]);
}

/* ---- policy.c: see local.h, too ---- */

extern void steno_policy_know(Oid relid);
extern void steno_policy_judge(StenoStatement *s, const StenoAccess *relations, int count,
							   bool failing);
extern void steno_policy_judge_early(StenoStatement *s);
extern void steno_policy_judge_failure(StenoStatement *s, const StenoAccess *relations, int count);
extern void steno_policy_judge_plan(StenoStatement *s, PlannedStmt *plan, bool failed);
extern void steno_policy_apply(const StenoStatement *s, StenoRecord *record);
extern bool steno_policy_failed(StenoRecord *record);

/* ---- rules.c ---- */

struct StenoRules;
struct StenoChoice;

/* Called before a change of the rules takes effect. */
typedef void (*StenoRulesChange) (const char *from, const char *to, const char *errors,
								  const char *hash);

extern struct StenoRules *steno_rules;	/* in force in this process; NULL: none */

extern void steno_rules_load(void);
extern bool steno_rules_renew(void (*drop) (void));
extern void steno_rules_started(StenoRulesChange change);
extern void steno_rules_reload(StenoRulesChange change);
extern struct StenoRules *steno_rules_now(void);
extern void steno_rules_prepare(struct StenoChoice *choice);
extern char *steno_rules_redact(uint32 tag, const char *text, size_t len);

/* ---- setting_change.c ---- */

extern void steno_settings_record(void);
extern void steno_settings_record_failing(void);
extern void steno_settings_baseline(void);
extern void steno_settings_inherit(void);
extern void steno_settings_publish(void);
extern int	steno_settings_configured(const char **pairs);
extern bool steno_settings_reloaded(void (*change) (const char *name, const char *from, const char *to));

/* ---- refusal.c ---- */

extern const char *const steno_problem_texts[STENO_PROBLEMS];

extern void steno_trouble_text(StenoTrouble *t, char *to);
extern bool steno_refusal_drops(void);
extern uint32 steno_refusal_gap_reason(bool first);
extern bool steno_refusal_spares(const StenoRecord *record);
extern void steno_refusal_attached(void);

/* ---- trouble.c, claim.c, sql/status.c ---- */

extern int	steno_trouble_columns(int number, Datum *values, bool *nulls, int n);
extern const char *steno_trouble_prospect(void);
extern void steno_trail_claim(void);

/* ---- state.c ---- */

extern void steno_state_begin(uint64 ring_file, bool first);

/* ---- writer.c, recover.c ---- */

struct StenoWriter;
extern void steno_writer_register(void);
extern void steno_writer_check_registered(void);
extern void steno_recover_rings(struct StenoWriter *writer);

/* ---- seal.c ---- */

extern void steno_seal_check_key(void);

#pragma GCC visibility pop

/* The server finds these by name. */
extern PGDLLEXPORT void steno_writer_main(Datum main_arg);

#endif							/* STENO_H */
