package query

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/sql"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestQuestionsHaveOneAnswer asks questions at random about trails at random. A plain reader answers them from the
// lines that "steno cat" shows without filters, with conditions written down from the documents; "steno cat", "steno
// query" and "steno prove" must give the same answer, and a proof must not be complete if it may lack something.
//
// STENO_QUESTIONS is the number of questions, STENO_SEED that of the first trail.
func TestQuestionsHaveOneAnswer(t *testing.T) {
	const perTrail = 100                              // to make a trail takes as long as ten questions
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // what lives is small, what is made of each question is not
	questions := fromEnvironment(t, "STENO_QUESTIONS", 600)
	seed := uint64(fromEnvironment(t, "STENO_SEED", int(time.Now().Unix())))
	answered, proofs, exceptions := 0, 0, 0
	again := []uint64{1795907427, 1795907470, 1795907693, 2200000150, 4000000363} // of which an answer, or this test, was wrong
	questions += perTrail * len(again)
	for next := seed; questions > 0 && !t.Failed(); questions -= perTrail {
		if len(again) > 0 {
			seed, again = again[0], again[1:]
		} else {
			seed, next = next, next+1
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { // its files are removed, and its database is closed
			r := rand.New(rand.NewPCG(seed, 27))
			trail := makeTrail(t, r)
			for range perTrail {
				q := trail.question(r)
				want := trail.answer(q)
				trail.compareCat(q, want)
				trail.compareQuery(q, want)
				proved, complete := trail.compareProof(q, want)
				if t.Failed() {
					t.Fatalf("seed %d, trail %s: %q, %s", seed, trail.dir, q.args(), q.sql())
				}
				if len(want) > 0 {
					answered++
				}
				if proved {
					proofs++
				}
				if proved && !complete {
					exceptions++
				}
			}
		})
	}
	if answered == 0 || proofs == 0 || exceptions == 0 || exceptions == proofs {
		t.Errorf("%d questions have an answer, %d a proof, %d of them with exceptions", answered, proofs, exceptions)
	}
	t.Logf("%d questions have an answer, %d a proof, %d of them with exceptions", answered, proofs, exceptions)
}

func fromEnvironment(t *testing.T, name string, otherwise int) int {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %s", name, err)
	}
	return n
}

// ---- trails ----

// randomTrail is a trail, and what a plain reader knows of it.
type randomTrail struct {
	t       testing.TB
	dir     string
	copied  string // trail of another server, whose data directory is a copy; empty: there is none
	key     string // file of the public key
	lines   []line
	db      *sql.DB
	minutes int
	sealed  int // minutes
	asked   int // proofs

	program     *cobra.Command // steno; nil: it has not run yet
	out, errOut *bytes.Buffer  // its streams
}

// line is a record as "steno cat" shows it.
type line struct {
	text   string
	record map[string]any
}

func (l *line) str(name string) string { s, _ := l.record[name].(string); return s }

func (l *line) number(name string) uint64 {
	n, _ := l.record[name].(json.Number)
	v, _ := strconv.ParseUint(string(n), 10, 64)
	return v
}

func (l *line) list(name string) (all []map[string]any) {
	list, _ := l.record[name].([]any)
	for _, v := range list {
		all = append(all, v.(map[string]any))
	}
	return all
}

func (l *line) extra(name string) bool {
	m, _ := l.record["extra"].(map[string]any)
	return m[name] != nil
}

func (l *line) id() string { return fmt.Sprint(l.record["session"], l.record["seq"], l.record["time"]) }

var (
	users        = []string{"alice", "bob", "carol", "o'neil"}
	databases    = []string{"hr", "crm"}
	applications = []string{"psql", "a b", "job"}
	roles        = []string{"", "", "admin", "alice"}
	clients      = []string{"[local]", "10.1.2.3:4000", "10.1.9.9:4000", "192.168.0.1:77", "[::1]:4000"}
	tables       = []string{"hr.staff", "hr.salary", "crm.staff", "crm.orders", "public.t"}
	columns      = []string{"id", "name", "amount", "*"}
	sqlstates    = []string{"42501", "42P01", "23505", "22P02"}
	texts        = []string{"SELECT 4711", "update it", "INSERT secret", "drop table x", "select 'é'"}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

const minute = 60 * 1e6

func randomSession(r *rand.Rand, pid uint32) *trailtest.Session {
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	facts := []trailtest.Fact{
		fact(format.KeyBackendType, "client backend"), fact(format.KeyUser, pick(r, users)), fact(format.KeyDatabase, pick(r, databases)),
		fact(format.KeyApplication, pick(r, applications)), fact(format.KeyClient, pick(r, clients)),
	}
	if role := pick(r, roles); role != "" {
		facts = append(facts, fact(format.KeyRole, role))
	}
	return trailtest.NewSession(trailtest.Epoch, pid, facts...)
}

func randomShape(r *rand.Rand) *trailtest.Shape {
	type of struct {
		class   format.Class
		command string
		access  format.Access
	}
	kind := pick(r, []of{
		{format.ClassRead, "SELECT", format.AccessSelect}, {format.ClassRead, "COPY", format.AccessSelect}, {format.ClassWrite, "UPDATE", format.AccessUpdate},
		{format.ClassWrite, "INSERT", format.AccessInsert}, {format.ClassWrite, "DELETE", format.AccessDelete}, {format.ClassDDL, "CREATE TABLE", 0},
		{format.ClassMisc, "SHOW", 0},
	})
	s := &trailtest.Shape{Class: kind.class, Command: kind.command}
	if kind.class == format.ClassDDL {
		s.Objects = []trailtest.Object{{Action: format.ActionCreate, Type: "table", Name: pick(r, tables)}}
	}
	if kind.access == 0 {
		return s
	}
	named := !oneIn(r, 3) // or the record does not say which columns
	for range 1 + r.IntN(2) {
		relation := trailtest.Relation{Type: format.RelationTypeTable, Access: kind.access, Name: pick(r, tables)}
		if named && kind.access != format.AccessDelete {
			relation.Columns = []trailtest.Column{{Access: kind.access, Name: pick(r, columns)}}
		}
		s.Relations = append(s.Relations, relation)
	}
	return s
}

func randomRecord(r *rand.Rand, s *trailtest.Session, at int64) *trailtest.Record {
	record := &trailtest.Record{Kind: format.KindStatement, Session: s, Time: at, Duration: uint64(1 + r.IntN(5_000_000)), Text: pick(r, texts), Shape: randomShape(r)}
	switch r.IntN(12) {
	case 0, 1:
		record.Outcome, record.SQLState, record.Message = format.OutcomeError, pick(r, sqlstates), "it failed: 4711"
	case 2:
		record.XID = 770 + uint64(r.IntN(3))
	case 3:
		if oneIn(r, 4) {
			record.Extra = []string{"relations_omitted", "9"}
		}
	case 4:
		if oneIn(r, 4) {
			record.TextBytes = 4000
		}
	case 5:
		if oneIn(r, 4) {
			record.Outcome = format.OutcomeInterrupted
		}
	case 6:
		record.Kind, record.Shape, record.Text, record.Duration = format.KindConnect, &trailtest.Shape{Class: format.ClassConnect}, "", 0
	case 7:
		record.Kind, record.Shape, record.Text, record.Duration = format.KindAuthFailed, &trailtest.Shape{Class: format.ClassConnect}, "", 0
		record.Outcome, record.SQLState, record.Message = format.OutcomeError, "28P01", "password authentication failed"
	case 8:
		record.Kind, record.Shape, record.Text = format.KindTransaction, &trailtest.Shape{Class: format.ClassTransaction}, ""
		record.XID = 770 + uint64(r.IntN(3))
		if oneIn(r, 2) {
			record.Outcome = format.OutcomeError
		}
	}
	return record
}

// makeTrail writes a trail of one or two streams: a block and a seal each minute, a segment with an index for each ten.
// Records may be lost, and the end may not be sealed. The second stream may be that of another server, whose data directory
// is a copy: its trail has what the first stream had then.
func makeTrail(t *testing.T, r *rand.Rand) *randomTrail {
	x := writeTrail(t, r, filepath.Join(t.TempDir(), "trail"), false, nil)
	out, code := x.steno(nil, "cat", "--format", "json")
	if code != 0 {
		t.Fatal(out)
	}
	for _, text := range splitLines(out) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		l := line{text: text}
		if err := d.Decode(&l.record); err != nil {
			t.Fatal(err)
		}
		x.lines = append(x.lines, l)
	}
	if x.copied != "" {
		whole := x.linesOf(x.dir) + x.linesOf(filepath.Join(x.copied, "1"))
		if len(x.lines) != whole {
			t.Fatalf("seed of trail %s: %d lines with the copy's trail, want %d", x.dir, len(x.lines), whole)
		}
	}
	io, _, _, _ := iostreams.Test()
	o := &Options{IO: io, Format: "csv", CSVSafe: true, MemoryLimit: "512MiB", TimeZone: "UTC"}
	s, err := o.open(&inputs{trails: x.dirs()})
	if err != nil {
		t.Fatal(err)
	}
	x.db = s.db
	t.Cleanup(s.db.Close)
	return x
}

// writeTrail writes the trail of makeTrail; whole: verify finds nothing wrong with it. It is encrypted if there is a key.
func writeTrail(t testing.TB, r *rand.Rand, dir string, whole bool, encrypts *[32]byte) *randomTrail {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	x := &randomTrail{t: t, dir: dir, key: filepath.Join(t.TempDir(), "key.pub"), minutes: 20 + r.IntN(40)}
	public, err := seal.EncodePublic(private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(x.key, public, 0o600); err != nil {
		t.Fatal(err)
	}
	x.sealed = x.minutes
	if oneIn(r, 4) {
		x.sealed -= 1 + r.IntN(10)
	}
	gaps := oneIn(r, 4)
	streams, first, writers := 1+r.IntN(2), 0, 0
	branch := []string{"event", "branch", "reason", "copy", "stream", "0", "run", "4712"}
	if writers = streams; streams == 2 && oneIn(r, 2) {
		x.copied, first, writers = filepath.Join(t.TempDir(), "copy"), 2+r.IntN(15), 1
	}
	for number := range streams {
		dir, run := x.dir, "4711"
		if number > 0 && x.copied != "" {
			dir, run = x.copied, "4712"
		}
		w := sealtest.NewEncryptedWriter(t, dir, uint32(number), private, encrypts)
		at := func(minutes float64) int64 { return trailtest.Epoch + int64(minutes*minute) }
		event, begins := "start", 0
		switch {
		case number == 0:
		case x.copied == "":
			event = "restart"
		default:
			begins = first
			w.Put(&trailtest.Record{Kind: format.KindServer, Session: w.Session, Time: at(float64(begins)), Extra: branch})
		}
		w.Put(&trailtest.Record{
			Kind: format.KindServer, Session: w.Session, Time: at(float64(begins)),
			Extra: []string{"event", event, "version", "15.8", "run", run, "steno.writers", strconv.Itoa(writers)},
		})
		w.Seal(at(float64(begins)), seal.ReasonStart, nil)
		var sessions []*trailtest.Session
		for i := range 3 {
			sessions = append(sessions, randomSession(r, uint32(4000+100*number+i)))
		}
		last := map[*trailtest.Session]uint64{}
		for m := 1 + begins; m < x.minutes; m++ {
			if number == 0 && m == first {
				if err := os.CopyFS(x.copied, os.DirFS(x.dir)); err != nil {
					t.Fatal(err)
				}
				block, chain := w.Last()
				branch = append(branch, "block", fmt.Sprint(block), "found", fmt.Sprint(block), "hash", fmt.Sprintf("%x", chain))
			}
			var records []*trailtest.Record
			for i := range r.IntN(4) {
				s := pick(r, sessions)
				record := randomRecord(r, s, at(float64(m))+int64(i)*1000)
				for whole && (record.Outcome == format.OutcomeInterrupted || record.Kind == format.KindAuthFailed) { // its session goes on
					record = randomRecord(r, s, record.Time)
				}
				last[s]++
				if gaps && oneIn(r, 20) {
					record.Seq = last[s] + 3
					record.Kind, record.Shape, record.Text, record.Duration = format.KindGap, nil, "", 0
					record.Outcome, record.SQLState, record.Message, record.XID, record.TextBytes = format.OutcomeOk, "", "", 0, 0
					record.Extra = []string{"count", "3", "first_seq", fmt.Sprint(last[s]), "last_seq", fmt.Sprint(last[s] + 2), "reason", "ring full"}
					last[s] += 3
				}
				records = append(records, record)
			}
			if len(records) > 0 {
				w.Put(records...)
			}
			if m < x.sealed {
				w.Seal(at(float64(m)+0.9), "interval", nil)
			}
			if m%10 == 9 && m < x.sealed {
				w.Rotate(at(float64(m) + 0.95))
			}
		}
		if x.sealed == x.minutes {
			w.Seal(at(float64(x.minutes)), seal.ReasonStop, nil)
		}
	}
	return x
}

// linesOf is how many records a part of the trail has.
func (x *randomTrail) linesOf(path string) int {
	one := &randomTrail{t: x.t, dir: path}
	out, _ := one.steno(nil, "cat", "--format", "json")
	return len(splitLines(out))
}

func (x *randomTrail) dirs() []string {
	if x.copied == "" {
		return []string{x.dir}
	}
	return []string{x.dir, x.copied}
}

func splitLines(s string) []string {
	if s = strings.TrimSuffix(s, "\n"); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// steno runs a command of steno on the trail, and returns its output and its exit code: 0, 1, or 2 with what it says.
func (x *randomTrail) steno(flags []string, command ...string) (string, int) {
	x.t.Helper()
	out, _, code := x.run(flags, command...)
	return out, code
}

func (x *randomTrail) run(flags []string, command ...string) (said, warned string, code int) {
	x.t.Helper()
	if x.program == nil {
		streams, _, out, errOut := iostreams.Test()
		x.program, x.out, x.errOut = cli.New(streams), out, errOut
	}
	root, out, errOut := x.program, x.out, x.errOut
	out.Reset()
	errOut.Reset()
	args := slices.Concat(command, flags)
	if !slices.Contains(args, "--check") {
		args = append(args, x.dirs()...)
	}
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(context.Background())
	forget(x.t, ran)
	if err != nil && strings.TrimSpace(err.Error()) != "" && !strings.Contains(err.Error(), "not proved") && !strings.Contains(err.Error(), "exit") {
		return out.String() + errOut.String() + err.Error(), "", 2
	}
	if err != nil {
		return out.String(), errOut.String(), 1
	}
	return out.String(), errOut.String(), 0
}

// forget sets the flags of a command that has run to their defaults, as they are in a program that starts. To make the
// whole program anew for each question takes longer than to answer it.
func forget(t testing.TB, ran *cobra.Command) {
	ran.Flags().VisitAll(func(f *pflag.Flag) {
		var err error
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = list.Replace(nil)
		} else {
			err = f.Value.Set(f.DefValue)
		}
		if err != nil {
			t.Fatalf("--%s: %s", f.Name, err)
		}
		f.Changed = false
	})
}

// ---- questions ----

// question is a range of time and conditions, all of which must hold.
type question struct {
	since, until string
	conditions   []condition
}

// condition is one filter with its values.
type condition struct {
	flag   string
	values []string
	not    bool
	sql    string // empty: not asked in SQL
	holds  func(l *line) bool
	// one is holds for one value; nil: there is only one.
	one func(value string) func(l *line) bool
	// hides says that the record may be one for which it holds although it does not seem so.
	hides func(l *line) bool
}

// with is holds for one of the values.
func (c *condition) with(value string) func(l *line) bool {
	if c.one == nil {
		return c.holds
	}
	return c.one(value)
}

func (q *question) args() []string {
	args := []string{"--since", q.since, "--until", q.until}
	for _, c := range q.conditions {
		flag := "--" + c.flag
		if c.not {
			flag = "--not-" + c.flag
		}
		if len(c.values) == 0 {
			args = append(args, flag)
		}
		for _, v := range c.values {
			args = append(args, flag, v)
		}
	}
	return args
}

// sql is the question in SQL; empty: it is not asked there.
func (q *question) sql() string {
	out := fmt.Sprintf("SELECT session, seq, time FROM trail WHERE time >= '%s' AND time < '%s'", q.since, q.until)
	for _, c := range q.conditions {
		if c.sql == "" {
			return ""
		}
		if c.not {
			out += " AND NOT coalesce(" + c.sql + ", false)"
		} else {
			out += " AND (" + c.sql + ")"
		}
	}
	return out
}

func quoted(values []string) string {
	var all []string
	for _, v := range values {
		all = append(all, "'"+strings.ReplaceAll(v, "'", "''")+"'")
	}
	return strings.Join(all, ", ")
}

func some[T any](r *rand.Rand, from []T) (all []T) {
	for range 1 + r.IntN(2) {
		all = append(all, pick(r, from))
	}
	return all
}

func (x *randomTrail) question(r *rand.Rand) *question {
	at := func(minutes int) string {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(trailtest.Epoch+int64(minutes)*minute) * time.Microsecond).Format("2006-01-02T15:04:05.000000Z")
	}
	since := r.IntN(x.minutes - 2)
	q := &question{since: at(since), until: at(since + 1 + r.IntN(x.minutes-since))}
	for range r.IntN(4) {
		c := randomCondition(r, x)
		if c.flag != "failed" && c.flag != "min-duration" {
			c.not = oneIn(r, 4)
		}
		if !slices.ContainsFunc(q.conditions, func(o condition) bool { return o.flag == c.flag && o.not == c.not }) {
			q.conditions = append(q.conditions, c)
		}
	}
	return q
}

// anyOf holds for a line for which one of the values does.
func anyOf(values []string, one func(string) func(*line) bool) func(*line) bool {
	return func(l *line) bool {
		return slices.ContainsFunc(values, func(v string) bool { return one(v)(l) })
	}
}

// fact is a condition about a field that has one of the values.
func fact(r *rand.Rand, flag, field, column string, from []string) condition {
	values := some(r, from)
	is := func(v string) func(l *line) bool { return func(l *line) bool { return l.str(field) == v } }
	return condition{flag: flag, values: values, sql: column + " IN (" + quoted(values) + ")", one: is, holds: anyOf(values, is)}
}

func randomCondition(r *rand.Rand, x *randomTrail) condition {
	switch r.IntN(13) {
	case 0:
		return fact(r, "user", "user", `"user"`, append([]string{"nobody"}, users...))
	case 1:
		return fact(r, "database", "database", "database", databases)
	case 2:
		return fact(r, "application", "application", "application", applications)
	case 3:
		values := some(r, []string{"admin", "alice", "bob"})
		is := func(v string) func(l *line) bool {
			return func(l *line) bool { return l.str("role") == v || l.str("role") == "" && l.str("user") == v }
		}
		return condition{flag: "role", values: values, sql: `coalesce(nullif(role, ''), "user") IN (` + quoted(values) + ")", one: is, holds: anyOf(values, is)}
	case 4:
		return ofClient(some(r, []string{"[local]", "10.1.2.3", "10.1.2.3:4000", "10.1.2.3:4001", "10.1.0.0/16", "::1", "[::1]:4000", "192.168.0.1"}))
	case 5:
		return fact(r, "class", "class", "class", []string{"read", "write", "ddl", "connect", "transaction"})
	case 6:
		return fact(r, "kind", "kind", "kind", []string{"statement", "connect", "auth_failed", "transaction", "gap", "server", "seal"})
	case 7:
		value := pick(r, []string{"SELECT", "create", "CREATE TABLE", "Insert", "COPY"})
		return condition{flag: "command", values: []string{value}, sql: fmt.Sprintf("starts_with(command || ' ', upper('%s '))", value), holds: func(l *line) bool {
			return strings.HasPrefix(l.str("command")+" ", strings.ToUpper(value)+" ")
		}}
	case 8:
		value := pick(r, []string{"42501", "42", "23505", "28P01"})
		return condition{flag: "sqlstate", values: []string{value}, sql: "starts_with(sqlstate, '" + value + "')", holds: func(l *line) bool {
			return l.str("sqlstate") != "" && strings.HasPrefix(l.str("sqlstate"), value)
		}}
	case 9:
		return condition{flag: "failed", sql: "failed", holds: func(l *line) bool {
			if l.str("kind") == "transaction" {
				return l.str("sqlstate") != ""
			}
			return l.str("outcome") == "error" || l.str("outcome") == "interrupted"
		}}
	case 10:
		least := uint64(1+r.IntN(4)) * 1e6
		return condition{flag: "min-duration", values: []string{fmt.Sprintf("%dms", least/1000)}, sql: fmt.Sprintf("duration_us >= %d", least), holds: func(l *line) bool {
			return l.record["duration_us"] != nil && l.number("duration_us") >= least
		}}
	case 11:
		value := pick(r, []string{"4711", "secret", "(?i)select", "é", "^it", "nothing"})
		re := regexp.MustCompile(value)
		return condition{
			flag: "grep", values: []string{value}, sql: fmt.Sprintf("regexp_matches(text, '%[1]s') OR regexp_matches(message, '%[1]s')", value),
			holds: func(l *line) bool { return re.MatchString(l.str("text")) || re.MatchString(l.str("message")) },
			hides: func(l *line) bool { return l.record["text_bytes"] != nil },
		}
	default:
		return ofObject(pick(r, []string{"hr.staff", "staff", "hr.*", "crm.orders", "hr.salary.amount", "salary.amount", "public.t.name", "hr.nothing", "*"}))
	}
}

// ofClient is the condition of --client: hosts, hosts with a port, networks.
func ofClient(values []string) condition {
	var asked []string
	for _, v := range values {
		asked = append(asked, "client = '"+v+"' OR address = '"+v+"'")
	}
	c := condition{flag: "client", values: values, sql: strings.Join(asked, " OR ")}
	if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, "/") }) {
		c.sql = ""
	}
	c.one = func(v string) func(l *line) bool {
		return func(l *line) bool {
			client := l.str("client")
			host, _ := netip.ParseAddrPort(client)
			if network, err := netip.ParsePrefix(v); err == nil {
				return host.IsValid() && network.Contains(host.Addr())
			}
			return client != "" && client == v || host.IsValid() && host.Addr().String() == v
		}
	}
	c.holds = anyOf(values, c.one)
	return c
}

// ofObject is the condition of --object, as the documents have it: a relation or an object with this name, with or
// without its schema; or a column of a relation. Who does not name columns, or names the whole row, uses each.
func ofObject(pattern string) condition {
	like := func(pattern string) func(string) bool {
		re := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
		return func(name string) bool {
			_, bare, _ := strings.Cut(name, ".")
			return re.MatchString(name) || re.MatchString(bare)
		}
	}
	whole := like(pattern)
	relation, column := func(string) bool { return false }, ""
	if i := strings.LastIndexByte(pattern, '.'); i >= 0 {
		relation, column = like(pattern[:i]), pattern[i+1:]
	}
	isColumn := func(name string) bool { return column == "*" || column == name || name == "*" }
	usesColumn := func(used map[string]any, named bool) bool {
		if !relation(used["name"].(string)) {
			return false
		}
		if !named {
			return strings.ContainsAny(used["access"].(string), "siu") && used["access"] != "delete"
		}
		names, _ := used["columns"].(map[string]any)
		for _, list := range names {
			if slices.ContainsFunc(list.([]any), func(v any) bool { return isColumn(v.(string)) }) {
				return true
			}
		}
		return false
	}
	return condition{
		flag: "object", values: []string{pattern},
		holds: func(l *line) bool {
			relations := l.list("relations")
			named := slices.ContainsFunc(relations, func(v map[string]any) bool { return v["columns"] != nil })
			for _, v := range relations {
				if whole(v["name"].(string)) || usesColumn(v, named) {
					return true
				}
			}
			return slices.ContainsFunc(l.list("objects"), func(v map[string]any) bool { return whole(v["name"].(string)) })
		},
		hides: func(l *line) bool {
			last := pattern[strings.LastIndex(pattern, ".")+1:]
			return l.extra("relations_omitted") ||
				l.isRefusedUnnamed() && (strings.Contains(last, "*") || strings.Contains(strings.ToLower(l.str("text")), strings.ToLower(last)))
		},
	}
}

// isRefusedUnnamed says whether a statement was refused before it was known which objects it uses.
func (l *line) isRefusedUnnamed() bool {
	return l.str("kind") == "statement" && l.str("outcome") == "error" && l.str("sqlstate") == "42501" &&
		len(l.list("relations"))+len(l.list("objects")) == 0 && l.str("class") != "misc_set"
}

// ---- answers ----

func (q *question) inRange(l *line) bool { return l.str("time") >= q.since && l.str("time") < q.until }

func (q *question) matches(l *line) bool {
	return q.inRange(l) && !slices.ContainsFunc(q.conditions, func(c condition) bool { return c.holds(l) == c.not })
}

// answer are the lines that match.
func (x *randomTrail) answer(q *question) (all []line) {
	for i := range x.lines {
		if q.matches(&x.lines[i]) {
			all = append(all, x.lines[i])
		}
	}
	return all
}

// lacksNothing says that nothing in the trail can make an answer incomplete: no record is lost or leaves something out,
// and each value that is asked for is in some record before the end of the range: a proof has little of what comes later.
func (x *randomTrail) lacksNothing(q *question) bool {
	for i := range x.lines {
		l := &x.lines[i]
		if l.str("kind") == "gap" || l.str("outcome") == "interrupted" || l.record["text_bytes"] != nil || l.extra("relations_omitted") {
			return false
		}
		if l.isRefusedUnnamed() && slices.ContainsFunc(q.conditions, func(c condition) bool { return c.flag == "object" }) {
			return false
		}
	}
	for _, c := range q.conditions {
		for _, v := range c.values {
			one := c.with(v)
			if !slices.ContainsFunc(x.lines, func(l line) bool { return l.str("time") <= q.until && one(&l) }) {
				return false
			}
		}
	}
	return true
}

// mayLack says why the answer may lack a record: it must not be called complete.
func (x *randomTrail) mayLack(q *question) string {
	for i := range x.lines {
		l := &x.lines[i]
		if !q.inRange(l) {
			continue
		}
		for _, c := range q.conditions {
			others := func(o condition) bool { return (o.flag != c.flag || o.not) && o.holds(l) == o.not }
			if !c.not && c.hides != nil && c.hides(l) && !c.holds(l) && !slices.ContainsFunc(q.conditions, others) {
				return "hidden in " + l.text
			}
		}
	}
	return ""
}

func linesOf(lines []line) (all []string) {
	for _, l := range lines {
		all = append(all, l.text)
	}
	return all
}

// compare reports the lines that only one of two answers has, or their order.
func (x *randomTrail) compare(who string, got, want []string) {
	if slices.Equal(got, want) {
		return
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			x.t.Errorf("%s: only there: %s", who, l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			x.t.Errorf("%s: not there: %s", who, l)
		}
	}
	x.t.Errorf("%s: %d lines, want %d", who, len(got), len(want))
}

func (x *randomTrail) compareCat(q *question, want []line) {
	got, warned, code := x.run(q.args(), "cat", "--format", "json")
	if code != 0 {
		x.t.Errorf("cat: code %d: %s", code, got)
	}
	if why := x.mayLack(q); why != "" && !strings.Contains(warned, "incomplete:") {
		x.t.Errorf("cat does not say that its answer may be incomplete, but a record may be %s; it says %q", why, warned)
	}
	x.compare("cat", splitLines(got), linesOf(want))
}

func (x *randomTrail) compareQuery(q *question, want []line) {
	asked := q.sql()
	if asked == "" {
		return
	}
	var out bytes.Buffer
	err := x.db.Run(context.Background(), asked, func(r *sql.Result) error {
		return (&sql.Output{Format: "json"}).Write(&out, r)
	})
	if err != nil {
		x.t.Errorf("query: %s: %s", asked, err)
		return
	}
	var got, wanted []string
	for _, text := range splitLines(out.String()) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var l line
		if err := d.Decode(&l.record); err != nil {
			x.t.Fatal(err)
		}
		got = append(got, l.id())
	}
	for _, l := range want {
		wanted = append(wanted, l.id())
	}
	slices.Sort(got)
	slices.Sort(wanted)
	x.compare("query", got, wanted)
}

func (x *randomTrail) compareProof(q *question, want []line) (proved, complete bool) {
	file := filepath.Join(filepath.Dir(x.key), "proof")
	said, code := x.steno(q.args(), "prove", "--out", file)
	covered := q.until <= x.lines[len(x.lines)-1].str("time") && x.sealed == x.minutes
	if code != 0 {
		if covered {
			x.t.Errorf("prove: code %d: %s", code, said)
		}
		return false, false
	}
	got, verdict, code := x.run(nil, "prove", "--check", file, "--key", x.key, "--show", "--format", "json")
	proved = code == 0 && strings.Contains(verdict, "\nverdict   PROVED, ")
	complete = proved && strings.Contains(verdict, "\nverdict   PROVED, complete: ")
	if x.asked++; x.asked%16 == 1 { // the verdict of a program that reads it is the same
		x.compareVerdict(file, proved, complete)
	}
	if covered && !proved {
		x.t.Errorf("check: code %d: not proved: %s", code, verdict)
	}
	if !proved {
		return false, false
	}
	got = strings.ReplaceAll(got, `"rolled_back":true,`, "") // that may come later than the range
	x.compare("proof", splitLines(got), splitLines(strings.ReplaceAll(strings.Join(linesOf(want), "\n"), `"rolled_back":true,`, "")))
	if why := x.mayLack(q); why != "" && complete {
		x.t.Errorf("the proof is complete, but a record may be %s", why)
	}
	if !complete && x.lacksNothing(q) {
		x.t.Errorf("the proof has exceptions, but nothing can be missing: %s", verdict)
	}
	return proved, complete
}

// compareVerdict compares the verdict in JSON with the one for people.
func (x *randomTrail) compareVerdict(file string, proved, complete bool) {
	verdict, code := x.steno(nil, "prove", "--check", file, "--key", x.key, "--format", "json")
	var report struct {
		Proved, Complete bool
		Exceptions       []string
	}
	if err := json.Unmarshal([]byte(verdict), &report); err != nil {
		x.t.Errorf("check: code %d: %s: %s", code, err, verdict)
		return
	}
	without := report.Proved && len(report.Exceptions) == 0
	if report.Proved != proved || report.Complete != complete || complete != without || proved != (code == 0) {
		x.t.Errorf("check: proved %t, complete %t, but in JSON, code %d: %s", proved, complete, code, verdict)
	}
}
