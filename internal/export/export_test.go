package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/sql"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestMain also is a process that exports and is killed after a step: with STENO_TEST_EXPORT,
// whose parts are the number of the step, a format, a path, a slot and a trail.
func TestMain(m *testing.M) {
	asked := os.Getenv("STENO_TEST_EXPORT")
	if asked == "" {
		os.Exit(m.Run())
	}
	parts := strings.Split(asked, "|")
	steps, _ := strconv.Atoi(parts[0])
	o := options(parts[1], parts[2], parts[4])
	o.Slot = parts[3]
	o.step = func(string) {
		if steps--; steps == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if _, _, err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

func options(format, path string, trails ...string) *Options {
	o := &Options{Within: query.Always, Path: path, Memory: "512MiB", Program: "test", Now: time.Unix(1_800_000_000, 0), Say: func(string) {}, Warn: func(Problem) {}}
	o.Format, o.Trails = format, trails
	if format == "parquet" {
		o.Compression = "zstd"
	}
	return o
}

// toStart is the beginning of a trail.
func toStart(t *testing.T) slot.Target {
	t.Helper()
	to, err := slot.ParseTarget("start", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func export(t *testing.T, o *Options) *Manifest {
	t.Helper()
	m, name, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	checked(t, name)
	return m
}

// checked compares an export with its manifest.
func checked(t *testing.T, name string) {
	t.Helper()
	c, err := CheckManifest(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Problems {
		t.Error(p)
	}
}

// threeDays writes a trail of two streams with records of three days, and one statement that took
// two of them.
func threeDays(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "trail")
	for n := range uint32(2) {
		s := trailtest.NewStream(t, dir, n)
		client := trailtest.NewSession(trailtest.Epoch, 100+n, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
		shape := &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}
		for d := range int64(3) {
			at := trailtest.Epoch + d*day
			b := trailtest.NewBuilder(at)
			for i := range int64(20) {
				b.Add(&trailtest.Record{Kind: format.KindStatement, Session: client, Time: at + 2*i, Text: fmt.Sprintf("SELECT %d", i), Shape: shape})
			}
			if d == 2 { // it began the day before
				b.Add(&trailtest.Record{Kind: format.KindStatement, Session: client, Time: at - day/2, Duration: day, Text: "SELECT pg_sleep(86400)", Shape: shape})
			}
			s.Write(t, b)
		}
	}
	return dir
}

// worker writes a trail with what no golden one has.
func worker(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "worker")
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindServer, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Fields: format.FieldExtra,
		Extra: []string{"event", "start", "host", "db1", "cluster_name", "main"}})
	b.Add(&trailtest.Record{Kind: format.KindStatement, Time: trailtest.Epoch + 1, Text: "=1+\xff\x1b[31m\n\r\"|,;\x00", Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"},
		Session: trailtest.NewSession(trailtest.Epoch, 2, trailtest.Fact{Key: format.KeyUser, Value: "@sum"}, trailtest.Fact{Key: format.KeyLeader, Value: "6b0202d9.fa1"}, trailtest.Fact{Key: format.KeyLeaderSubstatement, Value: "3"})})
	s.Write(t, b)
	return dir
}

// newer writes a trail with numbers that have no name yet.
func newer(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "newer")
	s := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "NEW",
		Shape: &trailtest.Shape{Class: 99, Command: "NEW", Relations: []trailtest.Relation{{Type: 88, Access: 1 | 1<<40, Name: "a.b"}}}})
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "COPY (DELETE FROM t) TO STDOUT",
		Shape: &trailtest.Shape{Class: format.ClassWrite, Command: "COPY", Query: "DELETE", Prepared: "s1"}, Extra: []string{"portal", "p1"}})
	s.Write(t, b)
	return dir
}

// TestFormulasAreTextInCSV: a spreadsheet does not execute what a client has sent, unless asked to.
func TestFormulasAreTextInCSV(t *testing.T) {
	path := worker(t)
	for safe, want := range map[bool]string{true: ",'@sum,", false: ",@sum,"} {
		o := options("csv", filepath.Join(t.TempDir(), "out"), path)
		o.CSVSafe = safe
		m := export(t, o)
		if text := tree(t, o.Path)[m.Files[0].Name]; !strings.Contains(text, want) || strings.Contains(text, `"'=1+`) != safe {
			t.Errorf("%t: %q", safe, text)
		}
	}
}

// tree are the files of a directory, but for journals, by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestKilledExportsAreResumed kills a process after each step, and again while it resumes. What is
// there at the end is as if nothing had happened.
func TestKilledExportsAreResumed(t *testing.T) {
	path := threeDays(t)
	for format, slots := range map[string][]string{"jsonl": {"", "lake"}, "parquet": {"lake"}, "duckdb": {""}} {
		for _, name := range slots {
			out := filepath.Join(t.TempDir(), "out")
			attempt := func(step int) (killed bool) {
				if name != "" {
					_ = slot.Drop(&slot.Options{Name: name, Trail: []string{path}})
					if err := slot.Create(&slot.Options{Name: name, Trail: []string{path}, Now: time.Now()}); err != nil {
						t.Fatal(err)
					}
				}
				os.RemoveAll(out)
				os.Mkdir(out, 0o700)
				to := filepath.Join(out, "export")
				for _, at := range []int{step, 2, 1 << 30} {
					c := exec.Command(os.Args[0])
					c.Env = append(os.Environ(), fmt.Sprintf("STENO_TEST_EXPORT=%d|%s|%s|%s|%s", at, format, to, name, path))
					text, err := c.CombinedOutput()
					var failed *exec.ExitError
					if err == nil {
						return at != step
					}
					if !errors.As(err, &failed) || failed.ExitCode() != -1 {
						t.Fatalf("%s, step %d: %v: %s", format, step, err, text)
					}
				}
				return true
			}
			manifest := filepath.Join(out, "export", (&place{format: format}).manifest(len(name)/4))
			if format == "duckdb" {
				manifest = filepath.Join(out, "export.manifest.json")
			}
			attempt(1 << 30)
			want := tree(t, out)
			steps := 0
			for step := 1; attempt(step); step++ {
				steps++
				got := tree(t, out)
				if format == "jsonl" && !maps.Equal(got, want) {
					t.Errorf("%s %s, killed after step %d: %v instead of %v", format, name, step, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
				}
				if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
					t.Errorf("%s %s, killed after step %d: files %v", format, name, step, slices.Sorted(maps.Keys(got)))
				}
				checked(t, manifest)
				if name != "" {
					feed, err := slot.OpenFeed(path, name)
					if err != nil || feed.From(1) != 4 {
						t.Errorf("%s, killed after step %d: the slot is at block %d", format, step, feed.From(1))
					}
				}
			}
			if files := len(want) - 1; steps < 4*files+2 {
				t.Errorf("%s: only %d steps for %d files", format, steps, files)
			}
		}
	}
}

// TestHalfWrittenFilesAreNotCounted puts files of every kind of leftover into an export.
func TestHalfWrittenFilesAreNotCounted(t *testing.T) {
	o := options("jsonl", filepath.Join(t.TempDir(), "out"), threeDays(t))
	ctx, cancel := context.WithCancel(t.Context())
	o.step = func(name string) {
		for name := range tree(t, o.Path) { // what programs read that look for files by themselves
			if base := filepath.Base(name); base[0] != '_' && base[0] != '.' && base != "trail.jsonl" {
				t.Errorf("%s is in their way", name)
			}
		}
		if strings.HasPrefix(name, "created day=2026-11-22") {
			cancel()
		}
	}
	if _, _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	half := filepath.Join(o.Path, "day=2026-11-22")
	os.Mkdir(half, 0o700)
	os.WriteFile(filepath.Join(half, "trail.jsonl"), []byte("half"), 0o600)
	os.WriteFile(filepath.Join(half, "_trail.jsonl.partial"), []byte("half"), 0o600)
	journal, _ := os.OpenFile(filepath.Join(o.Path, journalName), os.O_APPEND|os.O_WRONLY, 0)
	journal.WriteString(`{"done":{"file":"day=2026-11-22/trail.jsonl"`)
	journal.Close()
	o.step = nil
	if m := export(t, o); m.Rows != 122 || len(m.Files) != 3 {
		t.Errorf("%d rows in %d files", m.Rows, len(m.Files))
	}
	for name, text := range tree(t, o.Path) {
		if strings.HasSuffix(name, partial) || text == "half" || strings.HasSuffix(name, journalName) {
			t.Errorf("%s is left", name)
		}
	}
}

// TestFilesWithoutManifestAreKept: what was complete once is not a leftover.
func TestFilesWithoutManifestAreKept(t *testing.T) {
	path := threeDays(t)
	if err := slot.Create(&slot.Options{Name: "lake", Trail: []string{path}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "lake"} {
		o := options("jsonl", filepath.Join(t.TempDir(), "out"), path)
		o.Slot = name
		once := func(o *Options) {
			if _, _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			once(o)
			manifests, _ := filepath.Glob(o.Path + "/_manifest*")
			os.Remove(manifests[len(manifests)-1])
			before := tree(t, o.Path)
			if name == "" {
				if _, _, err := Run(t.Context(), o); err == nil {
					t.Error("the directory was taken")
				}
			} else if err := slot.Advance(&slot.Options{Name: name, Trail: []string{path}, To: toStart(t), Force: true, Now: time.Now()}); err != nil {
				t.Fatal(err)
			} else {
				once(o)
			}
			after := tree(t, o.Path)
			for file, text := range before {
				if after[file] != text {
					t.Errorf("%s is gone", file)
				}
			}
			if name == "" {
				break
			}
			if err := slot.Advance(&slot.Options{Name: name, Trail: []string{path}, To: toStart(t), Force: true, Now: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUnfinishedExportsKeepTheirRequest: another request does not go on with it, and what the
// server writes meanwhile is not of it.
func TestUnfinishedExportsKeepTheirRequest(t *testing.T) {
	path := threeDays(t)
	o := options("jsonl", filepath.Join(t.TempDir(), "out"), path)
	stop := func() {
		ctx, cancel := context.WithCancel(t.Context())
		o.step = func(name string) {
			if strings.HasPrefix(name, "noted") {
				cancel()
			}
		}
		if _, _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		o.step = nil
	}
	stop()
	o.Filters = map[string][]string{"user": {"bob"}}
	var other *UnfinishedError
	if _, _, err := Run(t.Context(), o); !errors.As(err, &other) || !other.OtherRequest {
		t.Error(err)
	}
	o.Filters = nil
	later := trailtest.NewStream(t, path, 2)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindStatement, Session: trailtest.NewSession(trailtest.Epoch, 7), Time: trailtest.Epoch, Text: "late"})
	later.Write(t, b)
	if m := export(t, o); m.Rows != 122 || len(m.Streams) != 2 {
		t.Errorf("%d rows of %d streams", m.Rows, len(m.Streams))
	}
	o.Path += "2"
	stop()
	if err := os.Remove(later.SegmentPath(1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no longer has the blocks") {
		t.Error(err)
	}
	o.Restart = true
	if m := export(t, o); m.Rows != 122 {
		t.Errorf("%d rows", m.Rows)
	}
}

// TestOnlyOneExportAdvancesASlot lets two exports of a slot end at the same time, and two
// processes write to one place.
func TestOnlyOneExportAdvancesASlot(t *testing.T) {
	path := threeDays(t)
	if err := slot.Create(&slot.Options{Name: "lake", Trail: []string{path}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a, b := options("jsonl", filepath.Join(dir, "a"), path), options("jsonl", filepath.Join(dir, "b"), path)
	a.Slot, b.Slot = "lake", "lake"
	a.step = func(name string) {
		if name == "noted day=2026-11-23/trail-000001.jsonl" {
			same := *b
			same.Path = a.Path
			if _, _, err := Run(t.Context(), &same); !errors.Is(err, errBusy) {
				t.Error(err)
			}
			export(t, b)
		}
	}
	for range 2 { // again: it does not take the other one's advance for its own
		if _, _, err := Run(t.Context(), a); err == nil || !strings.Contains(err.Error(), "moved") {
			t.Error(err)
		}
		a.step = nil
	}
	if _, err := os.Stat(filepath.Join(a.Path, "_manifest-000001.json")); err == nil {
		t.Error("both have a manifest")
	}
	a.Restart = true
	if m, _, err := Run(t.Context(), a); err != nil || m != nil {
		t.Errorf("%v %v", m, err)
	}
}

// TestDamageIsInTheManifest changes bytes of a block, and removes a segment.
func TestDamageIsInTheManifest(t *testing.T) {
	for _, format := range []string{"jsonl", "parquet", "duckdb"} {
		path := threeDays(t)
		segment := filepath.Join(path, "1", "0000000001.steno")
		text, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)-5] ^= 1
		if err := os.WriteFile(segment, text, 0o600); err != nil {
			t.Fatal(err)
		}
		o := options(format, filepath.Join(t.TempDir(), "out"), path)
		var warned []Problem
		o.Warn = func(p Problem) { warned = append(warned, p) }
		m := export(t, o)
		if m.Verdict != VerdictDamaged || m.Rows != 101 || len(m.Problems) == 0 || !reflect.DeepEqual(m.Problems, warned) || !strings.Contains(m.Problems[0].Message, segment) {
			t.Errorf("%s: %d rows, %s: %v %v", format, m.Rows, m.Verdict, m.Problems, warned)
		}
	}
}

func TestCheckFindsMembersThatAreNotTheManifests(t *testing.T) {
	o := options("jsonl", filepath.Join(t.TempDir(), "out"), threeDays(t))
	export(t, o)
	name := filepath.Join(o.Path, "_manifest.json")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new string }{
		{`"manifest": {`, `"manifest": {"rows": 1}, "manifest": {`},
		{`"rows": `, `"rows": 1, "rows": `},
		{`"manifest": {`, `"note": "checked", "manifest": {`},
	} {
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if check, err := CheckManifest(name, nil); err != nil || len(check.Problems) == 0 {
			t.Errorf("%s was accepted (%v)", c.new, err)
		}
	}
}

// ---- Parquet, read by another library ----

// parquetRow has the columns of an export, in the types of Go.
type parquetRow struct {
	Time               *int64            `parquet:"time,optional"`
	Kind               *string           `parquet:"kind,optional"`
	Session            *string           `parquet:"session,optional"`
	SessionStart       *int64            `parquet:"session_start,optional"`
	Seq                *int64            `parquet:"seq,optional"`
	Statement          *int64            `parquet:"statement,optional"`
	Substatement       *int64            `parquet:"substatement,optional"`
	Depth              *int64            `parquet:"depth,optional"`
	PID                *int64            `parquet:"pid,optional"`
	User               *string           `parquet:"user,optional"`
	Role               *string           `parquet:"role,optional"`
	AppUser            *string           `parquet:"app_user,optional"`
	AppContext         *string           `parquet:"app_context,optional"`
	Database           *string           `parquet:"database,optional"`
	Application        *string           `parquet:"application,optional"`
	Client             *string           `parquet:"client,optional"`
	Address            *string           `parquet:"address,optional"`
	BackendType        *string           `parquet:"backend_type,optional"`
	AuthMethod         *string           `parquet:"auth_method,optional"`
	Identity           *string           `parquet:"identity,optional"`
	Leader             *string           `parquet:"leader,optional"`
	LeaderSubstatement *int64            `parquet:"leader_substatement,optional"`
	Encoding           *string           `parquet:"encoding,optional"`
	Class              *string           `parquet:"class,optional"`
	Command            *string           `parquet:"command,optional"`
	QueryCommand       *string           `parquet:"query_command,optional"`
	Prepared           *string           `parquet:"prepared,optional"`
	Portal             *string           `parquet:"portal,optional"`
	Relations          []parquetRelation `parquet:"relations,list,optional"`
	Objects            []parquetObject   `parquet:"objects,list,optional"`
	Text               *string           `parquet:"text,optional"`
	TextBytes          *int64            `parquet:"text_bytes,optional"`
	Params             []*string         `parquet:"params,list,optional"`
	QueryID            *int64            `parquet:"query_id,optional"`
	Fingerprint        *string           `parquet:"fingerprint,optional"`
	Rows               *int64            `parquet:"rows,optional"`
	DurationUS         *int64            `parquet:"duration_us,optional"`
	Outcome            *string           `parquet:"outcome,optional"`
	Failed             *bool             `parquet:"failed,optional"`
	SQLState           *string           `parquet:"sqlstate,optional"`
	Message            *string           `parquet:"message,optional"`
	XID                *int64            `parquet:"xid,optional"`
	RolledBack         *bool             `parquet:"rolled_back,optional"`
	Effect             *string           `parquet:"effect,optional"`
	Extra              map[string]string `parquet:"extra,optional"`
	Audited            []*string         `parquet:"audited,list,optional"`
	Stream             *int64            `parquet:"stream,optional"`
	Segment            *int64            `parquet:"segment,optional"`
	Block              *int64            `parquet:"block,optional"`
	Host               *string           `parquet:"host,optional"`
	ClusterName        *string           `parquet:"cluster_name,optional"`
	SystemIdentifier   *string           `parquet:"system_identifier,optional"`
}

type parquetRelation struct {
	Name           *string         `parquet:"name,optional"`
	Type           *string         `parquet:"type,optional"`
	Access         []*string       `parquet:"access,list,optional"`
	Columns        []parquetColumn `parquet:"columns,list,optional"`
	ColumnsOmitted []*string       `parquet:"columns_omitted,list,optional"`
	Via            *string         `parquet:"via,optional"`
	Audited        *bool           `parquet:"audited,optional"`
}

type parquetColumn struct {
	Name   *string   `parquet:"name,optional"`
	Access []*string `parquet:"access,list,optional"`
}

type parquetObject struct {
	Name   *string `parquet:"name,optional"`
	Type   *string `parquet:"type,optional"`
	Action *string `parquet:"action,optional"`
	To     *string `parquet:"to,optional"`
}

// plain is a value as JSON has it, with the names of Parquet's columns; nil for what is absent, an
// empty list, or a struct of these.
func plain(v reflect.Value, name string) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if name == "time" || name == "session_start" {
			return time.UnixMicro(v.Elem().Int()).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		}
		return plain(v.Elem(), "")
	case reflect.Int64:
		return json.Number(strconv.FormatInt(v.Int(), 10))
	case reflect.Slice:
		var all []any
		for i := range v.Len() {
			all = append(all, plain(v.Index(i), ""))
		}
		return orNothing(all, len(all))
	case reflect.Map:
		all := map[string]any{}
		for k, x := range v.Seq2() {
			all[k.String()] = x.Interface()
		}
		return orNothing(all, len(all))
	case reflect.Struct:
		all := map[string]any{}
		for i := range v.NumField() {
			column, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("parquet"), ",")
			if x := plain(v.Field(i), column); x != nil {
				all[column] = x
			}
		}
		return orNothing(all, len(all))
	}
	return v.Interface()
}

func orNothing(v any, n int) any {
	if n == 0 {
		return nil
	}
	return v
}

// present is a value of JSON without what is absent.
func present(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if v[k] = present(x); v[k] == nil {
				delete(v, k)
			}
		}
		return orNothing(v, len(v))
	case []any:
		for i := range v {
			v[i] = present(v[i])
		}
		return orNothing(v, len(v))
	}
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestParquetHasWhatTheTrailHas compares all values of all records of the golden trails, as another
// library reads them, with the table trail.
func TestParquetHasWhatTheTrailHas(t *testing.T) {
	kinds, columns := map[string]bool{}, map[string]bool{}
	paths, _ := filepath.Glob(trailtest.Golden(t) + "/*.expected")
	paths = append(paths, worker(t), newer(t))
	for _, compression := range Compressions {
		for _, path := range paths {
			path = strings.TrimSuffix(path, ".expected")
			name := filepath.Base(path)
			if name == "encrypted" {
				continue
			}
			o := options("parquet", filepath.Join(t.TempDir(), "out"), path)
			o.Compression = compression
			m := export(t, o)
			var got []string
			for _, f := range m.Files {
				file, err := os.Open(filepath.Join(o.Path, f.Name))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				info, _ := file.Stat()
				opened, err := parquet.OpenFile(file, info.Size())
				if err != nil {
					t.Fatal(err)
				}
				describes(t, opened)
				rows, err := parquet.Read[parquetRow](file, info.Size())
				if err != nil {
					t.Fatal(err)
				}
				if uint64(len(rows)) != f.Rows {
					t.Errorf("%s: %d rows, %d in the manifest", name, len(rows), f.Rows)
				}
				for i := range rows {
					row := plain(reflect.ValueOf(rows[i]), "").(map[string]any)
					for c := range row {
						columns[c] = true
					}
					kinds[*rows[i].Kind] = true
					got = append(got, text(t, row))
				}
			}
			want := trailRows(t, path)
			slices.Sort(got)
			if len(got) != len(want) {
				t.Fatalf("%s: %d rows instead of %d", name, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%s:\n%s\ninstead of\n%s", name, got[i], want[i])
				}
			}
		}
	}
	all, _, _ := format.Names()
	for _, k := range all {
		if !kinds[k] {
			t.Errorf("no record was of kind %s", k)
		}
	}
	for _, c := range sql.ExportColumns() {
		if !columns[c.Name] {
			t.Errorf("no record had %s", c.Name)
		}
	}
}

// trailRows are the rows of the table trail, in the order of their texts.
func trailRows(t *testing.T, path string) (rows []string) {
	t.Helper()
	db, err := sql.Open(sql.Options{
		Index: func() (*trail.Index, error) {
			opened, err := trail.Open(path)
			return opened.Index(), err
		},
		Since: format.MinTime, Until: format.MaxTime, MemoryLimit: "512MiB", Location: time.UTC, Warn: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out bytes.Buffer
	o := sql.Output{Format: "json"}
	if err := db.Run(t.Context(), "SELECT * EXCLUDE (duration) FROM trail", func(r *sql.Result) error { return o.Write(&out, r) }); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(out.Bytes()) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var row any
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, text(t, present(row)))
	}
	slices.Sort(rows)
	return rows
}

// describes checks that a file says what its columns mean.
func describes(t *testing.T, f *parquet.File) {
	t.Helper()
	described, _ := f.Lookup("pg_steno.columns")
	var columns []struct{ Name, Type, Description string }
	if err := json.Unmarshal([]byte(described), &columns); err != nil {
		t.Fatal(err)
	}
	for i, c := range f.Schema().Fields() {
		if columns[i].Name != c.Name() || columns[i].Description == "" || strings.ContainsAny(columns[i].Description, "`[") && columns[i].Name != "client" && columns[i].Name != "address" {
			t.Errorf("column %s: %+v", c.Name(), columns[i])
		}
	}
	if version, _ := f.Lookup("pg_steno.schema"); version != "1" {
		t.Errorf("schema %q", version)
	}
}

// TestLongTextsFitIntoMemory: DuckDB would end the process where it has no memory for a string.
func TestLongTextsFitIntoMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // each thread has a row group in memory
	dir := filepath.Join(t.TempDir(), "trail")
	s := trailtest.NewStream(t, dir, 0)
	client, long := trailtest.NewSession(trailtest.Epoch, 1), strings.Repeat("x", 500_000)
	for i := range int64(100) {
		b := trailtest.NewBuilder(trailtest.Epoch)
		for k := range int64(10) {
			b.Add(&trailtest.Record{Kind: format.KindNote, Session: client, Time: trailtest.Epoch + i, Text: fmt.Sprint(i, k, long)})
		}
		s.Write(t, b)
	}
	o := options("parquet", filepath.Join(t.TempDir(), "out"), dir)
	o.Memory = "300MiB"
	if m := export(t, o); m.Rows != 1000 {
		t.Errorf("%d rows", m.Rows)
	}
}

// TestFiltersAreThoseOfCat: what another format has is in Parquet, too.
func TestFiltersAreThoseOfCat(t *testing.T) {
	golden := trailtest.Golden(t)
	for _, f := range []query.Criteria{
		{Kinds: []format.Kind{format.KindNote}}, {Grep: []*regexp.Regexp{regexp.MustCompile(".")}}, {Failed: true}, {Not: &query.Criteria{Classes: []format.Class{format.ClassRead}}},
		{}, {Objects: []string{"*.staff"}},
	} {
		within := query.Always
		if len(f.Objects)+len(f.Kinds)+len(f.Grep) == 0 && !f.Failed && f.Not == nil {
			begin := query.Micros(time.Date(2025, 10, 28, 20, 53, 20, 0, time.UTC))
			within = query.Range{Since: begin + 3000, Until: begin + 6000}
		}
		counts := map[string]uint64{}
		for _, format := range []string{"jsonl", "parquet", "duckdb"} {
			o := options(format, filepath.Join(t.TempDir(), "out"), golden+"/kinds", golden+"/objects", golden+"/columns")
			o.Criteria, o.Within = f, within
			counts[format] = export(t, o).Rows
		}
		if n := counts["jsonl"]; n == 0 || n != counts["parquet"] || n != counts["duckdb"] {
			t.Errorf("%+v: %v", f, counts)
		}
	}
}
