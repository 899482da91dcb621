/*
 * extension/base/phase.h
 *		What this process is in the middle of: phases, and the functions that alone change them.
 *
 * The phases of the table are independent of each other.  Each is a field of StenoLocal.
 *
 *	field        from                  at                                 function                       to
 *	state        UNDECIDED             attached to its ring               steno_process_attached         READY
 *	             any                   no ring; refused; ended            steno_process_done             DEAD
 *	session      any                   a fact of it has changed           steno_session_undescribed      UNDESCRIBED
 *	             UNDESCRIBED           its message is in the ring         steno_session_described        DESCRIBED
 *	             DESCRIBED             PRE_COMMIT: all names are known    steno_session_introduced       INTRODUCED
 *	             INTRODUCED            a function is called               steno_session_may_change       DESCRIBED
 *	settings     any                   values are assigned, or compared   steno_settings_become          any
 *	planning     NOTHING               the planner begins                 steno_planning_begins          NESTED, CLIENTS
 *	             NESTED, CLIENTS       ... for a function that it calls   steno_planning_begins          the same
 *	             NESTED, CLIENTS       it ends, or fails                  steno_planning_ends            what it was
 *	failure      any                   a client's statement begins        steno_failure_forgotten        NONE
 *	             any                   its failure has its record         steno_failure_recorded         RECORDED
 *	             any                   it is reported, or never will be   steno_failure_forgotten        NONE
 *	transaction  RUNS, ABORTED         COMMIT, SAVEPOINT ... begins       steno_transaction_goes_on      RUNS
 *	             RUNS, ABORTED         PRE_COMMIT: its end may wait       steno_transaction_commits_late COMMITS_LATE
 *	             any                   ABORT                              steno_transaction_aborts       RUNS
 *	             any but LATE          COMMIT, ABORT: its end may wait    steno_transaction_is_late      LATE
 *	             LATE                  its locks are released             steno_transaction_is_released  RUNS
 *	             RUNS, ABORTED         it has its records                 steno_transaction_ends         RUNS, ABORTED
 *
 * No statement begins or runs while the transaction is LATE; no client's statement begins while recording is paused, or
 * while the planner works for one.  The hooks assert that.
 *
 * Three flags are no phases of these, because they are inside each other: recording is paused within the start of a
 * query that the planner has run, for example.  Who sets one puts it back: STENO_U_PAUSED, starting_own, and
 * STENO_U_ERROR_NOTED, which is about the innermost statement (capture/statement.h).  A noted error is not a phase of
 * failure, either: a FATAL one is still noted when the client's statement has its record.
 *
 * core/model/statement.pml is a model of failure and transaction.
 */
#ifndef STENO_PHASE_H
#define STENO_PHASE_H

/* Whether this process records. */
typedef enum StenoState
{
	STENO_UNDECIDED,			/* not attached to its ring yet */
	STENO_READY = 1,
	STENO_DEAD					/* ended, or there is no ring for this process */
} StenoState;

/* What the ring, and this process, know of the session. */
typedef enum StenoSessionPhase
{
	STENO_SESSION_UNDESCRIBED,	/* the ring does not have our present session message */
	STENO_SESSION_DESCRIBED,
	STENO_SESSION_INTRODUCED	/* and no name of a role must be learned at the commit */
} StenoSessionPhase;

/* Whether settings have other values than those in force. */
typedef enum StenoSettingsPhase
{
	STENO_SETTINGS_SAME,
	STENO_SETTINGS_ASSIGNED,	/* they may: some were assigned */
	STENO_SETTINGS_WAITING		/* they do: writer 0 has yet to record a reload */
} StenoSettingsPhase;

/* For whom the planner works. */
typedef enum StenoPlanningPhase
{
	STENO_PLANNING_NOTHING,
	STENO_PLANNING_NESTED,		/* a query that is not a client's, or is inside a statement */
	STENO_PLANNING_CLIENTS		/* a client's statement, which has no number yet, or a function called for that */
} StenoPlanningPhase;

/* The failure of the client's statement. */
typedef enum StenoFailurePhase
{
	STENO_FAILURE_NONE,			/* it has not failed, or has no record of it */
	STENO_FAILURE_RECORDED		/* if the error is reported, that must not record it again */
} StenoFailurePhase;

/* The transaction. */
typedef enum StenoTransactionPhase
{
	STENO_TRANSACTION_RUNS,		/* or the last one has committed */
	STENO_TRANSACTION_ABORTED,	/* the last one has, and has its record; its block may still be there */
	STENO_TRANSACTION_COMMITS_LATE, /* it is about to commit, and will be LATE */
	STENO_TRANSACTION_LATE		/* it has ended: it is recorded when its locks are released */
} StenoTransactionPhase;

/* ---- assertions of hooks ---- */

/* Whether each bit that says something of a phase agrees with it. */
static inline void
steno_assert_phases(void)
{
	Assert(steno_is_unusual(STENO_U_NOT_READY) == (steno_my.state != STENO_READY));
	Assert(steno_is_unusual(STENO_U_NOT_DESCRIBED) == (steno_my.session == STENO_SESSION_UNDESCRIBED));
	Assert(steno_is_unusual(STENO_U_SETTINGS_DIRTY) == (steno_my.settings != STENO_SETTINGS_SAME));
}

/* In hooks in which a statement may begin or run. */
static inline void
steno_assert_may_run(void)
{
	steno_assert_phases();
	Assert(steno_my.transaction != STENO_TRANSACTION_LATE);
}

/* ---- transitions ---- */

static inline void
steno_process_attached(void)
{
	Assert(steno_my.state == STENO_UNDECIDED);
	steno_my.state = STENO_READY;
	steno_set_unusual(STENO_U_NOT_READY, false);
}

static inline void
steno_process_done(void)
{
	steno_my.state = STENO_DEAD;
	steno_set_unusual(STENO_U_NOT_READY, true);
}

static inline void
steno_session_undescribed(void)
{
	steno_my.session = STENO_SESSION_UNDESCRIBED;
	steno_set_unusual(STENO_U_NOT_DESCRIBED, true);
}

static inline void
steno_session_described(void)
{
	Assert(steno_my.session == STENO_SESSION_UNDESCRIBED);
	steno_my.session = STENO_SESSION_DESCRIBED;
	steno_set_unusual(STENO_U_NOT_DESCRIBED, false);
}

static inline void
steno_session_introduced(void)
{
	Assert(steno_my.session == STENO_SESSION_DESCRIBED);
	steno_my.session = STENO_SESSION_INTRODUCED;
}

static inline void
steno_session_may_change(void)
{
	if (steno_my.session == STENO_SESSION_INTRODUCED)
		steno_my.session = STENO_SESSION_DESCRIBED;
}

static inline void
steno_settings_become(StenoSettingsPhase phase)
{
	steno_my.settings = phase;
	steno_set_unusual(STENO_U_SETTINGS_DIRTY, phase != STENO_SETTINGS_SAME);
}

static inline bool
steno_is_planning_clients(void)
{
	return steno_my.planning == STENO_PLANNING_CLIENTS;
}

/* Returns what steno_planning_ends gets. */
static inline StenoPlanningPhase
steno_planning_begins(bool of_client)
{
	StenoPlanningPhase before = steno_my.planning;

	Assert(!of_client || before == STENO_PLANNING_NOTHING);
	if (of_client)
		steno_my.planning = STENO_PLANNING_CLIENTS;
	else if (before == STENO_PLANNING_NOTHING)
		steno_my.planning = STENO_PLANNING_NESTED;
	return before;
}

static inline void
steno_planning_ends(StenoPlanningPhase before)
{
	Assert(steno_my.planning != STENO_PLANNING_NOTHING);
	Assert(before == STENO_PLANNING_NOTHING || before == steno_my.planning);
	steno_my.planning = before;
}

static inline void
steno_failure_recorded(void)
{
	steno_my.failure = STENO_FAILURE_RECORDED;
}

static inline void
steno_failure_forgotten(void)
{
	steno_my.failure = STENO_FAILURE_NONE;
}

static inline bool
steno_failure_is_recorded(void)
{
	return steno_my.failure == STENO_FAILURE_RECORDED;
}

static inline void
steno_transaction_goes_on(void)
{
	Assert(steno_my.transaction == STENO_TRANSACTION_RUNS || steno_my.transaction == STENO_TRANSACTION_ABORTED);
	steno_my.transaction = STENO_TRANSACTION_RUNS;
}

static inline void
steno_transaction_commits_late(void)
{
	Assert(steno_my.transaction == STENO_TRANSACTION_RUNS || steno_my.transaction == STENO_TRANSACTION_ABORTED);
	steno_my.transaction = STENO_TRANSACTION_COMMITS_LATE;
}

static inline void
steno_transaction_aborts(void)
{
	steno_my.transaction = STENO_TRANSACTION_RUNS;
}

static inline void
steno_transaction_is_late(void)
{
	Assert(steno_my.transaction != STENO_TRANSACTION_LATE);
	steno_my.transaction = STENO_TRANSACTION_LATE;
}

static inline void
steno_transaction_is_released(void)
{
	Assert(steno_my.transaction == STENO_TRANSACTION_LATE);
	steno_my.transaction = STENO_TRANSACTION_RUNS;
}

static inline void
steno_transaction_ends(bool aborted)
{
	Assert(steno_my.transaction == STENO_TRANSACTION_RUNS || steno_my.transaction == STENO_TRANSACTION_ABORTED);
	steno_my.transaction = aborted ? STENO_TRANSACTION_ABORTED : STENO_TRANSACTION_RUNS;
}

/* ---- flags ---- */

static inline void
steno_pause_recording(void)
{
	Assert(!steno_is_paused());
	steno_set_unusual(STENO_U_PAUSED, true);
}

static inline void
steno_resume_recording(void)
{
	steno_set_unusual(STENO_U_PAUSED, false);
}

/* ExecutorStart begins; own: of a query that has its own record.  Returns what steno_start_ends gets. */
static inline bool
steno_start_begins(bool own)
{
	bool		before = steno_my.starting_own;

	steno_my.starting_own = own;
	return before;
}

static inline void
steno_start_ends(bool before)
{
	steno_my.starting_own = before;
}

#endif							/* STENO_PHASE_H */
