package verify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/acknowledge"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// TestAcknowledgmentOfSomethingAbsentIsBound has trails that lack the same segment: an acknowledgment for one of them
// counts neither in that of another server nor where a stream goes less far, or ends with another block.
func TestAcknowledgmentOfSomethingAbsentIsBound(t *testing.T) {
	s := newSuite(t)
	verify := func(dirs ...string) *Report {
		var trails []*trail.Trail
		for _, dir := range dirs {
			one, err := trail.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			trails = append(trails, one)
		}
		one := trail.Join(trails...)
		r, err := Trail(context.Background(), one, nil, Checks{})
		if err == nil {
			err = r.Acknowledge(one, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	lacking := func(f files) string {
		dir := filepath.Join(t.TempDir(), "trail")
		f.write(t, dir)
		if err := os.Remove(filepath.Join(dir, "0", "0000000001.steno")); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	missing := func(r *Report) *Problem {
		for i := range r.Problems {
			if strings.Contains(r.Problems[i].What, "segment 1 is missing") {
				return &r.Problems[i]
			}
		}
		return nil
	}
	acknowledged := func(dir string, r *Report, change func(*acknowledge.Entry)) *Report {
		p := missing(r)
		if p == nil {
			t.Fatalf("no segment is missing: %v", r.Problems)
		}
		e, err := r.Bind(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		if e.Size != 0 || len(e.Ends) == 0 {
			t.Fatalf("bound to %d bytes and %v", e.Size, e.Ends)
		}
		change(e)
		path, err := acknowledge.Path(dir)
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
		if err := new(acknowledge.List).Add(path, e, nil); err != nil {
			t.Fatal(err)
		}
		return verify(dir)
	}
	dir := lacking(s.original)
	before := verify(dir)
	as := acknowledged(dir, before, func(*acknowledge.Entry) {})
	if missing(as) != nil || len(as.Acknowledged) != 1 || as.Whole {
		t.Fatalf("acknowledged: %v", as.Problems)
	}
	shorter := acknowledged(dir, before, func(e *acknowledge.Entry) { e.Ends[0].Block-- })
	if missing(shorter) != nil {
		t.Errorf("a stream that goes on: %v", shorter.Problems)
	}
	for note, change := range map[string]func(*acknowledge.Entry){
		"ended with block": func(e *acknowledge.Entry) { e.Ends[0].Block++ },
		"was changed since": func(e *acknowledge.Entry) {
			e.Ends[0].Hash = strings.Repeat("0", 64)
		},
		"another server": func(e *acknowledge.Entry) { e.System = "1" },
	} {
		if p := missing(acknowledged(dir, before, change)); p == nil || !strings.Contains(p.Note, note) {
			t.Errorf("%s: %v", note, p)
		}
	}
	// Each trail has its own ends, also if several are verified together.
	acknowledged(dir, before, func(*acknowledge.Entry) {})
	other := lacking(s.otherServer(t, 4711))
	for _, r := range []*Report{verify(dir, other), verify(other, dir)} {
		if p := missing(r); len(r.Acknowledged) != 1 || p == nil || p.Note != "" {
			t.Errorf("with the trail of another server: %v, %v", r.Problems, r.Acknowledged)
		}
	}
	// The file of one server beside the trail of another one.
	from, _ := acknowledge.Path(dir)
	to, _ := acknowledge.Path(other)
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := missing(verify(other)); p == nil || !strings.Contains(p.Note, "another server") {
		t.Errorf("beside the trail of another server: %v", p)
	}
}

// TestSignedAcknowledgmentsCountFirst: a later one without a signature does not replace it; a later one with a signature does.
func TestSignedAcknowledgmentsCountFirst(t *testing.T) {
	dir := t.TempDir()
	for reasons, want := range map[string]string{"a b": "b", "A b": "A", "A b C": "C", "a B c": "B"} {
		r := &Report{Problems: []Problem{{ID: "1", What: "it is wrong"}}}
		var entries []*acknowledge.Entry
		for _, reason := range strings.Fields(reasons) {
			e := &acknowledge.Entry{System: "0", Problem: "1", Reason: reason}
			if reason < "a" {
				e.Key = "0123456789abcdef"
			}
			entries = append(entries, e)
		}
		if err := r.applyAcknowledgments(dir, entries, false); err != nil || len(r.Acknowledged) != 1 || r.Acknowledged[0].Reason != want {
			t.Errorf("%s: %v, %+v", reasons, err, r.Acknowledged)
		}
	}
}

// TestUnlistedProblemsAreNews acknowledges nothing of what was not listed.
func TestUnlistedProblemsAreNews(t *testing.T) {
	r := &Report{MoreProblems: 1}
	if err := r.Acknowledge(&trail.Trail{}, nil); err != nil || r.Whole || r.NothingNew || !r.Damaged() {
		t.Errorf("%v: %+v", err, r)
	}
}
