package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/acknowledge"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/statefile"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// someKey is a key that is always the same one.
func someKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func keysOf(all ...ed25519.PrivateKey) seal.Keys {
	keys := seal.Keys{}
	for _, key := range all {
		public := key.Public().(ed25519.PublicKey)
		keys[seal.KeyID(public)] = public
	}
	return keys
}

// seven is a trail of one stream with seven segments of five blocks, the last of which is open, and its writer.
func seven(t testing.TB, key ed25519.PrivateKey) (dir string, w *sealtest.Writer, put func()) {
	return written(t, key, 35, func(int) string { return "x" })
}

// written is a trail of segments of five blocks with a text each, and what writes a further one.
func written(t testing.TB, key ed25519.PrivateKey, count int, text func(n int) string) (dir string, w *sealtest.Writer, put func()) {
	dir = filepath.Join(t.TempDir(), "trail")
	w = sealtest.NewWriter(t, dir, 0, key)
	w.Restart(trailtest.Epoch)
	session, n := trailtest.NewSession(trailtest.Epoch, 7), 0
	put = func() {
		n++
		at := trailtest.Epoch + int64(n)*1e6
		b := trailtest.NewBuilder(at)
		b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: at, Text: text(n)})
		w.PutBlock(b)
	}
	for i := range count {
		if i > 0 && i%5 == 0 {
			w.Rotate(trailtest.Epoch + int64(i)*1e6)
		}
		put()
	}
	return dir, w, put
}

// TestStatesThatAreNotRightAreRefused: and nothing is written then.
func TestStatesThatAreNotRightAreRefused(t *testing.T) {
	resign := func(change func(s map[string]any)) func([]byte) []byte {
		return func(text []byte) []byte {
			line, _, _ := bytes.Cut(text, []byte("\n"))
			var s map[string]any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&s); err != nil {
				t.Fatal(err)
			}
			change(s)
			line, _ = json.Marshal(s)
			sum, key := sha256.Sum256(line), someKey(1)
			second, _ := json.Marshal(&signature{hex.EncodeToString(sum[:]), seal.KeyID(key.Public().(ed25519.PublicKey)), hex.EncodeToString(ed25519.Sign(key, append([]byte(stateDomain), line...)))})
			return slices.Concat(line, []byte("\n"), second, []byte("\n"))
		}
	}
	withSum := func(text []byte, second *signature) []byte {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		sum := sha256.Sum256(line)
		second.SHA256 = hex.EncodeToString(sum[:])
		b, _ := json.Marshal(second)
		return slices.Concat(line, []byte("\n"), b, []byte("\n"))
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		run    func(r *runner)
		want   string
		usage  bool
	}{
		"as it was":         {},
		"one bit":           {change: flip(100), want: "it does not have its own checksum"},
		"cut off":           {change: func(b []byte) []byte { return b[:len(b)/2] }, want: "it is not a state of steno verify, or was cut off"},
		"last byte cut off": {change: func(b []byte) []byte { return b[:len(b)-1] }, want: "or was cut off"},
		"empty":             {change: func([]byte) []byte { return nil }, want: "or was cut off"},
		"something behind":  {change: func(b []byte) []byte { return append(b, "x\n"...) }, want: "or was cut off"},
		"forged": {change: func(b []byte) []byte {
			b[100] ^= 1
			_, second, _ := bytes.Cut(b, []byte("\n"))
			var was signature
			_ = json.Unmarshal(second, &was)
			return withSum(b, &was)
		}, want: "it was altered or forged: its signature is not that of key"},
		"signature taken off":   {change: func(b []byte) []byte { return withSum(b, &signature{}) }, want: "it is not signed, and a key to sign with was given"},
		"no key":                {run: func(r *runner) { r.sign = nil }, want: "it is signed by key"},
		"another key":           {run: func(r *runner) { r.sign = someKey(2) }, want: "and not by the one that was given"},
		"a later version":       {change: resign(func(s map[string]any) { s["version"] = 2 }), want: "it has version 2, and this program reads version 1"},
		"of another server":     {change: resign(func(s map[string]any) { s["system_id"] = "77" }), want: "it is of the trail of another server: its system identifier is 77"},
		"what is not a memory":  {change: resign(func(s map[string]any) { s["tail"] = map[string]any{"Open": "gICA"} }), want: "sessions in it cannot be read"},
		"a number for a stream": {change: resign(func(s map[string]any) { s["tail"] = 7 }), want: "cannot unmarshal"},
		"without --key":         {run: func(r *runner) { r.checks.Keys = nil }, want: "the runs before were given public key", usage: true},
		"begun once more":       {run: func(r *runner) { r.begun = false }, want: "there is one already, of run 1"},
		"a stream":              {run: func(r *runner) { r.dir += "/0" }, want: "a state is that of one trail", usage: true},
		"a segment":             {run: func(r *runner) { r.dir += "/0/0000000001.steno" }, want: "a state is that of one trail", usage: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _, _ := seven(t, someKey(3))
			r := newRunner(t, dir)
			r.sign, r.checks.Keys = someKey(1), keysOf(someKey(3))
			r.run(0)
			text, err := os.ReadFile(r.state)
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				text = c.change(text)
				if err := os.WriteFile(r.state, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.run != nil {
				c.run(r)
			}
			report, err := r.attempt(0)
			after, _ := os.ReadFile(r.state)
			if c.want == "" {
				if err != nil || !report.NothingNew || bytes.Equal(text, after) {
					t.Fatalf("%v, %+v", err, report)
				}
				return
			}
			usage := (*exit.UsageError)(nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &usage) != c.usage {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !bytes.Equal(text, after) {
				t.Error("the state was changed")
			}
		})
	}
}

// TestAStateIsBegunOnlyWhenThatIsSaid: who removes it does not have everything forgotten.
func TestAStateIsBegunOnlyWhenThatIsSaid(t *testing.T) {
	dir, _, _ := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	if err := os.Remove(r.state); err != nil {
		t.Fatal(err)
	}
	if _, err := r.attempt(0); err == nil || !strings.Contains(err.Error(), "there is none. If there was one") {
		t.Error(err)
	}
	if _, err := os.Stat(r.state); err == nil {
		t.Error("there is one now")
	}
}

// TestTheFileOfAStateIsPrivate: and one run at a time uses it; a link in place of the temporary file is not followed.
func TestTheFileOfAStateIsPrivate(t *testing.T) {
	dir, _, _ := seven(t, someKey(3))
	r := newRunner(t, dir)
	other := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), os.Symlink(other, r.state+".new")); err != nil {
		t.Fatal(err)
	}
	r.run(0)
	info, err := os.Lstat(r.state)
	if err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if text, _ := os.ReadFile(other); string(text) != "precious" {
		t.Errorf("a link was followed: %q", text)
	}
	file, err := statefile.Open(r.state)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := r.attempt(0); !errors.Is(err, statefile.ErrLocked) {
		t.Error(err)
	}
}

// TestRunsSayWhatTheyHaveRead: that something is intact is not said of what was not read.
func TestRunsSayWhatTheyHaveRead(t *testing.T) {
	dir, _, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	text := func(report *Report) string {
		var b bytes.Buffer
		if err := report.WriteText(&b, false, render.Zone{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := r.run(0)
	if s := first.State; !first.Whole || !s.First || s.Run != 1 || s.NotRead.Segments != 0 || s.Full.Completed == "" ||
		!strings.HasSuffix(first.Verdict(), "is correct; first run with this state; the state is not signed") {
		t.Errorf("%s", text(first))
	}
	put()
	second := r.run(0)
	want := "intact where it was read now: every checksum, chain hash and sequence number is correct; " +
		"NOT READ NOW: 43 blocks of 6 segments, which earlier runs verified between 2026-12-02T00:00:00Z and 2026-12-02T00:00:00Z; the state is not signed"
	if s := second.State; second.Whole || !second.NothingNew || s.First || s.Run != 2 || second.Segments != 1 || second.Blocks != 6 ||
		s.NotRead.Segments != 6 || second.Verdict() != want {
		t.Errorf("%q\n%s", second.Verdict(), text(second))
	}
	if got := text(second); !strings.Contains(got, "\nstate     ") || !strings.Contains(got, "NOT SIGNED") || !strings.Contains(got, "\nblocks    6, read now\n") {
		t.Error(got)
	}
	third := r.run(step)
	if s := third.State; s.Again.Segments != 1 || s.NotRead.Segments != 5 || s.Full.Read != 1 || s.Full.Segments != 7 || s.Full.NextBegan != "2026-12-04T00:00:00Z" {
		t.Error(text(third))
	}
	fourth := r.run(time.Hour)
	if s := fourth.State; s.Again.Segments != 5 || s.NotRead.Segments != 1 || s.Full.Began != "2026-12-04T00:00:00Z" || s.Full.Completed != "2026-12-05T00:00:00Z" ||
		!strings.Contains(fourth.Verdict(), "of 1 segment, which earlier runs verified between 2026-12-04T00:00:00Z and 2026-12-04T00:00:00Z") {
		t.Error(text(fourth))
	}
	fifth := r.run(time.Hour)
	if s := fifth.State; !fifth.Whole || s.NotRead.Segments != 0 || s.Again.Segments != 6 || strings.Contains(fifth.Verdict(), "NOT READ") {
		t.Error(text(fifth))
	}
}

// TestProblemsAreNotForgotten: those of what is not read again stand until they are acknowledged; of others, a warning
// says that they are gone.
func TestProblemsAreNotForgotten(t *testing.T) {
	dir, w, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	path := w.SegmentPath(8)
	w.Rotate(trailtest.Epoch + 100e6)
	put()
	put()
	w.Rotate(trailtest.Epoch + 200e6)
	put()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[format.SegmentHeaderSize+format.BlockHeaderSize+3] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	found := r.run(0)
	if len(found.Problems) != 3 || found.Problems[0].Found != "" || found.NothingNew {
		t.Fatalf("%v", found.Problems)
	}
	for _, data := range [][]byte{bad, good} { // that it was repaired is not known before it is read
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		put()
		again := r.run(0)
		if len(again.Problems) != 3 || again.Problems[0].Found != "2026-12-03T00:00:00Z" || again.NothingNew || again.Problems[0].What != found.Problems[0].What {
			t.Fatalf("%v", again.Problems)
		}
	}
	// With what was found, it can be acknowledged, without reading everything.
	o := &Incremental{File: r.state, ReadOnly: true, Now: r.now}
	before, _ := os.ReadFile(r.state)
	report, tr, err := o.Run(context.Background(), func() (*trail.Trail, error) { return trail.Open(dir) }, Checks{})
	if after, _ := os.ReadFile(r.state); err != nil || !bytes.Equal(before, after) {
		t.Fatal(err, "or the state was changed")
	}
	if err := report.Acknowledge(tr, nil); err != nil {
		t.Fatal(err)
	}
	file, err := acknowledge.Path(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := &acknowledge.List{}
	for i := range report.Problems {
		e, err := report.Bind(dir, &report.Problems[i])
		if err == nil {
			err = list.Add(file, e, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	report = r.run(0)
	if err := report.Acknowledge(tr, nil); err != nil || !report.NothingNew || len(report.Acknowledged) != 3 || !strings.Contains(report.Verdict(), "nothing new: 3 problems, all acknowledged as they are; NOT READ NOW") {
		t.Errorf("%v, %s", err, report.Verdict())
	}
	report = r.run(time.Hour)
	if len(report.Problems) != 0 || !strings.Contains(report.Warnings[len(report.Warnings)-1].What, "found by the run of 2026-12-03T00:00:00Z, and not any more") {
		t.Errorf("%v, %v", report.Problems, report.Warnings)
	}
	if report = r.run(0); strings.Contains(fmt.Sprint(report.Warnings), "not any more") {
		t.Error("it is said twice")
	}
}

// TestWhatAFullPassHasFoundIsNotForgotten: also by runs that do not go on with it, or when it has to begin anew.
func TestWhatAFullPassHasFoundIsNotForgotten(t *testing.T) {
	dir, w, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	path := w.SegmentPath(2)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-3] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	there := func(report *Report) bool {
		return slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.File == path }) && !report.NothingNew
	}
	if report := r.run(step); !report.NothingNew {
		t.Fatalf("the first segment has %v", report.Problems)
	}
	for night, full := range []time.Duration{step, 0, step, 0} {
		put()
		if report := r.run(full); !there(report) {
			t.Errorf("night %d: %v", night, report.Problems)
		}
	}
	// The pass cannot go on: what it has read was deleted since, and the segment was not.
	whole, err := os.ReadFile(w.SegmentPath(7))
	if err == nil {
		at := blocks(whole)
		err = os.WriteFile(w.SegmentPath(7), whole[:at[len(at)-2]], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for night := range 3 {
		if report := r.run(0); !there(report) || report.State.Full.NextBegan != "" {
			t.Errorf("night %d, after a cut: %v", night, report.Problems)
		}
	}
	if report := r.complete(); !there(report) {
		t.Errorf("when another pass is complete: %v", report.Problems)
	}
}

// TestAStateThatCannotBeWrittenHidesNothing: what was found is reported.
func TestAStateThatCannotBeWrittenHidesNothing(t *testing.T) {
	dir, w, _ := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	if err := errors.Join(os.Remove(w.SegmentPath(4)), os.MkdirAll(r.state+".new/x", 0o700)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(r.state)
	for _, full := range []time.Duration{0, step} {
		report := r.run(full)
		if !strings.Contains(fmt.Sprint(report.Problems), "segment 4 is missing") || !strings.Contains(fmt.Sprint(report.Unreadable), "the next run goes on from the run before") || report.State == nil {
			t.Errorf("%v, %v", report.Problems, report.Unreadable)
		}
	}
	if after, _ := os.ReadFile(r.state); !bytes.Equal(before, after) {
		t.Error("it was written")
	}
}

// TestRunsAreInOrder: also if the clock is set back.
func TestRunsAreInOrder(t *testing.T) {
	dir, _, _ := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	r.now = r.now.AddDate(-1, 0, 0)
	report := r.run(time.Hour)
	if s := report.State; s.Full.Began < "2026-12-02T00:00:00Z" || s.NotRead.Segments != 0 {
		t.Errorf("%+v", s)
	}
}

// TestATrailThatIsNotWhatItWas is what may happen to a trail between two runs.
func TestATrailThatIsNotWhatItWas(t *testing.T) {
	type place struct {
		dir string
		w   *sealtest.Writer
		put func()
		r   *runner
	}
	remove := func(t *testing.T, p *place, numbers ...uint64) {
		for _, n := range numbers {
			if err := os.Remove(p.w.SegmentPath(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(t *testing.T, p *place, n uint64, count int) {
		data, err := os.ReadFile(p.w.SegmentPath(n))
		if err == nil {
			at := blocks(data)
			err = os.WriteFile(p.w.SegmentPath(n), data[:at[len(at)-1-count]], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const gone = "named by anchor of the state of 2026-12-02T00:00:00.000000Z, does not exist: the end of the stream was cut off, or the trail is an older copy"
	const other = "is not the one of anchor of the state, of 2026-12-02T00:00:00.000000Z: its chain hash was different"
	for name, c := range map[string]struct {
		keyed      bool
		happens    func(t *testing.T, p *place)
		want       string // a problem
		unread     string // what could not be read
		warned     string
		acceptable bool // after a full pass, nothing is wrong but what is remembered
	}{
		"an older copy": {
			happens: func(t *testing.T, p *place) { remove(t, p, 7); cut(t, p, 6, 1) }, want: gone, unread: "are not those that are there now",
		},
		"an older copy that the server has continued": {happens: func(t *testing.T, p *place) {
			again, _, _ := written(t, someKey(3), 45, func(n int) string { return map[bool]string{true: "x", false: "y"}[n < 33] })
			if err := errors.Join(os.RemoveAll(p.dir), os.CopyFS(p.dir, os.DirFS(again))); err != nil {
				t.Fatal(err)
			}
		}, want: other},
		"another trail of the server": {happens: func(t *testing.T, p *place) {
			other := filepath.Join(t.TempDir(), "trail")
			w := sealtest.NewWriter(t, other, 0, someKey(3))
			for i := range 60 {
				w.Put(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, uint32(100+i)), Time: trailtest.Epoch, Text: "y"})
				if i%6 == 5 {
					w.Rotate(trailtest.Epoch)
				}
			}
			w.Put(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 99), Time: trailtest.Epoch, Text: "y"})
			if err := errors.Join(os.RemoveAll(p.dir), os.CopyFS(p.dir, os.DirFS(other))); err != nil {
				t.Fatal(err)
			}
		}, want: other, unread: "which earlier runs have verified, are not those that are there now"},
		"the open segment is gone":  {happens: func(t *testing.T, p *place) { remove(t, p, 7) }, want: gone, unread: "are not those that are there now"},
		"the stream is gone":        {happens: func(t *testing.T, p *place) { os.RemoveAll(filepath.Join(p.dir, "0")) }, want: "there is no segment of a trail in this directory"},
		"a block that was read":     {happens: func(t *testing.T, p *place) { cut(t, p, 7, 1) }, want: gone},
		"a segment, early":          {happens: func(t *testing.T, p *place) { remove(t, p, 3) }, want: "segment 3 is missing, and was not deleted by retention"},
		"the first segments, early": {happens: func(t *testing.T, p *place) { remove(t, p, 1, 2) }, want: "segments 1 to 2 are missing, and were not deleted by retention"},
		"the first ones, by policy": {happens: func(t *testing.T, p *place) {
			p.w.Delete(t, p.w.Session, p.w.Stream, 1, 2)
			remove(t, p, 1, 2)
			p.put()
		}},
		"what was not read, by policy": {happens: func(t *testing.T, p *place) {
			for i := range 3 {
				p.w.Rotate(trailtest.Epoch + int64(200+i)*1e6)
				p.put()
			}
			p.w.Delete(t, p.w.Session, p.w.Stream, 1, 8)
			remove(t, p, 1, 2, 3, 4, 5, 6, 7, 8)
		}, warned: "segments 7 to 8 of stream 0 are not there any more, and no run has read them: this run begins anew"},
		"a segment became shorter": {happens: func(t *testing.T, p *place) { cut(t, p, 2, 1) }, want: "a header, or the size, of one of the segments 1 to 6 is not what it was"},
		"a header is destroyed": {happens: func(t *testing.T, p *place) {
			data, err := os.ReadFile(p.w.SegmentPath(3))
			if err == nil {
				clear(data[8:40])
				err = os.WriteFile(p.w.SegmentPath(3), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, want: "0000000003.steno: offset 120: checksum of the segment header does not match"},
		"a header is forged": {happens: func(t *testing.T, p *place) {
			data, err := os.ReadFile(p.w.SegmentPath(3))
			if err != nil {
				t.Fatal(err)
			}
			data[40] ^= 1 // the time when it was created
			trailtest.SealSegment(data[:format.SegmentHeaderSize])
			if err := os.WriteFile(p.w.SegmentPath(3), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: "a header, or the size, of one of the segments 1 to 6 is not what it was"},
		"a segment cannot be read": {happens: func(t *testing.T, p *place) {
			p.w.Rotate(trailtest.Epoch + 200e6)
			p.put()
			remove(t, p, 7)
			if err := os.Symlink("0000000007.steno", p.w.SegmentPath(7)); err != nil {
				t.Fatal(err)
			}
		}, unread: "cannot be read: too many levels of symbolic links"},
		"the stream branches": {keyed: true, happens: func(t *testing.T, p *place) {
			block, chain := p.w.Last()
			w := sealtest.NewWriter(t, p.dir, 1, someKey(3))
			w.Put(&trailtest.Record{Kind: format.KindServer, Session: w.Session, Time: trailtest.Epoch + 300e6, Extra: []string{
				"event", "branch", "reason", "copy", "stream", "0", "block", fmt.Sprint(block), "hash", hex.EncodeToString(chain[:]), "found", fmt.Sprint(block),
			}})
			w.Restart(trailtest.Epoch + 300e6)
		}},
		"a stream that branches, and blocks behind": {happens: func(t *testing.T, p *place) {
			block, chain := p.w.Last()
			w := sealtest.NewWriter(t, p.dir, 1, someKey(3))
			w.Put(&trailtest.Record{Kind: format.KindServer, Session: w.Session, Time: trailtest.Epoch + 300e6, Extra: []string{
				"event", "branch", "reason", "copy", "stream", "0", "block", fmt.Sprint(block), "hash", hex.EncodeToString(chain[:]), "found", fmt.Sprint(block),
			}})
			p.put()
		}, want: "was not written by the server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &place{}
			p.dir, p.w, p.put = seven(t, someKey(3))
			p.r = newRunner(t, p.dir)
			if c.keyed {
				p.r.checks.Keys = keysOf(someKey(3))
			}
			p.r.run(0)
			c.happens(t, p)
			for range 2 { // it is said each time
				report := p.r.run(0)
				problems, unread := fmt.Sprint(report.Problems), fmt.Sprint(report.Unreadable)
				if c.want == "" && len(report.Problems) > 0 || !strings.Contains(problems, c.want) {
					t.Errorf("%s, want %q", problems, c.want)
				}
				if c.unread == "" && len(report.Unreadable) > 0 || !strings.Contains(unread, c.unread) {
					t.Errorf("%s, want %q", unread, c.unread)
				}
				if !strings.Contains(fmt.Sprint(report.Warnings), c.warned) {
					t.Errorf("%v", report.Warnings)
				}
				c.warned = ""
				if c.want+c.unread == "" && !report.NothingNew {
					t.Error(report.Verdict())
				}
			}
		})
	}
}

// TestATrailThatWasAwayIsTheSameAgain: nothing is forgotten while it is not there.
func TestATrailThatWasAwayIsTheSameAgain(t *testing.T) {
	dir, _, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	for _, part := range []string{"", "/0"} {
		away := filepath.Join(t.TempDir(), "away")
		if err := os.Rename(dir+part, away); err != nil {
			t.Fatal(err)
		}
		if part == "" {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if report := r.run(time.Hour); len(report.Problems) == 0 {
			t.Fatal("nothing is said")
		}
		if part == "" {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(away, dir+part); err != nil {
			t.Fatal(err)
		}
		put()
		if report := r.run(0); !report.NothingNew || report.State.NotRead.Segments == 0 || report.Segments != 1 {
			t.Fatalf("%v, %s", report.Problems, report.Verdict())
		}
	}
}

// TestAnotherTrailInItsPlaceChangesNothing: when the trail is there again, nothing is wrong with it.
func TestAnotherTrailInItsPlaceChangesNothing(t *testing.T) {
	dir, _, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	other, _, _ := written(t, someKey(3), 60, func(int) string { return "y" })
	for _, path := range []string{other, dir} {
		r.dir = path
		report := r.run(0)
		if report.NothingNew != (path == dir) {
			t.Fatalf("%s: %v, %v", path, report.Problems, report.Unreadable)
		}
	}
	put()
	if report := r.run(0); !report.NothingNew || report.Segments != 1 {
		t.Errorf("%v, %v", report.Problems, report.Unreadable)
	}
}

// TestProblemsOfDeletedSegmentsAreGone: as they are for a run over what is left.
func TestProblemsOfDeletedSegmentsAreGone(t *testing.T) {
	dir, w, put := seven(t, someKey(3))
	path := w.SegmentPath(2)
	data, err := os.ReadFile(path)
	if err == nil {
		data[format.SegmentHeaderSize+110] ^= 1 // the block of an index or of a seal: of no session
		data = slices.Clone(data)
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, dir)
	of := func(report *Report) int {
		return len(slices.DeleteFunc(slices.Clone(report.Problems), func(p Problem) bool { return p.File != path }))
	}
	if report := r.run(0); of(report) == 0 {
		t.Fatal("nothing is found")
	}
	w.Delete(t, w.Session, w.Stream, 1, 2)
	put()
	if report := r.run(0); of(report) == 0 {
		t.Fatal("it is still there")
	}
	if err := errors.Join(os.Remove(w.SegmentPath(1)), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	if report := r.run(0); of(report) != 0 || !strings.Contains(fmt.Sprint(report.Warnings), "and not any more") {
		t.Errorf("%v, %v", report.Problems, report.Warnings)
	}
}

// TestABlockThatIsBeingWrittenIsReadAgain: the last block, of which a part was not there.
func TestABlockThatIsBeingWrittenIsReadAgain(t *testing.T) {
	dir, w, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	put()
	whole, err := os.ReadFile(w.SegmentPath(7))
	if err != nil {
		t.Fatal(err)
	}
	at := blocks(whole)
	part := slices.Clone(whole[:at[len(at)-2]+60])
	if err := os.WriteFile(w.SegmentPath(7), part, 0o600); err != nil {
		t.Fatal(err)
	}
	report := r.run(0)
	if !report.Whole || !strings.Contains(fmt.Sprint(report.Warnings), "unfinished block") {
		t.Fatalf("%v, %v", report.Problems, report.Warnings)
	}
	bad := slices.Clone(whole)
	bad[at[len(at)-2]+format.BlockHeaderSize+5] ^= 1
	for _, c := range []struct {
		data []byte
		good bool
	}{{bad, false}, {whole, true}} {
		if err := os.WriteFile(w.SegmentPath(7), c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if report := r.run(0); report.NothingNew != c.good {
			t.Fatalf("%v", report.Problems)
		}
	}
}

// TestKeysThatAreGivenLater: what was read without them is covered by the next seal, or is not checked.
func TestKeysThatAreGivenLater(t *testing.T) {
	for _, before := range []seal.Keys{nil, keysOf(someKey(9))} {
		dir, w, put := seven(t, someKey(3))
		r := newRunner(t, dir)
		r.checks.Keys = before
		r.run(0)
		w.Rotate(trailtest.Epoch + 100e6)
		put()
		r.run(0)
		w.Rotate(trailtest.Epoch + 200e6) // its seal was read without the key by nobody yet
		r.checks.Keys = keysOf(someKey(3), someKey(9))
		report := r.run(0)
		if len(report.Problems)+len(report.Unreadable) > 0 || report.Seals[0].Checked == 0 || !strings.Contains(fmt.Sprint(report.Warnings), "seals by keys that were not given") {
			t.Errorf("%v, %v, %v", report.Problems, report.Unreadable, report.Warnings)
		}
	}
	// No seal follows.
	dir, _, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.run(0)
	put()
	r.checks.Keys = keysOf(someKey(3))
	report := r.run(0)
	if len(report.Problems) > 0 || len(report.Unreadable) != 1 || !strings.Contains(report.Unreadable[0].What, "was not given: its seals are not checked") {
		t.Errorf("%v, %v", report.Problems, report.Unreadable)
	}
	if report = r.complete(); !report.NothingNew || report.Seals[0].Checked != report.Seals[0].Seals {
		t.Errorf("%v, %v, %+v", report.Problems, report.Unreadable, report.Seals)
	}
}

// TestAnchorsOfWhatIsNotReadAreChecked: their blocks are.
func TestAnchorsOfWhatIsNotReadAreChecked(t *testing.T) {
	s := newSuite(t)
	dir := filepath.Join(t.TempDir(), "trail")
	s.original.write(t, dir)
	r := newRunner(t, dir)
	r.checks = Checks{Keys: s.keys, Anchors: s.anchors}
	r.run(0)
	if report := r.run(0); !report.NothingNew || report.Anchors != len(s.anchors) || report.State.NotRead.Segments < 4 {
		t.Fatalf("%v, %+v", report.Problems, report.State)
	}
	for i := range s.anchors {
		changed := *s.anchors[i]
		changed.Signed = false
		changed.Hash[0] ^= 1
		r.checks.Anchors = slices.Clone(s.anchors)
		r.checks.Anchors[i] = &changed
		report := r.run(0)
		if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].What, "is not the one of anchor anchors:") {
			t.Errorf("%s: %v", &changed, report.Problems)
		}
	}
}

// TestDeletionsDoNotFillTheState: of many, what the last one says is kept.
func TestDeletionsDoNotFillTheState(t *testing.T) {
	dir, w, put := seven(t, someKey(3))
	r := newRunner(t, dir)
	r.checks.Keys = keysOf(someKey(3))
	r.run(0)
	size := int64(0)
	for n := uint64(1); n < 60; n++ {
		(&writing{t: t, since: map[*sealtest.Writer]uint64{w: n}}).deleteTo(w, n)
		w.Seal(trailtest.Epoch+int64(100+n)*1e6, "interval", nil)
		w.Rotate(trailtest.Epoch + int64(100+n)*1e6)
		put()
		if report := r.run(0); !report.NothingNew || len(report.Deleted) != 1 || report.Deleted[0].LastSegment != n {
			t.Fatalf("%v, %v, %+v", report.Problems, report.Unreadable, report.Deleted)
		}
		info, err := os.Stat(r.state)
		if err != nil {
			t.Fatal(err)
		}
		if n == 10 {
			size = info.Size()
		} else if n > 10 && info.Size() > size+size/4 {
			t.Fatalf("the state has %d bytes after %d deletions, and had %d", info.Size(), n, size)
		}
	}
}

// TestOnlyWhatIsNewIsRead counts bytes: of what was verified, only headers of segments are read.
func TestOnlyWhatIsNewIsRead(t *testing.T) {
	const segments, blocks, records = 1000, 10, 40
	dir := t.TempDir()
	trailtest.Minutes(t, dir, segments, blocks, records)
	hide := func(n int) string { return fmt.Sprintf("%s/0/%010d.steno", dir, n) }
	away := t.TempDir()
	for n := segments - 2; n <= segments; n++ {
		if err := os.Rename(hide(n), fmt.Sprintf("%s/%d", away, n)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(hide(500))
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, dir)
	if all := trailtest.BytesRead(t, func() { r.run(0) }); all < (segments-3)*info.Size() {
		t.Fatalf("the first run reads only %d bytes", all)
	}
	for n := segments - 2; n <= segments; n++ {
		if err := os.Rename(fmt.Sprintf("%s/%d", away, n), hide(n)); err != nil {
			t.Fatal(err)
		}
	}
	// three new segments, and the last one of the run before, whose blocks are looked for, and read; 64 kB at once are
	// looked through for blocks
	limit := segments*format.EncryptedHeaderSize + 4*2*(info.Size()+64<<10) + 200_000
	for _, c := range []struct {
		full  time.Duration
		limit int64
	}{{0, limit}, {step, limit + 4*(info.Size()+64<<10)}} {
		var report *Report
		read := trailtest.BytesRead(t, func() { report = r.run(c.full) })
		if !report.NothingNew || report.State.NotRead.Segments == 0 {
			t.Fatal(report.Verdict())
		}
		t.Logf("%d bytes of %d", read, segments*info.Size())
		if read > c.limit || c.limit > segments*info.Size()/4 {
			t.Errorf("%d bytes are read, more than %d", read, c.limit)
		}
	}
}

// TestMemoryIsWhatItWas: what is written is read, of any sessions.
func TestMemoryIsWhatItWas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v := newVerifier(&trail.Trail{}, nil, 0, &Checks{})
	for range 1000 {
		id := format.SessionID{Start: int64(r.Uint64()), PID: r.Uint32()}
		switch r.IntN(4) {
		case 0:
			v.finished.remember(id, r.Uint64())
		case 1:
			v.sessions[id] = &session{seen: []format.Span{{First: 1, Last: r.Uint64()}}, ended: r.IntN(2) == 0}
		default:
			v.sessions[id] = &session{seen: []format.Span{{First: 2, Last: 9}}, explained: []format.Span{{First: 1, Last: 1}}, end: r.Uint64()}
		}
	}
	raw, err := json.Marshal(v.memory())
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeMemory(raw)
	if err != nil {
		t.Fatal(err)
	}
	again := newVerifier(&trail.Trail{}, nil, 0, &Checks{Memory: m})
	if !maps.EqualFunc(v.sessions, again.sessions, func(a, b *session) bool {
		return slices.Equal(a.seen, b.seen) && slices.Equal(a.explained, b.explained) && a.ended == b.ended && a.end == b.end
	}) || !maps.Equal(v.finished.last, again.finished.last) || v.finished.count != again.finished.count || !slices.Equal(v.finished.recent, again.finished.recent) {
		t.Error("sessions are not what they were")
	}
}

// FuzzMemory: a memory that anybody has written is restored or refused.
func FuzzMemory(f *testing.F) {
	f.Add([]byte(`{"Streams":{"0":{"Since":1,"Next":3,"Begun":true,"Seals":{}},"7":{}},"Open":"AgIC","Deletions":[{"In":3}],"Branches":[{"In":9}]}`))
	f.Add(binary.AppendUvarint(nil, 7))
	dir, _, _ := seven(f, someKey(3))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeMemory(raw)
		if err != nil || m == nil {
			return
		}
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		m.deletedNext(tr)
		if _, err := Trail(context.Background(), tr, nil, Checks{Memory: m, Keys: keysOf(someKey(3))}); err != nil {
			t.Fatal(err)
		}
	})
}
