package cmdutil

import (
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// TestEachHoleIsToldOnce: a segment that went is told of once, whatever was wanted of it; two holes of a stream are two lines.
func TestEachHoleIsToldOnce(t *testing.T) {
	io, _, _, errOut := iostreams.Test()
	w := &Warner{IO: io}
	hole := func(first uint64) error {
		return &format.Problem{Class: format.ProblemMissing, File: "trail/0", Offset: format.NoOffset, Segment: first, Reason: "segments are missing"}
	}
	gone := func(what string) error {
		return &format.Problem{Class: format.ProblemDeleted, File: "trail/0/0000000001.steno", Offset: format.NoOffset, Segment: 1, Reason: what}
	}
	for _, err := range []error{hole(3), hole(7), gone("the segment was deleted"), gone("a block was deleted")} {
		w.Warn(err)
	}
	want := "steno: damaged: trail/0: segments are missing\nsteno: damaged: trail/0: segments are missing\n" +
		"steno: deleted: trail/0/0000000001.steno: the segment was deleted\n"
	if got := errOut.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !w.Damaged() || w.Unread() {
		t.Errorf("damaged: %v, unread: %v", w.Damaged(), w.Unread())
	}
}
