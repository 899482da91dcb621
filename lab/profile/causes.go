// The list of causes, with their patterns and their advice.

package profile

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Class is the class of a cause.
type Class string

// The classes. Only costs are ranked: work is the purpose of the statements, and no reason why a server is slow.
const (
	Cost Class = "cost" // in addition to the statements' own work; depends on settings
	Work Class = "work"
	Idle Class = "idle" // sessions that wait for their client; not part of any share
)

// Cause is something that takes time. Names of functions, files, processes and wait events may end with *, which
// matches the rest.
type Cause struct {
	ID    string
	Title string
	Class Class

	// Owner functions decide: the innermost owner of any cause on a stack determines the cause.
	Owner []string
	// Generic functions serve many causes. The outermost of them determines the cause if there is no owner between it
	// and the statement's own work.
	Generic []string
	// Objects are whole files, by their base names, which decide like owners.
	Objects []string
	// Processes are kinds of processes whose samples all belong to this cause, except those with a Strong owner.
	Processes []string
	Strong    bool
	// Waits are wait events, as in "IPC:SyncRep".
	Waits []string

	Advice []Advice
}

// Advice is what to do about a cause. Its text may contain settings as {setting}; it is omitted if When returns false.
type Advice struct {
	Min  float64 // minimum share of the cause in the active time, in per cent
	When func(*evidence) bool
	Text string
}

// The IDs that the code uses.
const (
	logFormat = "log_format"
	logWrite  = "log_write"
	clock     = "clock"
	syncRep   = "sync_rep"
	starved   = "processors"
	running   = "running"
	idle      = "idle"
	other     = "other"
)

// writing are functions below the formatting of a log line whose time is that of writing it.
var writing = []string{
	"write", "__write", "__libc_write", "__GI___libc_write", "__x64_sys_write", "__arm64_sys_write", "ksys_write",
	"vfs_write",
	"fwrite", "__GI__IO_fwrite", "_IO_fwrite", "fflush", "send", "__libc_send",
}

// preempted are functions of the kernel that preempt a process.
var preempted = []string{"exit_to_user_mode_loop", "irqentry_exit*", "preempt_schedule*",
	"raw_irqentry_exit_cond_resched"}

// reading are functions in which a session waits for its client's next message.
var reading = []string{"secure_read", "secure_raw_read", "pq_getbyte", "pq_getmessage", "pq_startmsgread",
	"SocketBackend", "ReadCommand"}

// Causes is the one list of causes.
var Causes = []*Cause{
	{
		ID: logFormat, Title: "formatting log lines", Class: Cost,
		Owner: []string{
			"errstart*", "errfinish", "errmsg*", "errdetail*", "errcontext*", "errhint*", "EmitErrorReport",
			"send_message_to_server_log",
			"log_line_prefix", "log_status_format", "write_csvlog", "write_jsonlog", "appendCSVLiteral",
			"check_log_statement",
			"check_log_duration", "get_formatted_log_time", "setup_formatted_log_time", "GetErrorContextStack",
			// the C library's lookup of translated messages, which is called even if there are none
			"__dcigettext", "dcgettext", "_nl_find_domain", "_nl_make_l10nflist*", "_nl_find_msg",
		},
		Objects: []string{"auto_explain.so"},
		Advice:  logAdvice,
	},
	{
		ID: logWrite, Title: "writing log lines: the pipe and its lock", Class: Cost, Strong: true,
		Owner: []string{
			"write_pipe_chunks", "write_console", "write_syslog", "syslog", "__vsyslog_internal", "__vsyslog_chk",
			"pipe_write", "anon_pipe_write", stderrWrite,
		},
		Advice: logAdvice,
	},
	{
		ID: "collector", Title: "the logging collector process", Class: Cost,
		Owner:     []string{"SysLoggerMain", "write_syslogger_file", "process_pipe_input"},
		Processes: []string{"logger"},
		Advice: []Advice{{Min: 5, Text: "One process takes all log lines from the pipe and writes them. " +
			"Fewer or shorter lines (log_statement, log_duration, log_min_duration_statement, " +
			"log_line_prefix) reduce its load."}},
	},
	{
		ID: clock, Title: "reading the clock", Class: Cost,
		Owner: []string{
			"clock_gettime*", "__clock_gettime*", "__GI___clock_gettime*", "gettimeofday*", "__gettimeofday*",
			"__vdso_*", "__x64_sys_clock_gettime",
			"__x64_sys_gettimeofday", "__arm64_sys_clock_gettime", "InstrStartNode", "InstrStopNode", "InstrEndLoop",
			"GetCurrentTimestamp",
		},
		Objects: []string{"[vdso]"},
		Advice: []Advice{
			{Min: 3, When: set("track_io_timing", "on"), Text: "track_io_timing = on reads the clock twice for each " +
				"block; off saves that."},
			{Min: 3, When: slowClock, Text: "The kernel's clock source is {clocksource}, which cannot be read " +
				"without a system call. If the machine supports it, tsc is faster " +
				"(/sys/devices/system/clocksource/clocksource0); \"pg_test_timing\" shows the cost of a reading."},
			{Min: 3, When: frames("InstrStartNode", "InstrStopNode"), Text: "EXPLAIN ANALYZE, or " +
				"auto_explain.log_timing and similar settings, measure the time of every row of every plan node; " +
				"auto_explain.log_timing = off keeps the row counts."},
		},
	},
	{
		ID: syncRep, Title: "synchronous replication: waiting for standbys", Class: Cost, Strong: true,
		Owner: []string{"SyncRep*"},
		Waits: []string{"IPC:SyncRep"},
		Advice: []Advice{{Min: 5,
			Text: "Each commit waits until the standby has answered{synchronous_standby_names}. Several inserts in " +
				"one transaction share one wait. If losing a commit in a failover is acceptable, set " +
				"synchronous_commit = local for these transactions; remote_write waits for the standby's memory, " +
				"not its disk."}},
	},
	{
		ID: "replication", Title: "sending and receiving WAL", Class: Work,
		Owner:     []string{"WalSnd*", "WalReceiverMain", "XLogSendPhysical", "XLogSendLogical"},
		Processes: []string{"walsender", "walreceiver", "startup", "logical replication*"},
		Waits:     []string{"Activity:WalSender*", "Client:WalSender*", "IPC:WalReceiver*"},
	},
	{
		ID: "wal", Title: "WAL: inserting, writing and flushing", Class: Cost,
		Owner: []string{
			"XLogInsert*", "XLogFlush", "XLogWrite", "XLogBackgroundFlush", "XLogBeginInsert", "XLogRegister*",
			"XLogSetRecordFlags", "XLogRecordAssemble",
			"CopyXLogRecordToWAL", "AdvanceXLInsertBuffer", "GetXLogBuffer", "WALInsertLock*",
			"WaitXLogInsertionsToFinish", "issue_xlog_fsync",
		},
		Processes: []string{"walwriter"},
		Waits:     []string{"LWLock:WAL*", "IO:WAL*", "LWLock:CommitTs*"},
		Advice: []Advice{
			{Min: 15, When: frames("fdatasync*", "issue_xlog_fsync", "XLogFlush", "IO:WALSync", "LWLock:WALWrite"),
				Text: "Commits wait for the WAL to be on disk. Several statements in one transaction share a flush; " +
					"synchronous_commit = off, for transactions that may be lost in a crash, avoids the wait; a " +
					"faster disk for pg_wal helps all of them."},
		},
	},
	{
		ID: "locks", Title: "locks", Class: Cost,
		Generic: []string{
			"LWLock*", "LockAcquire*", "LockRelease*", "LockBuffer*", "s_lock", "perform_spin_delay", "ProcSleep",
			"WaitOnLock", "DeadLockCheck",
			"PGSemaphoreLock", "PGSemaphoreUnlock", "do_futex_wait*", "__futex_abstimed_wait*", "__new_sem_wait*",
			"sem_post*", "XactLockTableWait", "GetLockStatusData",
		},
		Waits: []string{"LWLock:*", "Lock:*", "BufferPin:*"},
		Advice: []Advice{
			{Min: 10, When: frames("Lock:*", "ProcSleep", "WaitOnLock"), Text: "Sessions wait for rows or tables " +
				"that others have locked: pg_blocking_pids() shows which; shorter transactions or lock_timeout help."},
			{Min: 10, When: frames("LWLock:LockManager"),
				Text: "The lock table itself is contended: many partitions or indexes per statement use more " +
					"relations than the 16 of the fast path. Prepared statements and fewer partitions help."},
		},
	},
	{
		ID: "latch", Title: "latches: sleeping and waking", Class: Cost,
		Generic: []string{
			"WaitLatch*", "WaitEventSet*", "SetLatch", "CreateWaitEventSet", "AddWaitEventToSet", "FreeWaitEventSet",
			"epoll_*", "__x64_sys_epoll_*",
			"do_epoll_*", "SendProcSignal", "kill", "__x64_sys_kill",
		},
		Waits: []string{"IPC:*"},
	},
	{
		ID: "data_files", Title: "reading and writing data files", Class: Cost,
		Generic: []string{
			"mdread*", "mdwrite*", "mdextend*", "FileRead*", "FileWrite*", "FilePrefetch", "FileSync", "smgrread*",
			"smgrwrite*",
		},
		Waits: []string{"IO:*"},
		Advice: []Advice{{Min: 15, Text: "Blocks come from files rather than from shared_buffers: a larger " +
			"shared_buffers, or an index where whole tables are read, reduces that."}},
	},
	{
		ID: "client", Title: "communicating with clients", Class: Work,
		Owner: []string{
			"secure_read", "secure_write", "secure_raw_*", "pq_*", "internal_flush*", "internal_putbytes", "socket_*",
			"printtup", "recv", "__libc_recv", "send", "__libc_send",
			"__x64_sys_recvfrom", "__x64_sys_sendto", "SSL_read*", "SSL_write*", "be_tls_*", "SocketBackend",
			"ReadyForQuery", "EndCommand",
			"SendRowDescriptionMessage",
		},
		Waits: []string{"Client:ClientWrite", "Client:*"},
		Advice: []Advice{{Min: 25, Text: "Much of the time is spent on messages from and to clients: fewer round " +
			"trips (pipelining, larger batches, prepared statements) reduce it."}},
	},
	{
		ID: "audit", Title: "audit extensions", Class: Cost,
		Objects:   []string{"pgaudit*.so", "pg_steno.so", "set_user.so", "audit*.so"},
		Processes: []string{"steno writer*", "pgauditlogtofile*"},
		Waits:     []string{"Extension:Steno*"},
		Advice: []Advice{{Min: 5, Text: "This is the code of audit extensions themselves ({objects}). Recording " +
			"fewer classes of statements reduces it."}},
	},
	{
		ID: "planner", Title: "parsing and planning", Class: Work,
		Owner: []string{
			"raw_parser", "base_yyparse", "core_yylex", "pg_parse_query", "parse_analyze*", "transformStmt",
			"transformTopLevelStmt", "pg_analyze_and_rewrite*", "pg_rewrite_query",
			"QueryRewrite", "pg_plan_quer*", "standard_planner", "planner", "subquery_planner", "GetCachedPlan",
			"BuildCachedPlan", "RevalidateCachedQuery",
		},
		Advice: []Advice{{Min: 20, Text: "Statements are parsed and planned on every execution; prepared statements " +
			"are not."}},
	},
	{
		ID: "executor", Title: "running statements", Class: Work,
		Owner: []string{
			"standard_Executor*", "Executor*", "Exec*", "PortalRun*", "PortalStart", "PortalDrop",
			"standard_ProcessUtility", "ProcessUtility*",
			"CommitTransaction*", "StartTransaction*", "AbortTransaction*", "CreateQueryDesc", "ParallelWorkerMain",
			"PostgresMain",
			"exec_simple_query", "exec_*_message",
		},
		Waits: []string{"Timeout:*", "IPC:ExecuteGather", "IPC:Parallel*", "IPC:Hash*"},
	},
	{
		ID: "background", Title: "checkpoints and other background work", Class: Work,
		Processes: []string{
			"checkpointer", "background writer", "autovacuum*", "archiver*", "stats collector", "postmaster",
		},
	},
	{ID: starved, Title: "ready to run, waiting for a processor", Class: Work},
	{ID: running, Title: "running (only perf could show what)", Class: Work},
	{ID: other, Title: "other", Class: Work},
	{ID: idle, Title: "waiting for the client's next message", Class: Idle, Waits: []string{"Client:ClientRead"}},
}

// logAdvice applies to both formatting and writing.
var logAdvice = []Advice{
	{Min: 5, When: anyOf("log_statement", "all", "mod", "ddl"),
		Text: "log_statement = {log_statement} writes a line for each such statement. If the lines are used to find " +
			"slow statements, log_min_duration_statement = '100ms' with log_statement = none is enough; if they are " +
			"used for auditing, an audit extension that does not use the server's log, such as pg_steno, keeps them " +
			"out of the log's pipe."},
	{Min: 5, When: set("log_duration", "on"), Text: "log_duration = on writes another line for each statement; " +
		"log_min_duration_statement writes text and duration in one line, and only for slow statements."},
	{Min: 5, When: set("log_min_duration_statement", "0"),
		Text: "log_min_duration_statement = 0 logs every statement; a threshold, or log_min_duration_sample with " +
			"log_statement_sample_rate, logs only some of them."},
	{Min: 5, When: frames("pgaudit*.so"), Text: "pgaudit writes to the server's log: pgaudit.log with fewer " +
		"classes, pgaudit.log_relation = off, or pgaudit.log_statement_once = on reduce its output."},
	{Min: 5, When: unknownSettings, Text: "Many lines go to the server's log. Look at log_statement, log_duration " +
		"and log_min_duration_statement: log_min_duration_statement = '100ms' alone logs slow statements only."},
}

// evidence is what the advice about a cause may depend on.
type evidence struct {
	settings    map[string]string // empty if they could not be read
	clockSource string
	active      float64            // share of the cause in the active time, in per cent
	frames      map[string]float64 // by name of a function, file or wait event: per cent of the active time
}

// Conditions of advice.

// set requires that a setting has a value.
func set(name, value string) func(*evidence) bool { return anyOf(name, value) }

func anyOf(name string, values ...string) func(*evidence) bool {
	return func(e *evidence) bool { return slices.Contains(values, e.settings[name]) }
}

// frames requires that stacks with one of these frames make up at least a fifth of the cause's time.
func frames(names ...string) func(*evidence) bool {
	var p patterns
	p.add(causeByAdvice, names)
	return func(e *evidence) bool {
		for name, share := range e.frames {
			if p.find(name) != nil && share >= e.active/5 {
				return true
			}
		}
		return false
	}
}

// causeByAdvice only means that a pattern was found.
var causeByAdvice = &Cause{}

func unknownSettings(e *evidence) bool { return len(e.settings) == 0 }

func slowClock(e *evidence) bool {
	return !slices.Contains([]string{"", "tsc", "kvm-clock", "arch_sys_counter", "timebase"}, e.clockSource)
}

func clockSource() string {
	text, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return strings.TrimSpace(string(text))
}

// advise returns the advice about a cause that the evidence supports.
func advise(c *Cause, e *evidence) []string {
	var texts []string
	for _, a := range c.Advice {
		if e.active >= a.Min && (a.When == nil || a.When(e)) {
			texts = append(texts, e.fill(a.Text))
		}
	}
	return texts
}

// fill replaces {names} by values.
func (e *evidence) fill(text string) string {
	values := map[string]string{"clocksource": e.clockSource}
	maps.Copy(values, e.settings)
	if names := values["synchronous_standby_names"]; names != "" {
		values["synchronous_standby_names"] = " (synchronous_standby_names = '" + names + "', synchronous_commit = " +
			values["synchronous_commit"] + ")"
	}
	var objects []string
	for name := range e.frames {
		if c := causeByID["audit"]; strings.HasSuffix(name, ".so") && findIn(c.Objects, name) {
			objects = append(objects, name)
		}
	}
	slices.Sort(objects)
	if values["objects"] = strings.Join(objects, ", "); len(objects) == 0 {
		values["objects"] = "their own processes"
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		key, after, _ := strings.Cut(rest, "}")
		b.WriteString(values[key])
		text = after
	}
}

func findIn(names []string, name string) bool {
	var p patterns
	p.add(causeByAdvice, names)
	return p.find(name) != nil
}

// gather returns the evidence for each cause.
func gather(p *Profile, total float64, settings map[string]string) map[*Cause]*evidence {
	found := map[*Cause]*evidence{}
	source := clockSource()
	for _, s := range p.Stacks {
		if s.cause.Class == Idle {
			continue
		}
		e := found[s.cause]
		if e == nil {
			e = &evidence{settings: settings, clockSource: source, frames: map[string]float64{}}
			found[s.cause] = e
		}
		share := percent(p.average(s), total)
		e.active += share
		seen := map[string]bool{s.Wait: s.Wait != ""}
		for _, f := range s.Frames {
			seen[name(f)] = true
			seen[path.Base(f.Object)] = true
		}
		for n, in := range seen {
			if in {
				e.frames[n] += share
			}
		}
	}
	return found
}
