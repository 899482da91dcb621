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

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/postgres"
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
		Condition: func(name string) (bool, error) {
			if name != "postgres" { // PostgreSQL is installed, with an account to run it
				return false, fmt.Errorf("no condition %q", name)
			}
			installed := postgres.Installed()
			return len(installed) > 0 && installed[0].ChooseAccount("nobody") == nil, nil
		},
		Setup: func(e *testscript.Env) error {
			if err := os.CopyFS(filepath.Join(e.WorkDir, "trail"), os.DirFS(filepath.Join(dir, "trail"))); err != nil {
				return err
			}
			if installed := postgres.Installed(); len(installed) > 0 {
				e.Vars = append(e.Vars, "POSTGRES_MAJOR="+strconv.Itoa(installed[0].Major()))
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
	fact := func(k format.Key, v string) trailtest.Fact { return trailtest.Fact{Key: k, Value: v} }
	alice := trailtest.NewSession(start, 4001, fact(format.KeyBackendType, "client backend"), fact(format.KeyUser, "alice"),
		fact(format.KeyDatabase, "shop"), fact(format.KeyApplication, "psql"), fact(format.KeyClient, "10.1.2.3:50022"),
		fact(format.KeyAuthMethod, "scram-sha-256"), fact(format.KeyIdentity, "alice"))
	bob := trailtest.NewSession(start+second, 4002, fact(format.KeyBackendType, "client backend"), fact(format.KeyUser, "bob"),
		fact(format.KeyDatabase, "postgres"), fact(format.KeyApplication, "backup"), fact(format.KeyClient, "[local]"))
	mallory := trailtest.NewSession(start+2*second, 4003, fact(format.KeyUser, "mallory"), fact(format.KeyDatabase, "shop"),
		fact(format.KeyClient, "[2001:db8::7]:40000"), fact(format.KeyAuthMethod, "scram-sha-256"))
	server := trailtest.NewSession(start-second, 3999, fact(format.KeyBackendType, format.WriterBackendType))
	table := func(name string, access format.Access) []trailtest.Relation {
		return []trailtest.Relation{{Type: format.RelationTypeTable, Access: access, Name: name}}
	}
	orders := &trailtest.Shape{
		Class: format.ClassRead, QueryID: 4711, Command: "SELECT", Relations: table("public.orders", format.AccessSelect),
		Params: []format.ParamType{{OID: 23, Repr: format.ReprInt4}, {OID: 25, Repr: format.ReprText}},
	}
	shape := func(class format.Class, command string) *trailtest.Shape {
		return &trailtest.Shape{Class: class, Command: command}
	}

	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(start)
	b.Add(&trailtest.Record{Kind: format.KindServer, Session: server, Time: start - second, Extra: []string{"event", "start", "version", "1.0"}})
	b.Add(&trailtest.Record{Kind: format.KindConnect, Session: alice, Time: start, Shape: shape(format.ClassConnect, "")})
	b.Add(&trailtest.Record{
		Kind: format.KindStatement, Session: alice, Time: start + second/2, Duration: 420, Rows: 1, Shape: orders,
		Text: "SELECT * FROM orders WHERE id = $1 AND note = $2", Values: append(binary.LittleEndian.AppendUint32(nil, 42), "\x05it's "...),
	})
	b.Add(&trailtest.Record{
		Kind: format.KindStatement, Session: alice, Time: start + second, Duration: 80, Shape: shape(format.ClassDDL, "DROP TABLE"),
		Text: "DROP TABLE\n\torders;", Outcome: format.OutcomeError, SQLState: "42501", Message: "must be owner of table orders",
	})
	s.Write(t, b)
	s.Rotate(t, start+2*second)
	b = trailtest.NewBuilder(start)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: alice, Time: start + 3*second, Duration: 30, Shape: shape(format.ClassMisc, "VACUUM"), Text: "VACUUM \x1b[31morders\xff"})
	b.Add(&trailtest.Record{Kind: format.KindDisconnect, Session: alice, Time: start + 5*second, Duration: 5 * second})
	s.Write(t, b)

	s = trailtest.NewStream(t, dir, 1)
	b = trailtest.NewBuilder(start)
	b.Add(&trailtest.Record{Kind: format.KindConnect, Session: bob, Time: start + second})
	b.Add(&trailtest.Record{
		Kind: format.KindStatement, Session: bob, Time: start + second + second/2, Duration: 2 * second, Rows: 100000,
		Shape: &trailtest.Shape{Class: format.ClassRead, Command: "COPY", Relations: table("public.customers", format.AccessSelect)},
		Text:  "COPY customers TO STDOUT",
	})
	b.Add(&trailtest.Record{Kind: format.KindAuthFailed, Session: mallory, Time: start + 2*second, Outcome: format.OutcomeError, SQLState: "28P01", Message: `password authentication failed for user "mallory"`})
	b.Add(&trailtest.Record{Kind: format.KindGap, Session: bob, Seq: 6, Time: start + 4*second, Extra: []string{"count", "3", "first_seq", "3", "last_seq", "5", "reason", "ring full"}})
	s.Write(t, b)
}
