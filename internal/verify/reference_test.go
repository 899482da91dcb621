// Compares this program with the reference reader of the format.

package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// The reference reader, format/reference/read.py, was written from FORMAT.md. It and
// this program must find the same records and the same problems: in the golden trails,
// in random ones, and in both when they have been tampered with.
//
// A run does the same each time; another seed makes other trails:
//
//	STENO_REFERENCE=2000 STENO_REFERENCE_SEED=$RANDOM go test ./internal/verify -run Reference -v

const referencePackages = "python3 python3-lz4 python3-xxhash python3-cryptography"

// referencePython is a Python that has what read.py needs.
func referencePython(t *testing.T) string {
	t.Helper()
	candidates := []string{os.Getenv("STENO_PYTHON"), "python3", "/usr/bin/python3"}
	for _, python := range candidates {
		if python != "" && exec.Command(python, "-c", "import lz4.block, xxhash, cryptography").Run() == nil {
			return python
		}
	}
	t.Fatalf("no Python with lz4, xxhash and cryptography: run scripts/setup --test, or install Debian's packages %s; "+
		"or set STENO_PYTHON to a Python that has these modules", referencePackages)
	return ""
}

func referenceReader(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../format/reference/read.py")
	if err != nil {
		t.Fatal(err)
	}
	// Files that the test itself has read make go test forget a result when they change.
	for _, name := range []string{path, filepath.Join(filepath.Dir(path), "..", "records.def")} {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// answer is what the reference reader says of one trail.
type answer struct {
	lines []string
	code  int
}

// ask has the reference reader read trails, one after the other, in one process.
func ask(t *testing.T, dirs []string, options ...string) []answer {
	t.Helper()
	c := exec.CommandContext(t.Context(), referencePython(t), append([]string{referenceReader(t), "--many"}, options...)...)
	c.Stdin = strings.NewReader(strings.Join(dirs, "\n") + "\n")
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("read.py %v: %v\n%s", options, err, said.String())
	}
	answers := []answer{{}}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		last := &answers[len(answers)-1]
		end := struct{ End *int }{}
		if strings.HasPrefix(lines.Text(), `{"end":`) && json.Unmarshal(lines.Bytes(), &end) == nil && end.End != nil {
			last.code = *end.End
			answers = append(answers, answer{})
			continue
		}
		last.lines = append(last.lines, lines.Text())
	}
	if len(answers) != len(dirs)+1 {
		t.Fatalf("read.py %v: answers of %d trails, not %d\n%s", options, len(answers)-1, len(dirs), said.String())
	}
	return answers[:len(dirs)]
}

// object is an object of JSON. Of a name that is there twice, the first one counts.
type object []field

type field struct {
	name  string
	value any
}

func (o object) get(name string) any {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

func parse(t *testing.T, line string) object {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	value, err := parseValue(d)
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return value.(object)
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(o, func(f field) bool { return f.name == name }) {
				o = append(o, field{name.(string), value})
			}
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// shown are the lines of a trail that steno cat --format json prints.
func shown(t *testing.T, tr *trail.Trail) (lines []string) {
	t.Helper()
	index := tr.Index()
	options := render.Options{Servers: index.Servers()}
	err := index.Merge(context.Background(), trail.MergeOptions{
		Since: format.MinTime, Until: format.MaxTime, Rollbacks: true,
		NewFormatter: func() trail.Formatter { return everything{render.New(render.JSON, options)} },
		Warn:         func(error) {},
	}, func(line []byte) error {
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// everything is a formatter of all records.
type everything struct{ render.Renderer }

func (everything) Keep(*format.Record) bool { return true }

// Problems of both readers in one form: what the reference reader says of them, as
// FORMAT.md lists the classes.
type defect struct {
	class string
	// Where it is; nothing of this for problems of sessions.
	stream, segment uint64
	offset          int64
	// A session, and numbers of its records.
	session     string
	first, last uint64
}

func (f defect) String() string {
	if f.session != "" {
		return fmt.Sprintf("%s: session %s, records %d to %d", f.class, f.session, f.first, f.last)
	}
	return fmt.Sprintf("%s: stream %d, segment %d, offset %d", f.class, f.stream, f.segment, f.offset)
}

// classify brings a problem into the form of both readers.
func classify(p *format.Problem) defect {
	f := defect{class: p.Class.String()}
	if p.Session != (format.SessionID{}) && (p.Class == format.ProblemSession || p.Class == format.ProblemParts) {
		f.session, f.first, f.last = p.Session.String(), p.Numbers.First, p.Numbers.Last
		return f
	}
	f.stream, f.segment = uint64(p.Stream), p.Segment
	if p.Offset != format.NoOffset {
		f.offset = p.Start
	}
	return f
}

// found are the problems, and the unfinished writes, that this program finds in a trail.
func found(t *testing.T, r *Report) map[defect]bool {
	t.Helper()
	all := map[defect]bool{}
	for _, p := range slices.Concat(r.Problems, r.Warnings, r.Unreadable) {
		if p.of == nil {
			if !slices.Contains(r.Warnings, p) {
				t.Errorf("of no class: %q", p.What)
			}
			continue
		}
		f := classify(p.of)
		if slices.ContainsFunc(r.Warnings, func(w Problem) bool { return w == p }) && f.class != "torn" {
			continue
		}
		all[f] = true
	}
	return tidy(all)
}

// tidy leaves out what follows from something else: who changes a block's payload or
// number breaks the chain there, too, and the seals behind are of other blocks. This
// program tells of one wrong seal of a stream.
func tidy(all map[defect]bool) map[defect]bool {
	tidied := map[defect]bool{}
	for f := range all {
		damaged, number := f, f
		damaged.class, number.class = "damaged", "number"
		switch {
		case f.class == "chain" && (all[damaged] || all[number]):
		case f.class == "seal" && slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(o defect) bool {
			return o.session == "" && o.stream == f.stream && o.class != "seal" && o.class != "index"
		}):
		case f.class == "unreadable" && all[defect{class: "damaged", stream: f.stream, segment: f.segment}]: // the key is in the header
		case f.class == "seal":
			tidied[defect{class: f.class, stream: f.stream}] = true
		default:
			tidied[f] = true
		}
	}
	return tidied
}

// foundByReference are those that the reference reader finds.
func foundByReference(t *testing.T, a answer) map[defect]bool {
	t.Helper()
	if len(a.lines) != 1 {
		t.Fatalf("%d lines instead of one object", len(a.lines))
	}
	var said struct {
		Problems, Notes, Unreadable []struct {
			Class           string
			Stream, Segment uint64
			Offset          int64
			Session, What   string
			First, Last     uint64
		}
	}
	if err := json.Unmarshal([]byte(a.lines[0]), &said); err != nil {
		t.Fatal(err)
	}
	all := map[defect]bool{}
	for _, p := range slices.Concat(said.Problems, said.Notes, said.Unreadable) {
		switch {
		case strings.Contains(p.What, "which are in data parts"): // this program does not put them together to check them
		case p.Session != "" && p.Class == "session" && p.What != "missing":
			all[defect{class: p.Class, session: p.Session}] = true
		case p.Session != "":
			all[defect{class: p.Class, session: p.Session, first: p.First, last: p.Last}] = true
		case p.Class != "parts":
			all[defect{class: p.Class, stream: p.Stream, segment: p.Segment, offset: p.Offset}] = true
		}
	}
	return tidy(all)
}

// compare has both readers read trails, and compares what they find.
func compare(t *testing.T, dirs []string, open func(dir string) (*trail.Trail, error), options ...string) {
	t.Helper()
	var records, problems []answer
	var both sync.WaitGroup
	both.Go(func() { records = ask(t, dirs, options...) })
	both.Go(func() { problems = ask(t, dirs, append([]string{"--verify"}, options...)...) })
	both.Wait()
	for i, dir := range dirs {
		failed := false
		fail := func(format string, args ...any) {
			t.Errorf(filepath.Base(dir)+": "+format, args...)
			failed = true
		}
		tr, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Trail(context.Background(), tr, nil, Checks{})
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := found(t, r), foundByReference(t, problems[i])
		for _, line := range records[i].lines { // a sum of such numbers has more than 64 bits
			if o := parse(t, line); len(fmt.Sprint(o.get("seq"))) > 18 {
				forget := func(f defect, _ bool) bool { return f.session == o.get("session") }
				maps.DeleteFunc(ours, forget)
				maps.DeleteFunc(theirs, forget)
			}
		}
		if want, got := shown(t, tr), records[i].lines; !sameRecords(t, want, got, unsure(r, ours), fail) {
			fail("%d records, %d by the reference reader", len(want), len(got))
		}
		if r.MoreProblems > 0 { // not all are listed
			maps.DeleteFunc(theirs, func(f defect, _ bool) bool { return !ours[f] })
		}
		for f := range ours {
			if !theirs[f] {
				fail("the reference reader does not find %s", f)
			}
		}
		for f := range theirs {
			if !ours[f] {
				fail("only the reference reader finds %s", f)
			}
		}
		if failed {
			for _, p := range slices.Concat(r.Problems, r.Warnings) {
				t.Logf("%s: %v %s", p.File, p.Offset, p.What)
			}
			t.Logf("%s: %v", dir, problems[i].lines)
			if keep := os.Getenv("STENO_REFERENCE_KEEP"); keep != "" {
				if err := os.CopyFS(filepath.Join(keep, filepath.Base(dir)), os.DirFS(dir)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// inParts are the fields that can be in data parts.
var inParts = []string{"text", "message", "params", "relations", "objects", "extra"}

// unsure are the fields of records about which nothing is certain in a trail with some
// problems: of several data parts of one record, any may be the right ones; and ends of
// transactions behind a malformed item may count or not.
func unsure(r *Report, problems map[defect]bool) (names []string) {
	for f := range problems {
		if f.class == "parts" {
			names = append(names, inParts...)
		}
	}
	if says(r, "of the decompressed payload") {
		names = append(names, "rolled_back")
	}
	return names
}

func without(o object, names []string) object {
	return slices.DeleteFunc(o, func(f field) bool { return slices.Contains(names, f.name) })
}

// sameRecords says whether both have the same records in the same order, without some
// fields. What is different is reported, but for data parts of a record that is there twice.
func sameRecords(t *testing.T, want, got, leftOut []string, fail func(string, ...any)) bool {
	t.Helper()
	differences := 0
	want, got = settled(t, want), settled(t, got)
	id := func(line string) string { o := parse(t, line); return fmt.Sprint(o.get("session"), o.get("seq")) }
	times := map[string]int{}
	for _, line := range want {
		times[id(line)]++
	}
	for i := range min(len(want), len(got)) {
		leftOut := leftOut
		if times[id(want[i])] > 1 {
			leftOut = slices.Concat(leftOut, inParts)
		}
		if ours, theirs := without(parse(t, want[i]), leftOut), without(parse(t, got[i]), leftOut); !reflect.DeepEqual(ours, theirs) && differences < 3 {
			differences++
			fail("record %d: %s\nby the reference reader: %s", i, want[i], got[i])
		}
	}
	return len(want) == len(got)
}

// settled has records in one order: cat shows those of the same microsecond, session and
// number in any, and what is in a block whose header does not state the right times where
// that block is.
func settled(t *testing.T, lines []string) []string {
	t.Helper()
	type keyed struct {
		line, key string
		place     object
	}
	all := make([]keyed, len(lines))
	for i, line := range lines {
		o := parse(t, line)
		all[i] = keyed{line, fmt.Sprint(o.get("time"), o.get("session"), o.get("seq")), o}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Or(cmp.Compare(a.key, b.key), comparePlaces(a.place, b.place)) })
	for i := range all {
		lines[i] = all[i].line
	}
	return lines
}

// number is a value of JSON as a number; 0: it is none.
func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func comparePlaces(a, b object) int {
	for _, name := range []string{"stream", "segment", "block"} {
		if c := cmp.Compare(number(fmt.Sprint(a.get(name))), number(fmt.Sprint(b.get(name)))); c != 0 {
			return c
		}
	}
	return 0
}

// TestReferenceReaderReadsGoldenTrails compares it with what the golden trails must say,
// and with this reader.
func TestReferenceReaderReadsGoldenTrails(t *testing.T) {
	golden := trailtest.Golden(t)
	expected, err := filepath.Glob(golden + "/*.expected")
	if err != nil || len(expected) < 17 {
		t.Fatal(err, len(expected))
	}
	keyFile := filepath.Join(golden, "encrypted.keys")
	if err := os.Chmod(keyFile, 0o600); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, path := range expected {
		dirs = append(dirs, strings.TrimSuffix(path, ".expected"))
	}
	for i, a := range ask(t, dirs, "--golden", "--encryption-key-file", keyFile) {
		want, err := os.ReadFile(expected[i])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.lines, "\n") + "\n"; got != string(want) || a.code != 0 {
			t.Errorf("%s: code %d, %s\nwant %s", dirs[i], a.code, got, want)
		}
	}
	compare(t, dirs, openWith(readKeys(t, keyFile)), "--encryption-key-file", keyFile)
}

// readKeys reads the keys of encrypted trails.
func readKeys(t *testing.T, path string) *format.Keys {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var keys [][format.KeySize]byte
	for line := range strings.FieldsSeq(string(text)) {
		key, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, [format.KeySize]byte(key))
	}
	return format.NewKeys(func() ([][format.KeySize]byte, error) { return keys, nil })
}

func openWith(keys *format.Keys) func(string) (*trail.Trail, error) {
	return func(dir string) (*trail.Trail, error) { return trail.OpenEncrypted(dir, keys) }
}

// TestReferenceReaderFindsFaultsOfGoldenTrails compares what it finds in those that have a fault.
func TestReferenceReaderFindsFaultsOfGoldenTrails(t *testing.T) {
	expected, err := filepath.Glob(trailtest.Golden(t) + "/damaged/*.expected")
	if err != nil || len(expected) < 12 {
		t.Fatal(err, len(expected))
	}
	var dirs []string
	for _, path := range expected {
		dirs = append(dirs, strings.TrimSuffix(path, ".expected"))
	}
	for i, a := range ask(t, dirs, "--verify") {
		line, err := os.ReadFile(expected[i])
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Fault           string
			Stream, Segment uint64
			Offset          int64
		}
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		if got := foundByReference(t, a); !got[defect{class: want.Fault, stream: want.Stream, segment: want.Segment, offset: want.Offset}] {
			t.Errorf("%s: %v, want %v", dirs[i], got, want)
		}
		if code := map[bool]int{true: 0, false: 1}[want.Fault == "torn"]; a.code != code {
			t.Errorf("%s: code %d, want %d", dirs[i], a.code, code)
		}
	}
	compare(t, dirs, trail.Open)
}

// referenceRuns is how many trails a test makes, and its random numbers.
func referenceRuns(t *testing.T, usual int) (int, *rand.Rand) {
	t.Helper()
	if s := os.Getenv("STENO_REFERENCE"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("STENO_REFERENCE=%s", s)
		}
		usual = n
	}
	seed := number(os.Getenv("STENO_REFERENCE_SEED"))
	return usual, rand.New(rand.NewPCG(seed, 1))
}

// TestReferenceReaderFindsTampering compares what both find in a server's trail, and in
// golden trails, that were altered at random places.
func TestReferenceReaderFindsTampering(t *testing.T) {
	n, r := referenceRuns(t, 80)
	golden := trailtest.Golden(t)
	sealed := newSuite(t).original
	var others []files
	for _, name := range []string{"streams", "index", "runs", "seals", "lz4", "encrypted", "empty", "parts"} {
		others = append(others, readFiles(t, filepath.Join(golden, name)))
	}
	keyFile := filepath.Join(golden, "encrypted.keys")
	if err := os.Chmod(keyFile, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var dirs []string
	for i := range n {
		var f files
		var how string
		if one := bytewise[r.IntN(len(bytewise))]; i%10 == 0 {
			f, how = one.alter(r, sealed.clone()), one.name
		} else {
			f, how = spoil(r, others[r.IntN(len(others))].clone()), "spoiled"
		}
		to := filepath.Join(dir, fmt.Sprintf("%d %s", i, how))
		f.write(t, to)
		dirs = append(dirs, to)
	}
	compare(t, dirs, openWith(readKeys(t, keyFile)), "--encryption-key-file", keyFile)
}

// chosen are alterations of a segment whose blocks begin at some offsets, each for a rule of FORMAT.md about what is torn and
// damaged.
var chosen = []struct {
	name  string
	alter func(data []byte, at []int) []byte
}{
	{"header of one block", func(data []byte, at []int) []byte { data[at[3]+20] ^= 1; return data }},
	{"headers of two blocks", func(data []byte, at []int) []byte { data[at[3]+20] ^= 1; data[at[4]+20] ^= 1; return data }},
	{"magic of one block", func(data []byte, at []int) []byte { data[at[3]] ^= 1; return data }},
	{"magic of three blocks", func(data []byte, at []int) []byte { data[at[3]] ^= 1; data[at[4]] ^= 1; data[at[5]] ^= 1; return data }},
	{"payloads of two blocks", func(data []byte, at []int) []byte { data[at[4]-1] ^= 1; data[at[5]-1] ^= 1; return data }},
	{"header, and payload of the next", func(data []byte, at []int) []byte { data[at[3]] ^= 1; data[at[5]-1] ^= 1; return data }},
	{"header, and payloads of the next two", func(data []byte, at []int) []byte {
		data[at[3]] ^= 1
		data[at[5]-1] ^= 1
		data[at[6]-1] ^= 1
		return data
	}},
	{"bytes taken out of a payload", func(data []byte, at []int) []byte { return slices.Delete(data, at[4]-9, at[4]-3) }},
	{"bytes taken out of the last payload", func(data []byte, at []int) []byte { return slices.Delete(data, len(data)-9, len(data)-3) }},
	{"bytes put into a payload", func(data []byte, at []int) []byte { return slices.Insert(data, at[4]-9, 1, 2, 3) }},
	{"a block in a block", func(data []byte, at []int) []byte {
		return slices.Insert(data, at[4]-9, slices.Clone(data[at[6]:at[7]])...)
	}},
	{"an older block in a block", func(data []byte, at []int) []byte {
		return slices.Insert(data, at[4]-9, slices.Clone(data[at[1]:at[2]])...)
	}},
	{"the last block in an unfinished one", func(data []byte, at []int) []byte {
		last := slices.Clone(data[at[9]:])
		return slices.Concat(data[:at[8]+150], last)
	}},
	{"an older block at the end of an unfinished one", func(data []byte, at []int) []byte {
		return slices.Concat(data[:at[9]+150], data[at[2]:at[3]])
	}},
	{"blocks swapped", func(data []byte, at []int) []byte {
		return slices.Concat(data[:at[3]], data[at[4]:at[5]], data[at[3]:at[4]], data[at[5]:])
	}},
	{"a block removed", func(data []byte, at []int) []byte { return slices.Delete(data, at[3], at[4]) }},
	{"a block doubled", func(data []byte, at []int) []byte {
		return slices.Insert(data, at[4], slices.Clone(data[at[3]:at[4]])...)
	}},
	{"cut in a header", func(data []byte, at []int) []byte { return data[:at[9]+50] }},
	{"cut in a payload", func(data []byte, at []int) []byte { return data[:len(data)-20] }},
	{"room", func(data []byte, at []int) []byte { return append(data, make([]byte, 5000)...) }},
	{"a few zeros", func(data []byte, at []int) []byte { return append(data, make([]byte, 10)...) }},
	{"a few bytes", func(data []byte, at []int) []byte { return append(data, 1, 2, 3) }},
	{"bytes, then zeros", func(data []byte, at []int) []byte { return append(append(data, 1, 2, 3), make([]byte, 300)...) }},
	{"bytes, and no zeros", func(data []byte, at []int) []byte { return append(data, bytes.Repeat([]byte{7}, 300)...) }},
	{"last payload ends with 15 zeros", func(data []byte, at []int) []byte { clear(data[len(data)-15:]); return data }},
	{"last payload ends with 16 zeros", func(data []byte, at []int) []byte { clear(data[len(data)-16:]); return data }},
	{"last payload ends with 15 zeros in room", func(data []byte, at []int) []byte {
		clear(data[len(data)-15:])
		return append(data, make([]byte, 600)...)
	}},
	{"last payload lacks a sector", func(data []byte, at []int) []byte {
		from := (at[9] + format.BlockHeaderSize + 511) / 512 * 512
		clear(data[from : from+512])
		return data
	}},
	{"last payload lacks its first sector, of 20 bytes", func(data []byte, at []int) []byte {
		data, start := moved(data, at, 512-20)
		clear(data[start : start+20])
		return data
	}},
	{"last payload lacks its first sector, of 12 bytes", func(data []byte, at []int) []byte {
		data, start := moved(data, at, 512-12)
		clear(data[start : start+12])
		return data
	}},
	{"payload before the last ends with zeros", func(data []byte, at []int) []byte { clear(data[at[9]-16 : at[9]]); return data }},
	{"last header ends with zeros", func(data []byte, at []int) []byte { clear(data[at[9]+96 : at[9]+112]); return data }},
	{"last header is damaged", func(data []byte, at []int) []byte { data[at[9]+20] ^= 1; return data }},
	{"last header is damaged, and zeros are at the end", func(data []byte, at []int) []byte {
		data[at[9]+20] ^= 1
		return append(data, make([]byte, 16)...)
	}},
	{"segment header", func(data []byte, at []int) []byte { data[50] ^= 1; return data }},
	{"segment header and first block", func(data []byte, at []int) []byte { data[50] ^= 1; data[at[0]] ^= 1; return data }},
	{"cut in the segment header", func(data []byte, at []int) []byte { return data[:60] }},
	{"only zeros", func(data []byte, at []int) []byte { clear(data); return data }},
	{"a later version", func(data []byte, at []int) []byte { data[8] = 2; trailtest.SealSegment(data[:128]); return data }},
	{"a flag of a segment", func(data []byte, at []int) []byte { data[12] = 2; trailtest.SealSegment(data[:128]); return data }},
	{"a flag of a block", func(data []byte, at []int) []byte { data[at[3]+7] = 2; trailtest.SealHeader(data[at[3]:]); return data }},
	{"a codec of a block", func(data []byte, at []int) []byte { data[at[3]+6] = 2; trailtest.SealHeader(data[at[3]:]); return data }},
	{"a length beyond its limit", func(data []byte, at []int) []byte {
		data[at[3]+15] = 0xff
		trailtest.SealHeader(data[at[3]:])
		return data
	}},
}

// moved puts a block's payload at a place in a sector, by bytes before the block, which are damaged then. It returns where
// the payload of the last block begins.
func moved(data []byte, at []int, to int) (out []byte, start int) {
	start = at[9] + format.BlockHeaderSize
	n := (to - start%512 + 512) % 512
	return slices.Insert(data, at[9], bytes.Repeat([]byte{7}, n)...), start + n
}

// TestReferenceReaderFindsChosenDamage compares what both find behind damage of each sort, in the last segment and in
// one that another follows.
func TestReferenceReaderFindsChosenDamage(t *testing.T) {
	dir := t.TempDir()
	var dirs []string
	for _, one := range chosen {
		for segment := uint64(1); segment <= 2; segment++ {
			to := filepath.Join(dir, fmt.Sprintf("%s in segment %d", one.name, segment))
			s := trailtest.NewStream(t, to, 0)
			s.Codec = format.CodecNone
			session := trailtest.NewSession(trailtest.Epoch, 1)
			for i := range 20 {
				if i == 10 {
					s.Rotate(t, trailtest.Epoch)
				}
				b := trailtest.NewBuilder(trailtest.Epoch)
				text := strings.Repeat(fmt.Sprintf("note %d ", i), 30+150*(i%10/9)) // the last one has more than two sectors
				b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: trailtest.Epoch + int64(i), Text: text})
				s.Write(t, b)
			}
			f := readFiles(t, to)
			f[0][segment] = one.alter(f[0][segment], blocks(f[0][segment]))
			f.write(t, to)
			dirs = append(dirs, to)
		}
	}
	compare(t, dirs, trail.Open)
}

// spoil alters a trail in a few random places.
func spoil(r *rand.Rand, f files) files {
	for range 1 + r.IntN(3) {
		stream := pickKey(r, f)
		segment := pickKey(r, f[stream])
		data := f[stream][segment]
		at := r.IntN(len(data) + 1)
		n := min(1+r.IntN(200), len(data)-at)
		switch r.IntN(8) {
		case 0:
			if at < len(data) {
				data[at] ^= 1 << r.IntN(8)
			}
		case 1:
			data = data[:at]
		case 2:
			data = slices.Delete(data, at, at+n)
		case 3:
			data = slices.Insert(data, at, slices.Clone(data[at:at+n])...)
		case 4:
			clear(data[at : at+n])
		case 5:
			data = append(data, make([]byte, r.IntN(600))...)
		case 6:
			clear(data[at:])
		case 7:
			if len(f[stream]) > 1 {
				delete(f[stream], segment)
				continue
			}
		}
		f[stream][segment] = data
	}
	return f
}

func pickKey[K cmp.Ordered, V any](r *rand.Rand, m map[K]V) K {
	keys := slices.Sorted(maps.Keys(m))
	return keys[r.IntN(len(keys))]
}

// TestReferenceReaderReadsForgedPayloads compares what both make of payloads of golden
// trails that were altered at random places, with checksums and chain made right again.
func TestReferenceReaderReadsForgedPayloads(t *testing.T) {
	n, r := referenceRuns(t, 60)
	golden := trailtest.Golden(t)
	var all []files
	for _, name := range []string{
		"kinds", "fields", "values", "objects", "columns", "transactions", "endings", "index", "runs", "similar", "streams", "parts", "later", "seals",
	} {
		all = append(all, readFiles(t, filepath.Join(golden, name)))
	}
	dir := t.TempDir()
	var dirs []string
	for i := range n {
		f := all[r.IntN(len(all))].clone()
		stream := pickKey(r, f)
		for segment := range f[stream] {
			f[stream][segment] = forgePayloads(r, f[stream][segment])
		}
		to := filepath.Join(dir, strconv.Itoa(i))
		f.write(t, to)
		dirs = append(dirs, to)
	}
	compare(t, dirs, trail.Open)
}

// forgePayloads alters the payloads of a segment's blocks, and makes all else right, as
// far as the segment goes.
func forgePayloads(r *rand.Rand, segment []byte) []byte {
	at := blocks(segment)
	out := slices.Clone(segment[:format.SegmentHeaderSize])
	chain := sha256.Sum256(out)
	for i := range len(at) - 1 {
		header, payload := slices.Clone(segment[at[i]:at[i]+format.BlockHeaderSize]), slices.Clone(segment[at[i]+format.BlockHeaderSize:at[i+1]])
		if len(payload) > 0 && format.Codec(header[6]) == format.CodecNone {
			for range 1 + r.IntN(3) {
				alterPayload(r, payload)
			}
		}
		out = append(out, chained(header, payload, &chain)...)
	}
	return out
}

// alterPayload changes a byte to another one, or to one that is near it.
func alterPayload(r *rand.Rand, payload []byte) {
	p := &payload[r.IntN(len(payload))]
	switch r.IntN(3) {
	case 0:
		*p = byte(r.Uint32())
	case 1:
		*p++
	default:
		*p ^= 1 << r.IntN(8)
	}
}

// chained makes a block of a header and a stored payload, and advances the chain.
func chained(header, payload []byte, chain *[32]byte) []byte {
	le := binary.LittleEndian
	le.PutUint32(header[8:], uint32(len(payload)))
	le.PutUint64(header[64:], xxhash.Sum64(payload))
	sum := sha256.New()
	sum.Write(chain[:])
	sum.Write(header[:72])
	sum.Write(payload)
	sum.Sum(chain[:0])
	copy(header[72:], chain[:])
	trailtest.SealHeader(header)
	return append(header, payload...)
}

// TestReferenceReaderChecksSeals compares the verdicts of both, with the key of the seals, on trails that somebody has
// forged who has not the key, or altered.
func TestReferenceReaderChecksSeals(t *testing.T) {
	n, r := referenceRuns(t, 16)
	s := newSuite(t)
	dir := t.TempDir()
	dirs := []string{filepath.Join(dir, "untouched")}
	s.original.write(t, dirs[0])
	for i := range n {
		var f files
		var name string
		if i%4 == 0 {
			one := bytewise[r.IntN(len(bytewise))]
			f, name = one.alter(r, s.original.clone()), one.name
		} else {
			one, how := forgings[r.IntN(len(forgings))], []sealing{sealsOwn, sealsFaked, sealsGone}[r.IntN(3)]
			f, name = s.forge(t, r, one, how), fmt.Sprintf("%s, seals %s", one.name, how)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d %s", i, name))
		f.write(t, to)
		dirs = append(dirs, to)
	}
	key := filepath.Join(trailtest.Unpack(t, sealedTrails), "sealed.pub")
	for i, a := range ask(t, dirs, "--verify", "--key", key) {
		tr, err := trail.Open(dirs[i])
		if err != nil {
			t.Fatal(err)
		}
		report, err := Trail(context.Background(), tr, nil, Checks{Keys: s.keys})
		if err != nil {
			t.Fatal(err)
		}
		if whole := a.code == 0; whole != report.Whole {
			t.Errorf("%s: whole %v, by the reference reader %v: %v, not checked %v\n%.500s", filepath.Base(dirs[i]), report.Whole, whole,
				report.Problems, report.Unreadable, a.lines)
		}
	}
}

// TestReferenceReaderReadsRandomTrails compares what both make of random records and runs.
func TestReferenceReaderReadsRandomTrails(t *testing.T) {
	n, r := referenceRuns(t, 80)
	dir := t.TempDir()
	var dirs []string
	for i := range n {
		to := filepath.Join(dir, strconv.Itoa(i))
		randomTrail(t, r, to)
		f := readFiles(t, to)
		countRecords(t, f)
		f.write(t, to)
		dirs = append(dirs, to)
	}
	compare(t, dirs, trail.Open)
}

// randomSession is a session, and the ID of its transaction.
type randomSession struct {
	*trailtest.Session
	seq, xid, ended uint64
}

// randomTrail writes a trail of one or two streams, each with sessions of its own.
func randomTrail(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	at := int64(trailtest.Epoch)
	for number := range 1 + r.IntN(2) {
		var sessions []*randomSession
		for pid := range 1 + r.IntN(3) {
			s := trailtest.NewSession(trailtest.Epoch, uint32(100*(number+1)+pid), trailtest.Fact{Key: format.KeyUser, Value: "alice"})
			sessions = append(sessions, &randomSession{Session: s, xid: 1})
		}
		s := trailtest.NewStream(t, dir, uint32(number))
		for range 1 + r.IntN(3) {
			for range r.IntN(4) {
				if r.IntN(4) == 0 {
					s.Raw(t, runsBlock(r, s))
					continue
				}
				s.Codec = format.Codec(r.IntN(2))
				b := trailtest.NewBuilder(at)
				for range 1 + r.IntN(12) {
					at += r.Int64N(3_000_000) - 500_000
					randomRecord(r, b, sessions[r.IntN(len(sessions))], at)
				}
				s.Write(t, b)
			}
			s.Rotate(t, at)
		}
	}
}

// runsBlock is the next block of a stream, of random runs: some of them are malformed.
// Its header does not say right how many records it has: see countRecords.
func runsBlock(r *rand.Rand, s *trailtest.Stream) []byte {
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Payload = trailtest.Runs(r)
	return s.Finish(b)
}

// countRecords makes the numbers of records in headers right, as far as payloads can be
// read, and checksums and chain with them.
func countRecords(t *testing.T, f files) {
	t.Helper()
	le := binary.LittleEndian
	for _, segments := range f {
		record, chain, before := uint64(1), [32]byte{}, format.TimeRange{}
		for _, n := range slices.Sorted(maps.Keys(segments)) {
			segment := segments[n]
			at := blocks(segment)
			out := slices.Clone(segment[:format.SegmentHeaderSize])
			le.PutUint64(out[56:], record)
			le.PutUint64(out[96:], uint64(before.First))
			le.PutUint64(out[104:], uint64(before.LastEnd))
			before = format.NoTimes()
			copy(out[64:], chain[:])
			trailtest.SealSegment(out)
			chain = sha256.Sum256(out)
			for i := range len(at) - 1 {
				b := &format.Block{Image: segment[at[i]:at[i+1]]}
				if err := b.Load(); err != nil {
					t.Fatal(err)
				}
				count, one := 0, format.Record{}
				for b.Next(&one) == nil {
					if one.Kind != format.KindData {
						count++
					}
				}
				header := slices.Clone(b.Image[:format.BlockHeaderSize])
				le.PutUint32(header[16:], uint32(count))
				le.PutUint64(header[32:], record)
				record += uint64(count)
				before.Add(&format.BlockHeader{Records: uint32(count), FirstTime: b.Header.FirstTime, LastEnd: b.Header.LastEnd})
				out = append(out, chained(header, b.Image[format.BlockHeaderSize:], &chain)...)
			}
			if len(at) == 1 { // the hash of the last block is that of before
				copy(chain[:], out[64:96])
			}
			segments[n] = out
		}
	}
}

// randomRecord adds a record with some of the fields, and perhaps data parts before it.
func randomRecord(r *rand.Rand, b *trailtest.Builder, session *randomSession, at int64) {
	kinds := []format.Kind{
		format.KindStatement, format.KindStatement, format.KindStatement, format.KindStatement, format.KindStart, format.KindConnect, format.KindTransaction,
		format.KindSetting, format.KindNote, format.KindGap, format.KindServer, format.KindSubtransaction, 37,
	}
	one := &trailtest.Record{Kind: kinds[r.IntN(len(kinds))], Session: session.Session, Time: at}
	maybe := func(set func()) {
		if r.IntN(3) == 0 {
			set()
		}
	}
	maybe(func() { one.Text = pickText(r) })
	maybe(func() { one.Rows = r.Uint64N(1000) })
	maybe(func() { one.Duration = r.Uint64N(1 << 40) })
	if r.IntN(2) == 0 {
		one.Depth, one.Substatement = 1+r.Uint64N(3), 1+r.Uint64N(3)
	}
	maybe(func() {
		one.Outcome, one.SQLState, one.Message = format.Outcome(r.IntN(5)), "22012", pickText(r)
	})
	maybe(func() { one.Extra = []string{"event", pickText(r), "", "x"} })
	maybe(func() { one.Audited = format.Audited(r.Uint32()) })
	maybe(func() { one.Shape = randomShape(r) })
	if one.Shape != nil && len(one.Shape.Params) > 0 {
		one.Values, one.Nulls = randomValues(r, one.Shape.Params)
	}
	switch one.Kind {
	case format.KindTransaction:
		one.XID, one.Extra, one.Values, one.Nulls = session.xid, nil, nil, nil
		if r.IntN(3) > 0 {
			one.Outcome = format.Outcome(r.IntN(2))
		}
	case format.KindSubtransaction: // of records between those of the one before and this one
		last := session.seq
		first := session.ended + 1 + r.Uint64N(last+1-min(last, session.ended))
		one.XID, one.Outcome, one.Values, one.Nulls = session.xid, format.OutcomeError, nil, nil
		one.Extra = []string{
			"first_seq", fmt.Sprint(first), "last_seq", fmt.Sprint(last),
			"after_statement", fmt.Sprint(r.Uint64N(last + 1)), "after_substatement", fmt.Sprint(r.IntN(3)),
		}
		session.ended = last
	default:
		if r.IntN(3) > 0 {
			one.XID = session.xid
		}
	}
	if slices.Contains([]format.Kind{format.KindStatement, format.KindStart, format.KindNote, 37}, one.Kind) && r.IntN(6) == 0 {
		addParts(r, b, one, session.seq+1)
	}
	b.Add(one)
	session.seq = one.Seq
	if one.Kind == format.KindTransaction {
		session.xid++
	}
}

// addParts adds data parts of a record, before it.
func addParts(r *rand.Rand, b *trailtest.Builder, one *trailtest.Record, seq uint64) {
	for range 1 + r.IntN(3) {
		kind := format.PartKind(2 * r.IntN(2)) // text or message
		part := pickText(r)
		b.Data(one.Session, seq, kind, part)
		one.Parts[kind] += uint64(len(part))
	}
}

func pickText(r *rand.Rand) string {
	texts := []string{"SELECT 1", "", "UPDATE t SET a = 'é'", "\xff\xfe", "a\ufffdb", "\x1b[31m\u202e", "line\nline", "😀 \u2028"}
	return texts[r.IntN(len(texts))]
}

func randomShape(r *rand.Rand) *trailtest.Shape {
	s := &trailtest.Shape{Class: format.Class(r.IntN(13)), QueryID: r.Uint64() >> r.IntN(64), Command: pickText(r)}
	for range r.IntN(3) {
		s.Relations = append(s.Relations, trailtest.Relation{Type: format.RelationType(r.IntN(10)), Access: format.Access(r.Uint64() >> (32 + r.IntN(32))), Name: pickText(r)})
	}
	if r.IntN(2) == 0 {
		for i := range s.Relations {
			s.Relations[i].Columns = []trailtest.Column{{Access: format.Access(r.IntN(8)), Name: "a"}, {Access: format.Access(r.IntN(8)), Name: pickText(r)}}
			s.Relations[i].Via = r.IntN(len(s.Relations) + 1)
		}
	}
	for range r.IntN(3) {
		s.Params = append(s.Params, format.ParamType{OID: r.Uint64N(3000), Repr: format.Repr(r.IntN(int(format.ReprChar) + 1))})
	}
	for range r.IntN(2) {
		s.Objects = append(s.Objects, trailtest.Object{Action: format.Action(r.IntN(7)), Type: []string{"table", "role"}[r.IntN(2)], Name: pickText(r), To: pickText(r)})
	}
	return s
}

// fixedWidths are those of representations; the others are strings.
var fixedWidths = map[format.Repr]int{
	format.ReprNone: 0, format.ReprBool: 1, format.ReprInt2: 2, format.ReprInt4: 4, format.ReprInt8: 8, format.ReprFloat4: 4, format.ReprFloat8: 8, format.ReprOID: 4,
	format.ReprUUID: 16, format.ReprDate: 4, format.ReprTime: 8, format.ReprTimetz: 12, format.ReprTimestamp: 8, format.ReprTimestamptz: 8,
	format.ReprInterval: 16, format.ReprChar: 1,
}

// randomValues are values of parameters, some of which are NULL. Most are what a server has.
func randomValues(r *rand.Rand, params []format.ParamType) (values, nulls []byte) {
	values, nulls = []byte{}, make([]byte, (len(params)+7)/8)
	for i, p := range params {
		if r.IntN(5) == 0 {
			nulls[i/8] |= 1 << (i % 8)
			continue
		}
		width, fixed := fixedWidths[p.Repr]
		if fixed {
			value := make([]byte, width)
			fill(r, value[:min(width, 1+r.IntN(8))])
			if p.Repr == format.ReprTime || p.Repr == format.ReprTimetz { // there are no others
				binary.LittleEndian.PutUint64(value, r.Uint64N(86_400_000_001))
			}
			values = append(values, value...)
			continue
		}
		value := randomString(r, p.Repr)
		values = append(binary.AppendUvarint(values, uint64(len(value))), value...)
	}
	if !slices.ContainsFunc(nulls, func(b byte) bool { return b != 0 }) {
		nulls = nil
	}
	return values, nulls
}

func randomString(r *rand.Rand, repr format.Repr) []byte {
	switch repr {
	case format.ReprNumeric:
		value := make([]byte, 2*(1+r.IntN(6)))
		fill(r, value[:2])
		for i := 2; i < len(value); i += 2 {
			binary.LittleEndian.PutUint16(value[i:], uint16(r.IntN(10000)))
		}
		return value
	case format.ReprInet, format.ReprCidr:
		value := append([]byte{2, byte(r.IntN(33))}, make([]byte, 4)...)
		if r.IntN(2) == 0 {
			value = append([]byte{3, byte(r.IntN(129))}, make([]byte, 16)...)
		}
		for i := range value[2:] {
			if r.IntN(2) == 0 {
				value[2+i] = byte(r.Uint32())
			}
		}
		return value
	}
	return []byte(pickText(r))
}
