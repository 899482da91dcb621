/*
 * extension/base/local.h
 *		What this process touches for every statement, in one place.
 *
 * Between two statements of a session other processes run: each cache line that a
 * statement touches is then in no cache near, and each page in no TLB.  At
 * that scale the lines are the cost, not the instructions, so the state that
 * the hooks need is kept together, in the order of its use, and in one page.
 */
#ifndef STENO_LOCAL_H
#define STENO_LOCAL_H

/* Where the record of a statement is, until it is published. */
typedef enum StenoRecordState
{
	STENO_NOT_MADE,				/* it is made when the statement ends */
	STENO_STAGED,				/* in the ring, at steno_my.staged: its end's numbers are missing */
	STENO_COPIED,				/* in the statement's copy: likewise */

	/* the statement has ended, and its record waits for the commit that comes next */
	STENO_COMMITS_STAGED,
	STENO_COMMITS_COPIED,
	STENO_COMMITS_LOST			/* there was no memory for a copy */
} StenoRecordState;

/*
 * A statement, from its first hook until its record is published or dropped: a query or a
 * utility statement, of a client or nested.
 *
 * Queries are in steno_my.open from ExecutorStart to ExecutorEnd, or for as long as their
 * record waits for the commit; the array may move whenever another query begins, so hooks
 * look their query up again after each call of the server.  The utility statement of a
 * client is steno_my.top_utility; nested ones are on the stack of their hook.
 *
 * It owns objects and copy, and shares who.  Whoever ends the statement releases them (steno_forget_open,
 * steno_forget_utility); both are in our own memory contexts, so that no abort frees them
 * before.  All other pointers are the server's, and are followed only while it certainly
 * has not freed them: query, source and text while a hook of the statement is on the C
 * stack, or, until its copy is made, while no other statement has run (open_query.c).
 * portal is compared with what the portal's own callback says, and followed only until
 * then.
 */
typedef struct StenoStatement
{
	QueryDesc  *query;			/* NULL: a utility statement, or one that commits */
	TimestampTz time;
	uint64		start;			/* ticks of steno_my.clock */
	uint64		statement;
	const char *source;
	const char *text;			/* its own part of the source */
	uint64		text_len;
	int			end;			/* of its part, as an offset; -1: of the source */
	uint32		substatement;	/* of a client's statement: the last one that it ran */
	Oid			user_id;		/* current role at its start */
	uint16		depth;
	uint16		redact;			/* what a rule redacts; 0: nothing */
	uint16		policy;			/* STENO_S_* */
	uint8		class;
	uint8		audited;		/* STENO_AUDITED_*; 0: by session alone */
	bool		recorded;		/* by class and nesting */
	bool		failures;		/* recorded if it fails */
	bool		top_level;		/* is in the in-flight entry */
	bool		suspect;		/* its text may have a secret */
	struct StenoObjects *objects;	/* NULL: none */

	/* what the server has worked for it (base/duration.h) */
	uint64		stopped;		/* ticks when it last stopped; 0: it works now */
	uint64		paused;			/* ticks since start in which it did not */
	uint32		before;			/* microseconds in the message of its start, before start */
	uint32		ahead;			/* microseconds in earlier messages */
	uint32		analysis;		/* microseconds of these, if told apart; else 0 */
	uint32		plan;			/* likewise */
	uint32		commit;			/* microseconds of its commit; 0: none */
	bool		pauses;			/* a query: its portal may wait for the client, or for who reads a cursor */
	bool		may_fail;		/* it has run, but its hook can still let it fail (capture/start_record.c) */

	/* of queries only, except for state, which a utility statement has, too */
	uint64		rows;
	Portal		portal;			/* NULL: not a portal's query */
	struct StenoCopy *copy;		/* of its record, with STENO_COPIED and STENO_COMMITS_COPIED; else NULL */
	struct StenoIdentity *who;	/* who executed it, if the session may have another identity at its end; else NULL */
	SubTransactionId subid;
	uint8		state;			/* StenoRecordState */
	bool		plan_cached;	/* its portal has the plan from a cache, until it aborts */
	bool		portal_watched; /* its portal's memory calls us back when it goes */
	struct StenoKept *kept;		/* its shape, unless that is empty now; NULL: none */
} StenoStatement;

/*
 * Shapes of queries that ran lately.  A shape is found by what it was made from,
 * so it cannot be that of another query; the names in it are as good as those in
 * the cache of relations, and go when any of them may have changed.  They own nothing, and
 * point nowhere: an error can at most leave one empty.
 */
#define STENO_KEPT_SHAPES 6
#define STENO_KEPT_RELATIONS 2
#define STENO_KEPT_ROOM 104		/* in the page */
#define STENO_KEPT_FAR_ROOM STENO_TEMPLATE_ROOM
#define STENO_KEPT_FAR_WORDS 7

typedef struct StenoKept
{
	uint64		query_id;
	Oid			relids[STENO_KEPT_RELATIONS];
	uint32		permissions[STENO_KEPT_RELATIONS];
	uint8		count;			/* of relations */
	uint8		operation;		/* CmdType */
	uint8		class;
	bool		wide;			/* sets of columns have further words, in steno_kept_far */
	uint8		template;		/* of the shape, and of a text that was often sent with it; 0: none */
	uint8		misses;			/* other texts since that template was defined */
	uint8		patience;		/* so many of them, and it is defined anew */
	uint8		name_len;		/* of the prepared statement's name, which the shape ends with; 0: none */
	uint16		len;			/* of shape; 0: nothing is kept */
	uint16		params;			/* where its parameters begin */
	uint16		params_len;		/* bytes that they take */
	uint64		columns[STENO_KEPT_RELATIONS][3];	/* first word of each set of columns */
	uint8		shape[STENO_KEPT_ROOM]; /* if it is not longer */
} StenoKept;

/*
 * What does not fit into the page, for each of steno_my.kept: the shape, if it is longer, and all
 * but the first words of the sets of columns, if they have any.
 */
typedef struct StenoKeptFar
{
	uint64		columns[STENO_KEPT_RELATIONS][3][STENO_KEPT_FAR_WORDS];
	uint8		shape[STENO_KEPT_FAR_ROOM];
} StenoKeptFar;

extern StenoKeptFar steno_kept_far[STENO_KEPT_SHAPES];

/*
 * Plans of prepared statements that ran lately, and what is the same each time:
 * where their text stands in the source, their kept shape, and their parameters,
 * which are all of fixed width.  A plan is known by its address, for as long as
 * the memory context that it lives in.  Each has the ring's template of its
 * own number for its shape and text, once no record in the ring needs what that
 * was before (delivery/template.h).  plan is compared, never followed: a callback of the plan's memory context
 * empties the entry before the server frees the plan, in an abort, too.
 */
#define STENO_PREPARED 6
#define STENO_PREPARED_PARAMS 8

/* Whether the records of a prepared statement are brief. */
#define STENO_BRIEF_LATER 0		/* its template may still be another one's */
#define STENO_BRIEF_YES 1
#define STENO_BRIEF_NEVER 2		/* its template finds no room */

typedef struct StenoPrepared
{
	const PlannedStmt *plan;	/* NULL: none */
	uint32		text_offset;
	uint32		text_len;
	uint16		widths;			/* of parameters: two bits each, 2^n bytes */
	uint8		count;			/* of parameters */
	uint8		values_len;		/* of parameters, encoded */
	uint8		kept;			/* index of its shape */
	uint8		class;
	uint8		brief;			/* STENO_BRIEF_* */
	uint16		version;		/* of its template */
} StenoPrepared;

/* Relations whose names are at hand. */
#define STENO_NEAR_RELATIONS 2
#define STENO_NEAR_NAME 94

typedef struct StenoNearRelation
{
	uint8		type;
	uint8		len;
	char		name[STENO_NEAR_NAME];
} StenoNearRelation;

extern StenoNearRelation steno_near[STENO_NEAR_RELATIONS];

#define STENO_FEW_OPEN 3

/*
 * Functions that every query runs through stand together in the library; those
 * that it hardly ever needs stand apart.
 */
#define STENO_HOT __attribute__((hot))
#define STENO_COLD __attribute__((cold, noinline))

/*
 * Variables that every session sets, besides those in StenoLocal and StenoPrivate, stand together:
 * a new process copies each page that it writes to, and most sessions of some servers run a single
 * statement.
 */
#define STENO_SESSION_DATA __attribute__((section("steno_session")))

/*
 * A statement that runs: one of its hooks is on the C stack, and in its frame is the level,
 * but for that of a client (steno_top_level), which no hook has to leave when its statement
 * fails.  A nested hook takes its level off the list in its PG_CATCH (steno_fail), the abort
 * of the transaction takes off that of a client, and whatever is left above it
 * (failed_statement.c).  So no level is on the list whose frame is gone, and its callback is
 * on the server's list only as long.
 *
 * relations is its own, if it is not few, and in TopMemoryContext, as are the sets of columns
 * in it: freed when the statement has its record (steno_forget_utility).  query and utility are the hook's.
 */
typedef struct StenoLevel
{
	struct StenoLevel *outer;
	QueryDesc  *query;			/* NULL: a utility statement */
	StenoStatement *utility;
	int			inside;			/* depth of statements that it runs */
	bool		forces;			/* their record does not depend on log_nested */
	bool		declares;		/* DECLARE CURSOR */
	bool		changes;		/* the session may be another one after it */
	bool		command_ends;	/* may end the transaction that it began in */
	bool		ending;			/* has run; its record waits for the transaction's end */

	/* of steno_private.top */
	bool		explicit_block; /* BEGIN has begun the present transaction: it is in a block */
	bool		chained;		/* the one before has, by AND CHAIN, unless it failed at that */
	bool		chains;			/* the present one is to begin the next */
	bool		more_queries;	/* rules have added queries that come after it */
	ErrorContextCallback callback;

	/* utility statements only */
	const char *command;
	struct Node *tree;			/* while it runs, and cannot free it; NULL: it is not known */
	uint64		query_id;
	const char *prepared;		/* name of the client's prepared statement; NULL: none */
	const char *portal;			/* likewise of its portal */
	ParamListInfo params;		/* taken at its start (value/param.h); NULL: none */
	int			params_missing;	/* for which there was no memory */
	CommandId	since;			/* the transaction's command that it begins with */
	CmdType		operation;		/* of the query that is part of it; CMD_UNKNOWN: none has begun */
	int			relations_count;
	int			relations_missing;	/* that are not in the list, because there was no memory for them */
	int			relations_room;
	struct StenoAccess *relations;
	struct StenoAccess *few;			/* where relations begins */
} StenoLevel;

/* The statement that parallel workers are launched for; zeros: the client's own. */
typedef struct StenoLaunch
{
	uint32		substatement;
	uint16		depth;
} StenoLaunch;

/*
 * What keeps a client's statement from being a usual one: bits of steno_my.unusual, which is zero as a rule.  So all of
 * them are looked at in one go (steno_all_usual), and each has a function below that says what it means.
 */
#define STENO_U_NOT_READY		UINT64CONST(0x0001) /* state is not STENO_READY */
#define STENO_U_NOT_CLIENT		UINT64CONST(0x0002) /* not a client's backend */
#define STENO_U_WORKER			UINT64CONST(0x0004) /* a parallel worker */
#define STENO_U_NOT_DESCRIBED	UINT64CONST(0x0008) /* the ring does not have our present session message */
#define STENO_U_PAUSED			UINT64CONST(0x0010) /* what runs now, runs for us: not recorded */
#define STENO_U_ERROR_NOTED		UINT64CONST(0x0020) /* an error that no hook has seen (steno_raised) */
#define STENO_U_OBJECTS_PENDING UINT64CONST(0x0040) /* functions wait for their query */
#define STENO_U_SETTINGS_DIRTY	UINT64CONST(0x0080) /* settings is not STENO_SETTINGS_SAME */
#define STENO_U_ROLE_SET		UINT64CONST(0x0100) /* steno.role is not empty */
#define STENO_U_NO_PARAMETERS	UINT64CONST(0x0200) /* steno.log_parameter is off */
#define STENO_U_NO_TEXT			UINT64CONST(0x0400) /* steno.log_statement */
#define STENO_U_NO_RELATIONS	UINT64CONST(0x0800) /* steno.log_relation */
#define STENO_U_NO_ROWS			UINT64CONST(0x1000) /* steno.log_rows */

/* Those of a process that has not attached to its ring. */
#define STENO_U_AT_FIRST (STENO_U_NOT_READY | STENO_U_NOT_CLIENT | STENO_U_NOT_DESCRIBED)

typedef struct StenoLocal
{
	uint32		log_mask;		/* what is recorded: steno.log and steno.mandatory, a
								 * bit for each STENO_CLASS_* */
	uint32		session_mask;	/* steno.log alone */

	/* zero, as a rule */
	uint32		policy;			/* STENO_POLICY_*; 0: the masks say all */
	_Atomic uint32_t news;		/* STENO_NEWS_*, set by writers */

	uint32		start_mask;		/* classes that may have start records, and
								 * STENO_START_* */
	int			open_count;

	uint64		unusual;		/* STENO_U_*; zero, as a rule */

	/* phases (base/phase.h) */
	uint8		state;			/* StenoState */
	uint8		session;		/* StenoSessionPhase */
	uint8		settings;		/* StenoSettingsPhase */
	uint8		planning;		/* StenoPlanningPhase */
	uint8		failure;		/* StenoFailurePhase */
	uint8		transaction;	/* StenoTransactionPhase */
	bool		starting_own;	/* in ExecutorStart of a query with its own record */

	bool		scratch_used;	/* scratch is to be reset */
	bool		subtransactions;	/* some have begun in the present transaction */
	bool		watch_functions;	/* those of pg_catalog, too */
	bool		settled;		/* the ring's data has been mapped next to its header, if that is possible */
	bool		mapped;			/* this struct is where other processes see it */
	bool		log_nested;
	uint16		outside;		/* depth of what no statement runs: 0 in a background worker */
	uint32		planned;		/* substatements of the next statement, which ran while it was planned */
	int			delivery;		/* steno.delivery */
	int			log_parameter_max_size;
	int			open_room;
	uint32		substatements;	/* of the current top-level statement */
	SubTransactionId subid;		/* the present one */
	StenoStatement *open;			/* queries; first few_open */
	struct StenoLevel *level;	/* innermost running statement */
	StenoClock	clock;
	TimestampTz wall_time;		/* time of the clock on the wall ... */
	uint64		wall_ticks;		/* ... at these ticks; both are read again ... */
	uint64		wall_limit;		/* ... after so many */
	TimestampTz begun_message;	/* timestamp of the message in which the client's last statement has begun */
	uint64		ended_ticks;	/* when the server last stopped working for a statement ... */
	TimestampTz ended_message;	/* ... of that message */
	TimestampTz anchor_time;	/* statement timestamp when the last statement began */

	uint64		seq;			/* last sequence number given */
	uint64		statement;		/* last top-level statement number given */
	uint64		transaction_base;	/* the last one before the present transaction */
	uint64		ring_statement; /* the last finished one, by the messages in the ring (steno_message_advance) */
	StenoProducer producer;
	StenoMessage *staged;		/* in the ring, not published yet; NULL: none */
	uint32		inflight_version;
	uint32		ring_number;
	StenoWriterControl *writer;
	uint64		dropped;		/* records dropped since the last gap record */
	uint64		attached;		/* head of the ring when this session began */

	/* what the session message said */
	Oid			user_id;
	Oid			session_user_id;
	const char *application;	/* the setting's value, for its address alone */

	StenoLaunch launch;			/* for parallel workers, who read it here */

	/* end of the last top-level statement in its source */
	const char *last_source;
	int			last_end;
	TimestampTz last_time;

	StenoStatement top_utility; /* the client's statement, if it is a utility statement */

	Oid			near_relids[STENO_NEAR_RELATIONS];	/* 0: none */
	int			near_next;		/* to be replaced next */
	uint8		kept_next;		/* likewise */
	uint8		prepared_next;	/* likewise */
	uint8		template;		/* shared one that was used last, which the next record may have, too; 0: none */
	uint32		templates_used; /* lately, a bit for each shared one */
	uint32		controls;		/* statements of the present transaction that control it, such as COMMIT */

	StenoStatement few_open[STENO_FEW_OPEN] __attribute__((aligned(STENO_CACHE_LINE)));
	StenoPrepared prepared[STENO_PREPARED] __attribute__((aligned(STENO_CACHE_LINE / 2)));
	StenoKept	kept[STENO_KEPT_SHAPES] __attribute__((aligned(STENO_CACHE_LINE)));
} StenoLocal;

/*
 * What the server has done for a query that has not begun yet (planner.c), in a line of its own: it is all that the
 * hooks before its beginning touch.
 */
typedef struct StenoAhead
{
	post_parse_analyze_hook_type previous_analyze;

	/* the query that was planned last, and has not begun */
	const char *source;			/* compared, never followed; NULL: none */
	uint64		query_id;
	TimestampTz message;
	uint64		begin;			/* of its planning, in ticks */
	uint64		end;
	int			location;
	int			len;

	int			waiting;		/* texts that a Parse has had analyzed, whose statements have not begun */
	uint32		analyzed;		/* number of the client's statement that was analyzed last, as it will have it */
} StenoAhead;

/*
 * What is called, or leads to a call, and what must be recorded: never in memory that
 * other processes can write.  The state of this process is in such memory once it is attached to its
 * ring (StenoArea); a stray or hostile store there may change what is recorded, but
 * not what this process executes.
 */
typedef struct StenoPrivate
{
	/* hooks to chain to, or what the server would have called */
	ExecutorStart_hook_type previous_start;
	ExecutorRun_hook_type previous_run;
	ExecutorFinish_hook_type previous_finish;
	ExecutorEnd_hook_type previous_end;
	ExecutorCheckPerms_hook_type previous_check;
	ProcessUtility_hook_type previous_utility;
	object_access_hook_type previous_access;
	planner_hook_type previous_planner;

	/*
	 * What a statement needs of the server, by address: the library's own
	 * table of these is spread over many lines of another page.
	 */
	Portal	   *active_portal;
	char	  **application_name;
	const char **client_query;	/* debug_query_string: the client's message that runs; NULL: none */
	int		   *isolation_level;
	ErrorContextCallback **error_context;
	Oid			(*get_user_id) (void);
	TimestampTz (*statement_start) (void);
	FullTransactionId (*transaction_id) (void);
	bool		(*is_transaction_block) (void);
	MemoryContext *current_context;

	/* likewise, for the statements that begin and end a transaction, and for its end */
	bool		(*is_transaction_state) (void);
	bool		(*is_aborted_block) (void);
	XLogRecPtr *last_record;
	XLogRecPtr *last_commit_end;
	TimeLineID	(*timeline) (void);
	TimestampTz (*transaction_start) (void);
	TimestampTz (*transaction_stop) (void);

	/*
	 * The WAL record of the last commit: where it begins and ends, and the timeline; 0: not known yet.  It is taken
	 * at once when the transaction has committed, before anything else can write WAL.
	 */
	XLogRecPtr	commit_lsn;
	XLogRecPtr	commit_end;
	TimeLineID	commit_timeline;

	uint32		mandatory_mask; /* steno.mandatory, a bit for each class */

	StenoAhead	ahead __attribute__((aligned(STENO_CACHE_LINE)));

	StenoLevel	top;			/* of a client's statement; its callback is on the server's list */

	/*
	 * Memory for one record (steno_scratch); steno_record_put resets it when
	 * scratch_used says that some of it was taken.
	 */
	MemoryContext scratch;
} StenoPrivate;

/*
 * It stands in the page of the ring's header: the page, at first one of this
 * process alone, is replaced by that of the ring when the process attaches to
 * it.  The ring's templates are before it, and its data is right behind.  So one page, not two, is
 * touched for state and header, and all of their page table entries are in the same cache line, as are
 * those of the first data.
 */
#define STENO_NEAR_DATA (1024 * 1024)
#define STENO_PAGE_GROUP (8 * STENO_PAGE)	/* pages whose entries share a line of 64 bytes */

typedef struct StenoArea
{
	StenoTemplate templates[STENO_TEMPLATES] __attribute__((aligned(STENO_PAGE_GROUP)));
	StenoPrivate private __attribute__((aligned(STENO_PAGE)));	/* never replaced */
	StenoRing	page __attribute__((aligned(STENO_PAGE)));
	uint8		data[STENO_NEAR_DATA];	/* for rings up to this size */
} StenoArea;

extern StenoArea steno_area;

#define steno_my (*(StenoLocal *) steno_area.page.own)
#define steno_private (steno_area.private)

StaticAssertDecl(offsetof(StenoArea, private) == sizeof(StenoTemplate) * STENO_TEMPLATES &&
				 offsetof(StenoArea, page) == offsetof(StenoArea, private) + STENO_PAGE,
				 "templates are in whole pages, and private state is in one, before the ring's");
StaticAssertDecl(sizeof(StenoAhead) == STENO_CACHE_LINE, "it is a line");
StaticAssertDecl(sizeof(StenoLocal) <= STENO_OWN_MAX, "local state fits the ring's page");

/*
 * Prefetch the cache lines that a client's statement touches of all this, and of the ring's header: what a
 * statement does is too long for the processor to ask for the last of them while it waits for the
 * first.  Called at the beginning of its first hook, and needs no data itself.
 */
static inline void
steno_prefetch_state(void)
{
	const StenoRing *ring = &steno_area.page;

	STENO_PREFETCH_WRITE(&steno_my.log_mask);
	STENO_PREFETCH_WRITE(&steno_private.previous_start);
	STENO_PREFETCH_WRITE(&steno_my.producer);
	STENO_PREFETCH_WRITE(&steno_private.active_portal);
	STENO_PREFETCH_WRITE(&steno_my.open);
	STENO_PREFETCH_WRITE(&steno_my.user_id);
	STENO_PREFETCH_WRITE(&steno_my.prepared[0]);
	STENO_PREFETCH_WRITE(&steno_my.few_open[0]);
	STENO_PREFETCH_WRITE(&steno_my.few_open[0].objects);
	STENO_PREFETCH_WRITE(&steno_my.few_open[0].rows);
	STENO_PREFETCH_WRITE(&steno_private.top);
	STENO_PREFETCH_WRITE(&steno_private.top.callback);
	STENO_PREFETCH_WRITE(&ring->inflight);
	STENO_PREFETCH_WRITE(&steno_my.last_source);
	STENO_PREFETCH_WRITE(&ring->head);
}

/* Memory for one record; NULL when there is none. */
extern void *steno_scratch(size_t size);

/*
 * The error that the server is handling while we record it, of which the server has a stack: one that is reported
 * to the log or was caught is still there, and whoever reports it or throws it again needs it.
 * FlushErrorState(), with which the error of what we call ourselves is forgotten, empties the whole stack.  So
 * whoever records while an error is being handled sets this, a copy that outlives what is called meanwhile, and
 * whoever forgets an error uses steno_forget_error(), which puts it back.
 */
extern ErrorData *steno_handled;
extern void steno_forget_error(void);

/* The 64-bit ID of the current transaction; 0: it has none. */
static inline uint64
steno_current_xid(void)
{
	return U64FromFullTransactionId(steno_private.transaction_id());
}

/* The bytes of a kept shape, which are k->len. */
static inline const uint8 *
steno_kept_shape(const StenoKept *k)
{
	return likely(k->len <= STENO_KEPT_ROOM) ? k->shape : steno_kept_far[k - steno_my.kept].shape;
}

/* ---- what is unusual ---- */

static inline void
steno_set_unusual(uint64 bit, bool is_set)
{
	if (is_set)
		steno_my.unusual |= bit;
	else
		steno_my.unusual &= ~bit;
}

static inline bool
steno_is_unusual(uint64 bits)
{
	return (steno_my.unusual & bits) != 0;
}

/* Whether this is a client's backend. */
static inline bool
steno_is_client(void)
{
	return !steno_is_unusual(STENO_U_NOT_CLIENT);
}

/* Whether this is a parallel worker. */
static inline bool
steno_is_worker(void)
{
	return steno_is_unusual(STENO_U_WORKER);
}

/* Whether the ring has our present session message. */
static inline bool
steno_is_described(void)
{
	return !steno_is_unusual(STENO_U_NOT_DESCRIBED);
}

/* Whether what runs now, runs for us: it is not recorded. */
static inline bool
steno_is_paused(void)
{
	return steno_is_unusual(STENO_U_PAUSED);
}

/* Whether an error was raised that no hook has seen (steno_raised). */
static inline bool
steno_error_is_noted(void)
{
	return steno_is_unusual(STENO_U_ERROR_NOTED);
}

/* Whether the planner has called functions whose query has not begun. */
static inline bool
steno_objects_are_pending(void)
{
	return steno_is_unusual(STENO_U_OBJECTS_PENDING);
}

/* Whether settings have, or may have, other values than those in force. */
static inline bool
steno_settings_are_dirty(void)
{
	return steno_is_unusual(STENO_U_SETTINGS_DIRTY);
}

/* Whether steno.role is set, so what it has privileges on is recorded. */
static inline bool
steno_role_is_set(void)
{
	return steno_is_unusual(STENO_U_ROLE_SET);
}

static inline bool
steno_logs_parameters(void)
{
	return !steno_is_unusual(STENO_U_NO_PARAMETERS);
}

static inline bool
steno_logs_text(void)
{
	return !steno_is_unusual(STENO_U_NO_TEXT);
}

static inline bool
steno_logs_relations(void)
{
	return !steno_is_unusual(STENO_U_NO_RELATIONS);
}

static inline bool
steno_logs_rows(void)
{
	return !steno_is_unusual(STENO_U_NO_ROWS);
}

/*
 * Whether nothing asks for a special look at a client's statement that begins: no
 * rules, nothing runs or is open, the session is described.
 */
static inline bool
steno_all_usual(void)
{
	return (steno_my.policy | atomic_load_explicit(&steno_my.news, memory_order_relaxed) | steno_my.unusual) == 0 &&
		((uintptr_t) steno_my.level | (uintptr_t) steno_my.staged | steno_my.dropped | steno_my.open_count) == 0;
}

/* ---- what is recorded ---- */

static inline bool
steno_class_logged(int class)
{
	return (steno_my.log_mask & (1u << class)) != 0;
}

/* Bits of steno_my.start_mask that are no classes. */
#define STENO_START_SYNC (1u << 31)		/* the transaction's end waits for the disk */
#define STENO_START_CANCELLED (1u << 30)	/* so was a wait for room */
#define STENO_START_HURRY (1u << 29)	/* what cannot be cancelled does not wait for room */
#define STENO_START_ASKED (1u << 28)	/* the sync that the transaction's end waits for has been requested */
#define STENO_START_SHORT (1u << 27)	/* a statement must look for the reserve first; with it, all classes are set */
#define STENO_START_CLASSES (STENO_START_SHORT - 1)

/* The records of the transaction are not dropped: its end waits for them. */
#define STENO_START_SYNCED (STENO_START_SYNC | STENO_START_ASKED)

/* What a transaction's end looks at. */
#define STENO_START_AT_END \
	(STENO_START_SYNCED | STENO_START_CANCELLED | STENO_START_HURRY | (1u << STENO_CLASS_TRANSACTION))

/* What writers leave in steno_my.news. */
#define STENO_NEWS_RULES 1		/* there are other rules */
#define STENO_NEWS_FAILING 2	/* statements may have to be refused */

/* A prepared statement is known no more; what is in the ring, staged included, still needs its template. */
static inline void
steno_forget_prepared(int i)
{
	StenoPrepared *p = &steno_my.prepared[i];

	p->plan = NULL;
	if (p->brief == STENO_BRIEF_YES)
		steno_my.producer.templates[i].needed_until = steno_my.producer.head +
			(steno_my.staged ? steno_my.staged->len : 0);
	p->brief = STENO_BRIEF_LATER;
}

/* Names in the kept shapes may have changed. */
static inline void
steno_forget_shapes(void)
{
	int			i;

	for (i = 0; i < STENO_KEPT_SHAPES; i++)
		steno_my.kept[i].len = 0;
	for (i = 0; i < STENO_PREPARED; i++)
		steno_forget_prepared(i);
}

#endif							/* STENO_LOCAL_H */
