// A round: its server and sessions, the evidence of a failure, and the reduction of the script that fails.

package protocol

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/regress"
)

// round is a server, its sessions and the results.
type round struct {
	options  *Options
	lab      *cluster.Lab
	number   int
	name     string
	settings []cluster.Setting
	server   *cluster.Server
	rings    string
	truths   bool // the server's log and statistics are compared, too
	version  int  // of the server
	counted  []regress.Statistic

	mu       sync.Mutex
	sessions []*session
	records  int
	wrong    []complaint
	crashed  bool
}

// complaint is something that is wrong, and the session that it concerns.
type complaint struct {
	kind    string
	session *session // nil: none
	text    string
}

func (r *round) complain(kind string, s *session, format string, args ...any) {
	r.wrong = append(r.wrong, complaint{kind, s, fmt.Sprintf(format, args...)})
}

var fixed = []cluster.Setting{
	{Name: "shared_preload_libraries", Value: "pg_steno"},
	{Name: "shared_buffers", Value: "16MB"},
	{Name: "fsync", Value: "off"},
	{Name: "restart_after_crash", Value: "off"}, // a crash ends the round
	{Name: "max_connections", Value: "100"},
	{Name: "max_worker_processes", Value: "16"},
	{Name: "deadlock_timeout", Value: "50ms"},
	{Name: "lock_timeout", Value: "5s"},
	{Name: "log_line_prefix", Value: "%m [%p] %a "},
	{Name: "log_min_messages", Value: "warning"},
	{Name: "log_error_verbosity", Value: "terse"},
	{Name: "autovacuum", Value: "off"},
	{Name: "max_stack_depth", Value: "2MB"},
	{Name: "steno.log", Value: "all"},
	{Name: "steno.log_nested", Value: "on"},
	{Name: "steno.delivery", Value: "wait"},
}

var roundCount int

func newRound(lab *cluster.Lab, o *Options, n int) (*round, error) {
	roundCount++
	r := &round{options: o, lab: lab, number: n, name: fmt.Sprintf("round-%d-%d", n, roundCount)}
	memory := "/dev/shm"
	if syscall.Access(memory, 2) != nil {
		memory = lab.Dir
	}
	var err error
	if r.rings, err = os.MkdirTemp(memory, "steno-chaos-"); err != nil {
		return nil, err
	}
	if err := lab.Own(r.rings); err != nil {
		return nil, err
	}
	rng := rounds.Random(o.Seed, n, "settings")
	set := func(name string, values ...string) {
		r.settings = append(r.settings, cluster.Setting{Name: name, Value: values[rng.IntN(len(values))]})
	}
	set("steno.ring_size", "16kB", "32kB", "128kB", "128kB")
	set("steno.writers", "1", "1", "2")
	set("steno.flush_interval", "200ms", "20ms", "1ms")
	set("steno.start_after", "1000", "10", "-1")
	set("steno.log_start", "none", "none", "all")
	set("steno.role", "", "", "auditor")
	set("plan_cache_mode", "auto", "auto", "force_generic_plan")
	set("steno.compression", "lz4", "none")
	r.truths = rng.IntN(3) > 0 && lab.HasLibrary("pg_stat_statements")
	return r, nil
}

func (r *round) trail() string { return filepath.Join(r.lab.Dir, r.name+"-trail") }

func (r *round) dataDir() string { return filepath.Join(r.lab.Dir, r.name) }

// Describe returns the settings.
func (r *round) Describe() string {
	var parts []string
	for _, s := range r.settings {
		if s.Value != "" {
			parts = append(parts, strings.TrimPrefix(s.Name, "steno.")+" "+s.Value)
		}
	}
	return fmt.Sprintf("%d clients, %d sessions each, %s", r.options.Clients, r.options.Sessions,
		strings.Join(parts, ", "))
}

// Counts returns the counts.
func (r *round) Counts() string {
	acknowledged, unanswered, nested := r.countAnswers()
	return fmt.Sprintf("%d sessions, %d statements acknowledged, %d unanswered, %d nested, %d records",
		len(r.sessions),
		acknowledged, unanswered, nested, r.records)
}

func (r *round) countAnswers() (acknowledged, unansweredOnes, nested int) {
	for _, c := range r.sessions {
		nested += len(c.ran)
		for _, s := range c.script.statements() {
			switch {
			case s.outcome == succeeded || s.outcome == failed || s.outcome == suspended || s.outcome == whole:
				acknowledged++
			case s.outcome == unanswered && s.sent:
				unansweredOnes++
			}
		}
	}
	return
}

func (r *round) count(t *Totals) {
	t.Sessions += len(r.sessions)
	t.Records += r.records
	a, u, n := r.countAnswers()
	t.Acknowledged += a
	t.Unanswered += u
	t.Nested += n
	for _, c := range r.sessions {
		for _, st := range c.script.steps[:min(c.done+1, len(c.script.steps))] {
			t.moves[st.move]++
		}
	}
}

// repeatCommand returns the command that repeats the round or one of its sessions.
func (r *round) repeatCommand(session string) string {
	o := r.options
	s := fmt.Sprintf("scripts/chaos protocol --seed %d --first %d --rounds 1 --clients %d --sessions %d", o.Seed,
		r.number, o.Clients, o.Sessions)
	if len(o.With) > 0 {
		s += fmt.Sprintf(" --with '%s'", strings.Join(o.With, ","))
	}
	if len(o.Without) > 0 {
		s += fmt.Sprintf(" --without '%s'", strings.Join(o.Without, ","))
	}
	if session == "" {
		session = o.Only
	}
	if session != "" {
		s += " --session " + session
	}
	return s
}

// scripts returns the scripts of each client.
func (r *round) scripts() [][]*script {
	var all [][]*script
	o := r.options
	for client := range o.Clients {
		var mine []*script
		for number := range o.Sessions {
			if o.Only == "" || o.Only == fmt.Sprintf("%d.%d", client, number) {
				mine = append(mine, generate(o, r.number, client, number, o.Clients > 1))
			}
		}
		all = append(all, mine)
	}
	return all
}

// RepeatCommand returns the command that repeats the round.
func (r *round) RepeatCommand() string { return r.repeatCommand("") }

// Run runs the round.
func (r *round) Run(ctx context.Context) (wrong string) {
	r.run(ctx, r.scripts())
	return r.complaints()
}

// run runs scripts on a server, and checks the trail.
func (r *round) run(ctx context.Context, scripts [][]*script) {
	settings := append(append([]cluster.Setting{}, fixed...), r.settings...)
	settings = append(settings, cluster.Setting{Name: "steno.directory", Value: r.trail()},
		cluster.Setting{Name: "steno.ring_directory", Value: r.rings})
	settings = append(settings, r.logging()...)
	var err error
	if r.server, err = r.lab.Start(ctx, r.name, settings); err != nil {
		r.complain("server", nil, "%s", err)
		return
	}
	stop := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	go func() {
		select {
		case <-r.server.Ended():
		case <-ctx.Done():
		case <-stop:
		}
		end()
	}()
	var wait sync.WaitGroup
	for _, mine := range scripts {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r.client(mine, stop, end)
		}()
	}
	wait.Wait()
	running := true
	select {
	case <-r.server.Ended():
		running = false
	case <-time.After(r.grace()):
	}
	if running {
		if _, err := r.server.Psql(ctx, "SELECT steno.flush()"); err != nil && ctx.Err() == nil {
			r.complain("server", nil, "%s", err)
		}
		r.readStatistics(ctx)
	}
	end()
	if err := r.server.Stop(); err != nil {
		r.complain("server", nil, "%s", err)
	}
	refused := r.wrong
	r.wrong = nil
	r.log()
	if !r.crashed {
		r.wrong = append(r.wrong, refused...)
	}
	if !running && !r.crashed {
		r.crashed = true
		r.complain("crash", nil, "the server exited unexpectedly; the end of its log:\n%s", r.server.LogTail(10))
	}
	if r.crashed || ctx.Err() != nil {
		return
	}
	if left, _ := filepath.Glob(filepath.Join(r.rings, "pg_steno.*")); len(left) > 0 {
		r.complain("server", nil, "a clean stop left ring files: %s", strings.Join(left, " "))
	}
	r.check(ctx)
	r.compare(ctx)
}

// grace returns how long a server that refuses sessions may take to stop.
func (r *round) grace() time.Duration {
	if len(r.wrong) > 0 {
		return 10 * time.Second
	}
	return 0
}

// client runs one script after the other. The first one that cannot connect ends the round: the server is stopped or
// stopping.
func (r *round) client(scripts []*script, stop <-chan struct{}, end func()) {
	socket := filepath.Join(r.server.SocketDir(), fmt.Sprintf(".s.PGSQL.%d", r.server.Port))
	for _, s := range scripts {
		select {
		case <-stop:
			return
		default:
		}
		c, err := connect(socket, "script "+s.name(), s)
		if err == nil {
			c.running = r.running
		}
		r.mu.Lock()
		if err == nil {
			r.sessions = append(r.sessions, c)
		} else {
			r.complain("server", nil, "script %s: no connection: %s", s.name(), err)
		}
		r.mu.Unlock()
		if err != nil {
			end()
			return
		}
		c.run(stop)
	}
}

// running returns the text of what a session is running, as steno.in_flight has it.
func (r *round) running(pid uint32) string {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	text, err := r.server.Psql(ctx,
		fmt.Sprintf("SELECT coalesce(text, command, '?') FROM steno.in_flight WHERE pid = %d", pid))
	if err != nil {
		return "" // the server is stopping
	}
	return text
}

// ---- the server's log ----

var (
	crash    = regexp.MustCompile(`\(PID (\d+)\) (?:was terminated by signal|exited with exit code [^01])`)
	alarming = regexp.MustCompile(
		`PANIC:|TRAP:|AddressSanitizer|runtime error:|does not fit a block` +
			`|corrupt|damaged|WARNING:.*(?:leak|still referenced|not closed)`)
)

// log finds messages that must not occur.
func (r *round) log() {
	for _, name := range []string{r.server.LogFile(), filepath.Join(r.logs(), "server.log")} {
		file, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			r.complain("server", nil, "%s", err)
			return
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			line := lines.Text()
			var s *session
			if m := regexp.MustCompile(`\[(\d+)\] |^==(\d+)==`).FindStringSubmatch(line); m != nil {
				pid, _ := strconv.ParseUint(m[1]+m[2], 10, 32)
				s = r.ofProcess(uint32(pid))
			}
			r.message(s, line)
		}
		_ = file.Close()
	}
	if r.truths {
		r.messages()
	}
}

// message complains about a message in the server's log that must not occur.
func (r *round) message(s *session, line string) {
	if m := crash.FindStringSubmatch(line); m != nil && !r.crashed {
		r.crashed = true
		pid, _ := strconv.ParseUint(m[1], 10, 32)
		r.complain("crash", r.ofProcess(uint32(pid)), "server log: %.300s", line)
	} else if alarming.MatchString(line) {
		r.crashed = r.crashed || strings.Contains(line, "AddressSanitizer")
		r.complain("alarm", s, "server log: %.300s", line)
	}
}

func (r *round) ofProcess(pid uint32) *session {
	for i := len(r.sessions) - 1; i >= 0; i-- {
		if r.sessions[i].pid == pid {
			return r.sessions[i]
		}
	}
	return nil
}

// ---- afterwards ----

const maxWrong = 30

// complaints returns the first of each kind and session, and their number.
func (r *round) complaints() string {
	var b strings.Builder
	shown := 0
	perKind := map[string]int{}
	for _, w := range r.wrong {
		perKind[w.kind]++
		if perKind[w.kind] > 8 || shown >= maxWrong {
			continue
		}
		shown++
		name := ""
		if w.session != nil {
			name = "session " + w.session.script.name() + ": "
		}
		fmt.Fprintf(&b, "  %s: %s%s\n", w.kind, name, w.text)
	}
	for kind, n := range perKind {
		fmt.Fprintf(&b, "  %s: %d in all\n", kind, n)
	}
	return b.String()
}

// Save copies the evidence of the round to the evidence folder.
func (r *round) Save() (string, error) {
	to := filepath.Join(r.options.Evidence, fmt.Sprintf("protocol-%d-%d", r.options.Seed, r.number))
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return "", err
	}
	if r.server == nil {
		return to, nil
	}
	for name, from := range map[string]string{"trail": r.trail(), "rings": r.rings, "server.log": r.server.LogFile(),
		"log":           r.logs(),
		"settings.conf": filepath.Join(r.dataDir(), "lab.conf")} {
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if out, err := exec.Command("cp", "-r", from, filepath.Join(to, name)).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(to, "round.txt"),
		[]byte(r.Describe()+"\n"+r.complaints()+r.repeatCommand("")+"\n"),
		0o644); err != nil {
		return "", err
	}
	for _, c := range r.sessions {
		if err := os.WriteFile(filepath.Join(to, "script-"+c.script.name()+".txt"), []byte(c.transcript()),
			0o644); err != nil {
			return "", err
		}
	}
	return to, nil
}

// Abandon ends all processes of the round, and removes its files.
func (r *round) Abandon() {
	if r.server != nil {
		_ = r.server.Stop()
		_ = os.Remove(r.server.LogFile())
	}
	for _, dir := range []string{r.dataDir(), r.trail(), r.rings, r.logs()} {
		_ = os.RemoveAll(dir)
	}
}

// steno prepares the steno program on the round's trail.
func (r *round) steno(ctx context.Context, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	_ = cancel
	return exec.CommandContext(ctx, r.options.Steno, append(args, r.trail())...)
}

// statements returns all statements of a script.
func (s *script) statements() []*statement {
	var all []*statement
	seen := map[*statement]bool{}
	for _, st := range s.steps {
		all = append(all, st.query...)
		for _, m := range st.messages {
			if m.statement != nil && !seen[m.statement] {
				seen[m.statement] = true
				all = append(all, m.statement)
			}
		}
	}
	return all
}

// transcript returns the messages and answers of a session.
func (c *session) transcript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- session %s, process %d; ended: %s\n", c.script.name(), c.pid, c.ended)
	story := c.story
	for i, st := range c.script.steps {
		if i > c.done {
			break
		}
		b.WriteString(st.String())
		if len(st.query)+len(st.messages) > 0 && len(story) > 0 {
			fmt.Fprintf(&b, "    -- %s\n", story[0])
			story = story[1:]
		}
	}
	return b.String()
}

func shortened(s string) string {
	if len(s) > 600 {
		return fmt.Sprintf("%s … %s (%d bytes)", s[:300], s[len(s)-100:], len(s))
	}
	return s
}

// String returns a readable form of a step.
func (st *step) String() string {
	var b strings.Builder
	if st.cancel {
		fmt.Fprintf(&b, "-- a cancel request comes after %s\n", st.delay)
	} else if st.delay > 0 {
		fmt.Fprintf(&b, "-- after %s\n", st.delay)
	}
	if len(st.query) > 0 {
		var texts []string
		for _, s := range st.query {
			texts = append(texts, shortened(s.text))
		}
		fmt.Fprintf(&b, "%s;\n", strings.Join(texts, "; "))
	}
	for _, m := range st.messages {
		params := shortened(fmt.Sprintf("%q", m.params))
		switch m.op {
		case 'P':
			fmt.Fprintf(&b, "Parse(%q, %s)\n", m.prepared, shortened(m.text))
		case 'B':
			fmt.Fprintf(&b, "Bind(portal %q, statement %q, %s)\n", m.name, m.prepared, params)
		case 'D':
			fmt.Fprintf(&b, "Describe(portal %q)\n", m.name)
		case 'E':
			fmt.Fprintf(&b, "Execute(portal %q, %d rows)\n", m.name, m.rows)
		case 'C':
			fmt.Fprintf(&b, "Close(portal %q)\n", m.name)
		case 'c':
			fmt.Fprintf(&b, "Close(statement %q)\n", m.prepared)
		case 'H':
			b.WriteString("Flush()\n")
		}
	}
	if len(st.messages) > 0 {
		b.WriteString("Sync()\n")
	}
	if st.copyIn != "" || st.copyFail {
		fmt.Fprintf(&b, "-- the data: %q, failing: %t\n", st.copyIn, st.copyFail)
	}
	switch st.leave {
	case vanish:
		b.WriteString("-- the socket is closed\n")
	case terminate:
		b.WriteString("Terminate()\n")
	}
	return b.String()
}

// shrinkAll reduces the script of the first complaint of each kind.
func (r *round) shrinkAll(ctx context.Context) {
	done := map[string]bool{}
	for _, w := range r.wrong {
		if w.session == nil || done[w.kind] {
			continue
		}
		done[w.kind] = true
		r.shrink(ctx, w)
	}
}

// shrink repeats the session of a complaint alone, with fewer and fewer steps, as long as the same kind of complaint
// occurs.
func (r *round) shrink(ctx context.Context, w complaint) {
	end := time.Now().Add(r.options.Shrink)
	number := w.session.script
	steps := make([]int, min(w.session.done+1, len(number.steps)))
	for i := range steps {
		steps[i] = i
	}
	var last *round
	fails := func(chosen []int) bool {
		s := generate(r.options, r.number, number.client, number.number, r.options.Clients > 1)
		all := s.steps
		s.steps = nil
		for _, i := range chosen {
			s.steps = append(s.steps, all[i])
		}
		again, err := newRound(r.lab, r.options, r.number)
		if err != nil {
			return false
		}
		defer again.Abandon()
		again.run(ctx, [][]*script{{s}})
		if slices.ContainsFunc(again.wrong, func(x complaint) bool { return x.kind == w.kind }) {
			last = again
			return true
		}
		return false
	}
	if !fails(steps) {
		fmt.Fprintf(r.options.Out, "%s: session %s alone does not fail\n", w.kind, number.name())
		return
	}
	for size := len(steps) / 2; size > 0 && time.Now().Before(end); {
		removed := false
		for at := 0; at < len(steps) && time.Now().Before(end) && ctx.Err() == nil; {
			fewer := slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))
			if len(fewer) > 0 && fails(fewer) {
				steps, removed = fewer, true
			} else {
				at += size
			}
		}
		if !removed || size > len(steps) {
			size /= 2
		}
	}
	fmt.Fprintf(r.options.Out, "%s: shortest script of session %s, %d steps:\n%s%s", w.kind, number.name(), len(steps),
		last.sessions[0].transcript(), last.complaints())
}
