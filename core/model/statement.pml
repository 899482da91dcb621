/*
 * core/model/statement.pml
 *		Ends of statements and transactions (extension/capture, extension/base/phase.h): whatever fails, and
 *		wherever, each statement has one record of its end, each failure one record, and each transaction one;
 *		and nothing of a transaction is open when the next one begins.
 *
 * A client runs transactions, by themselves or in blocks, each with one query.  That fails before any hook sees it, in
 * the planner, while it runs, by itself or by a nested statement, or at commit; or a function catches what a nested
 * statement has raised.  The server reports errors, or, by log_min_messages, does not.  The end of a
 * transaction may have to wait, and then comes when its locks are released.
 *
 * Not modelled: cursors and portals that are read in parts, FATAL errors, levels that another library's PG_CATCH has
 * lost, and changes of log_min_messages between an error and its report.
 */
mtype = { NONE, RECORDED };							/* StenoFailurePhase */
mtype = { RUNS, ABORTED, COMMITS_LATE, LATE };		/* StenoTransactionPhase */

mtype failure = NONE;
mtype transaction = RUNS;
bool noted, noted_text;				/* STENO_U_ERROR_NOTED; of a nested statement that no hook has seen */
bool planning;						/* STENO_PLANNING_CLIENTS */
byte level;							/* 0: nothing runs; 1: the client's statement; 2: also a nested one */
bool ending;						/* the level is that of COMMIT, which has run */
bool open, commits;					/* the client's query: it has not ended; its record waits for the commit */
bool utility;						/* likewise: the client's utility statement */
bool unreported;					/* errors are not reported */
bool block, aborted_block;

/* What has happened since the last message, and what has been recorded of it. */
byte begun, ended;					/* the client's statements */
byte nested_begun, nested_ended;
byte raised, raised_records;		/* errors of nested statements that no hook has seen */
byte failed, failures;				/* errors that have reached the client */
byte transactions, transaction_records;	/* since the last transaction */
bool error;							/* an error is being thrown */

inline assert_may_run()
{
	assert(transaction != LATE)
}

/* ---- records ---- */

/* The client's statement that is open or runs ends, with a failure or not. */
inline end_client(with_failure)
{
	d_step {
		assert(open || utility);
		open = false;
		utility = false;
		commits = false;
		ended++;
		failures = failures + with_failure
	}
}

/* steno_open_finish_committed */
inline finish_committed()
{
	if
	:: open && commits -> end_client(0)
	:: else
	fi
}

/* steno_forget_raised, record_raised */
inline forget_raised()
{
	noted = false;
	noted_text = false
}

inline record_raised()
{
	if
	:: noted && noted_text -> raised_records++
	:: else
	fi
}

/* ---- beginnings ---- */

/* take_number */
inline take_number()
{
	assert_may_run();
	assert(!planning);
#ifndef BREAK_BEGIN_KEEPS
	failure = NONE;
#endif
	forget_raised();
	begun++
}

/* client_utility, begin_query; leave_last */
inline begin_client(is_utility)
{
	finish_committed();
	assert(!open && !utility && level == 0);
	take_number();
	open = !is_utility;
	utility = is_utility;
	level = 1
}

/* ---- failures ---- */

/* steno_note_raised; text: of a nested statement that has not begun */
inline raise(text)
{
	d_step {
		error = true;
		if
		:: level > 0 ->
			noted = true;
			noted_text = text;
			raised = raised + text
		:: else
		fi
	}
}

/* take_raised */
inline take_raised()
{
	record_raised();
#ifndef BREAK_NOTE_KEPT
	forget_raised()
#endif
}

/* record_failed of the client's statement */
inline record_failed()
{
	level = 0;
	ending = false;
	end_client(1);
#ifndef BREAK_RUN_NOT_SAID
	failure = RECORDED
#endif
}

/* steno_fail: a nested statement's PG_CATCH */
inline fail_nested(outer)
{
	take_raised();
	nested_ended++;
#ifndef BREAK_LEVEL_KEPT
	level = outer
#endif
}

/* steno_record_unplanned */
inline record_unplanned()
{
	forget_raised();
	finish_committed();
	take_number();
	d_step { ended++; failures++ };
#ifndef BREAK_PLANNER_NOT_SAID
	failure = RECORDED
#endif
}

/* steno_open_fail_outside: of a query whose record waits for its commit */
inline fail_outside()
{
	end_client(1);
	failure = RECORDED
}

/* record_reported */
inline report()
{
	/* steno_statement_failed */
	if
	:: level == 0 && open -> fail_outside()
	:: level == 1 -> take_raised(); record_failed()
	:: else
	fi;
	/* steno_statement_take_reported */
	if
	:: failure == RECORDED
	:: else -> failures++
	fi;
#ifndef BREAK_NOT_TAKEN
	failure = NONE
#endif
}

/* fail_unreported */
inline fail_unreported()
{
	if
	:: level == 0 && open && unreported -> fail_outside(); failure = NONE
	:: level == 1 -> record_raised(); record_failed(); forget_raised(); failure = NONE
	:: else
	fi
}

/* steno_statement_rolled_back: a function has caught the error */
inline catch_error()
{
	error = false;
#ifndef BREAK_CATCH_FORGETS
	record_raised();
#endif
	forget_raised()
}

/* ---- what is nested ---- */

/* A nested statement at this depth: it ends well, or raises an error, which may be caught. */
inline run_nested(outer)
{
	if
	:: /* it has its own hook */
		assert_may_run();
		level = 2;
		nested_begun++;
		if
		:: level = outer; nested_ended++
		:: raise(0); fail_nested(outer)
		:: raise(1); fail_nested(outer)
		fi
	:: raise(1)
	:: raise(0)			/* no statement raises it, but what runs it */
	fi;
	if
	:: error && outer > 0 -> catch_error()
	:: true
	fi
}

/* ---- the end of a transaction ---- */

/* record_end_of_transaction; reset_statement_count */
inline transaction_ends(phase)
{
	transaction_records++;
	assert(transaction == RUNS || transaction == ABORTED);
	transaction = phase
}

/* resources_released */
inline locks_released(phase)
{
	if
	:: transaction == LATE ->
#ifndef BREAK_LATE_KEPT
		transaction = RUNS;
#endif
		/* finish_transaction_late */
		end_statement();
		transaction_ends(phase)
	:: else
	fi
}

/* transaction_closed: what ends with its transaction */
inline end_statement()
{
#ifndef BREAK_COMMIT_LEAVES_OPEN
	finish_committed();
#endif
	if
	:: level == 1 && ending -> level = 0; ending = false; end_client(0)
	:: else
	fi
}

inline commit()
{
	/* deferred constraints, then PRE_COMMIT */
	if
	:: raise(0)
	:: true
	fi;
	if
	:: error
	:: else ->
		assert(transaction == RUNS || transaction == ABORTED);
		if
		:: transaction = COMMITS_LATE
		:: true
		fi;
		/* the server's own work, and other libraries', may still fail */
		if
		:: raise(0)
		:: true
		fi
	fi;
	if
	:: error
	:: else ->
		/* COMMIT */
		if
		:: transaction == COMMITS_LATE -> transaction = LATE
		:: else -> end_statement(); transaction_ends(RUNS)
		fi;
		locks_released(RUNS)
	fi
}

/* transaction_aborted */
inline abort()
{
#ifndef BREAK_ABORT_KEEPS
	transaction = RUNS;
#endif
	fail_unreported();
	finish_committed();
	if
	:: transaction = LATE
	:: true -> end_statement(); transaction_ends(ABORTED)
	fi;
	locks_released(ABORTED)
}

/* ---- the client ---- */

/* The main loop handles an error; seen: a hook has seen the statement. */
inline main_loop(seen)
{
	d_step {
		error = false;
		/* one that no hook has seen is known by its report only */
		failed = failed + (seen || !unreported -> 1 : 0)
	};
	if
	:: unreported
	:: else -> report()
	fi;
	abort();
	aborted_block = block;
	check_quiet()
}

/* After each message: all that has happened has been recorded.  The counts begin again, so there are few states. */
inline check_quiet()
{
	d_step {
		assert(level == 0 && !planning && transaction != LATE && transaction != COMMITS_LATE);
		assert(nested_begun == nested_ended && raised == raised_records);
		assert(failed == failures);
		assert(begun == ended + open);
		nested_begun = 0; nested_ended = 0;
		raised = 0; raised_records = 0;
		failed = 0; failures = 0;
		begun = open; ended = 0
	}
}

/* A query: its transaction's message, or one of a block. */
inline query()
{
	seen = true;
	if
	:: /* the parser refuses it */
		seen = false;
		error = true
	:: true
	fi;
	if
	:: error
	:: else ->
		/* plan_query */
		planning = true;
		if
		:: run_nested(0)
		:: true
		fi;
		planning = false;
		if
		:: error ->
			record_unplanned();
			if
			:: /* another library's hook catches it, and has the query planned otherwise */
				d_step { error = false; failed++ }
			:: true
			fi
		:: else
		fi
	fi;
	if
	:: error
	:: else ->
		begin_client(0);
		if
		:: run_nested(1)
		:: true
		fi;
		if
		:: error
		:: else ->
			if
			:: run_nested(1)
			:: true
			fi
		fi
	fi;
	if
	:: error -> main_loop(seen)
	:: else ->
		level = 0;
		if
		:: block -> end_client(0)
		:: else ->
			commits = true;
			commit();
			if
			:: error -> main_loop(true)
			:: else -> check_quiet()
			fi
		fi
	fi
}

/* COMMIT of a block. */
inline commit_statement()
{
	block = false;
	begin_client(1);
	if
	:: aborted_block ->
		/* it is a ROLLBACK, whose transaction has ended, and ends with the hook; steno_transaction_statement */
		aborted_block = false;
		level = 0;
		end_client(0)
	:: else ->
		transaction = RUNS;
		ending = true;
		commit();
		if
		:: error -> main_loop(true)
		:: else
		fi
	fi;
	check_quiet()
}

active proctype Client()
{
	bool seen;

	if
	:: unreported = true
	:: true
	fi;
	do
	:: true ->
		/* a transaction begins: the last one has its record, and nothing of it is open */
		assert(transaction_records == transactions);
		assert(!open && !utility);
		d_step { transactions = 1; transaction_records = 0 };
		if
		:: block = true
		:: true
		fi;
		query();
		if
		:: block -> commit_statement()
		:: else
		fi
	od
}
