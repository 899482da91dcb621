package cli

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"steno": func() { os.Exit(Main()) },
		// A program that steno runs: it says what it was given.
		"steno-lab": func() { os.Exit(fakeLab()) },
	})
}

// fakeLab shows its arguments and its input, and ends with the code that the last
// argument says, or by that signal.
func fakeLab() int {
	for i, arg := range os.Args[1:] {
		fmt.Printf("%d: %s\n", i+1, arg)
	}
	_, _ = io.Copy(os.Stdout, os.Stdin)
	last := os.Args[len(os.Args)-1]
	if last == "TERM" {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(syscall.SIGTERM)
		}
		time.Sleep(time.Minute)
	}
	code, _ := strconv.Atoi(last)
	return code
}

// TestScripts runs the programs in testdata/script. They find a trail of what
// people do in $TRAIL, and the golden trails in $GOLDEN. STENO_UPDATE=1 rewrites
// the outputs that they compare with.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	writeTrail(t, filepath.Join(dir, "trail"))
	golden := trailtest.Golden(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("STENO_UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			if err := os.CopyFS(filepath.Join(e.WorkDir, "trail"), os.DirFS(filepath.Join(dir, "trail"))); err != nil {
				return err
			}
			e.Vars = append(e.Vars, "TRAIL="+filepath.Join(e.WorkDir, "trail"), "GOLDEN="+golden, "STENO_DIRECTORY=", "PGDATA=")
			return nil
		},
	})
}

// writeTrail writes a small trail in which something of each sort happens.
func writeTrail(t *testing.T, dir string) {
	const second = 1_000_000
	start := trailtest.Epoch
	fact := func(k trail.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	alice := trailtest.NewSession(start, 4001, fact(trail.KeyBackendType, "client backend"), fact(trail.KeyUser, "alice"),
		fact(trail.KeyDatabase, "shop"), fact(trail.KeyApplication, "psql"), fact(trail.KeyClient, "10.1.2.3:50022"),
		fact(trail.KeyAuthMethod, "scram-sha-256"), fact(trail.KeyIdentity, "alice"))
	bob := trailtest.NewSession(start+second, 4002, fact(trail.KeyBackendType, "client backend"), fact(trail.KeyUser, "bob"),
		fact(trail.KeyDatabase, "postgres"), fact(trail.KeyApplication, "backup"), fact(trail.KeyClient, "[local]"))
	mallory := trailtest.NewSession(start+2*second, 4003, fact(trail.KeyUser, "mallory"), fact(trail.KeyDatabase, "shop"),
		fact(trail.KeyClient, "[2001:db8::7]:40000"), fact(trail.KeyAuthMethod, "scram-sha-256"))
	server := trailtest.NewSession(start-second, 3999, fact(trail.KeyBackendType, trail.WriterBackendType))
	table := func(name string, access trail.Access) []trailtest.Relation {
		return []trailtest.Relation{{Type: trail.RelationTypeTable, Access: access, Name: name}}
	}
	orders := &trailtest.Shape{
		Class: trail.ClassRead, QueryID: 4711, Command: "SELECT", Relations: table("public.orders", trail.AccessSelect),
		Params: []trail.ParamType{{OID: 23, Repr: trail.ReprInt4}, {OID: 25, Repr: trail.ReprText}},
	}
	shape := func(class trail.Class, command string) *trailtest.Shape {
		return &trailtest.Shape{Class: class, Command: command}
	}

	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(start)
	b.Add(&trailtest.Record{Kind: trail.KindServer, Session: server, Time: start - second, Extra: []string{"event", "start", "version", "1.0"}})
	b.Add(&trailtest.Record{Kind: trail.KindConnect, Session: alice, Time: start, Shape: shape(trail.ClassConnect, "")})
	b.Add(&trailtest.Record{
		Kind: trail.KindStatement, Session: alice, Time: start + second/2, Duration: 420, Rows: 1, Shape: orders,
		Text: "SELECT * FROM orders WHERE id = $1 AND note = $2", Values: append(binary.LittleEndian.AppendUint32(nil, 42), "\x05it's "...),
	})
	b.Add(&trailtest.Record{
		Kind: trail.KindStatement, Session: alice, Time: start + second, Duration: 80, Shape: shape(trail.ClassDDL, "DROP TABLE"),
		Text: "DROP TABLE\n\torders;", Outcome: trail.OutcomeError, SQLState: "42501", Message: "must be owner of table orders",
	})
	s.Write(t, b)
	s.Rotate(t, start+2*second)
	b = trailtest.NewBuilder(start)
	b.Add(&trailtest.Record{Kind: trail.KindStatement, Session: alice, Time: start + 3*second, Duration: 30, Shape: shape(trail.ClassMisc, "VACUUM"), Text: "VACUUM \x1b[31morders\xff"})
	b.Add(&trailtest.Record{Kind: trail.KindDisconnect, Session: alice, Time: start + 5*second, Duration: 5 * second})
	s.Write(t, b)

	s = trailtest.NewStream(t, dir, 1)
	b = trailtest.NewBuilder(start)
	b.Add(&trailtest.Record{Kind: trail.KindConnect, Session: bob, Time: start + second})
	b.Add(&trailtest.Record{
		Kind: trail.KindStatement, Session: bob, Time: start + second + second/2, Duration: 2 * second, Rows: 100000,
		Shape: &trailtest.Shape{Class: trail.ClassRead, Command: "COPY", Relations: table("public.customers", trail.AccessSelect)},
		Text:  "COPY customers TO STDOUT",
	})
	b.Add(&trailtest.Record{Kind: trail.KindAuthFailed, Session: mallory, Time: start + 2*second, Outcome: trail.OutcomeError, SQLState: "28P01", Message: `password authentication failed for user "mallory"`})
	b.Add(&trailtest.Record{Kind: trail.KindGap, Session: bob, Seq: 6, Time: start + 4*second, Extra: []string{"count", "3", "first_seq", "3", "last_seq", "5", "reason", "ring full"}})
	s.Write(t, b)
}
