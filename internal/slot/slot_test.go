package slot

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

const second = 1_000_000

// NewCmdSlot is "steno slot": the tests run its commands.
var NewCmdSlot func(*cmdutil.Factory) *cobra.Command

// writeTrail writes two streams of three segments with two blocks each, a second
// after each other.
func writeTrail(t *testing.T) string {
	dir := t.TempDir()
	now := trailtest.Epoch
	for number := range uint32(2) {
		s := trailtest.NewStream(t, dir, number)
		session := trailtest.NewSession(trailtest.Epoch, number+1)
		for i := range 3 {
			if i > 0 {
				s.Rotate(t, now)
			}
			for range 2 {
				b := trailtest.NewBuilder(now)
				b.Add(&trailtest.Record{Kind: format.KindNote, Session: session, Time: now, Text: "x"})
				s.Write(t, b)
				now += second
			}
		}
	}
	return dir
}

// run runs a subcommand.
func run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	streams, _, stdout, _ := iostreams.Test()
	cmd := NewCmdSlot(&cmdutil.Factory{IO: streams})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return stdout.String(), err
}

func positions(t *testing.T, dir, name string) []Position {
	t.Helper()
	folder, err := private.OpenDir(filepath.Join(dir, "slots"))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	s, err := read(folder, name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Positions
}

func TestSlotsBeginAtTheStartOrTheEnd(t *testing.T) {
	dir := writeTrail(t)
	for from, want := range map[string][]Position{
		"start": {{0, 1, 1}, {1, 1, 1}},
		"end":   {{0, 3, 7}, {1, 3, 7}},
	} {
		if _, err := run(t, "create", from, dir, "--from", from); err != nil {
			t.Fatal(err)
		}
		if got := positions(t, dir, from); !slices.Equal(got, want) {
			t.Errorf("%s: %v", from, got)
		}
	}
	path := filepath.Join(dir, "slots", "start")
	text, _ := os.ReadFile(path)
	if want := "stream 0 segment 1 block 1\nstream 1 segment 1 block 1\n"; !strings.HasPrefix(string(text), "pg_steno slot 1\ncreated ") || !strings.HasSuffix(string(text), want) {
		t.Errorf("file: %q", text)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "slots", ".*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if tr, _ := trail.Open(dir); len(tr.Foreign) != 0 {
		t.Errorf("foreign: %v", tr.Foreign)
	}
}

func TestSlotsAdvance(t *testing.T) {
	moment := func(seconds int64) string {
		return time.Unix(946684800+trailtest.Epoch/second+seconds, 0).UTC().Format(time.RFC3339)
	}
	for to, want := range map[string][]Position{
		"0/2/3,1/3":   {{0, 2, 3}, {1, 3, 5}},
		"0/3/7,1/3/7": {{0, 3, 7}, {1, 3, 7}},
		"0/3":         {{0, 3, 5}, {1, 1, 1}},
		"1/2":         {{0, 1, 1}, {1, 2, 3}},
		"1/2/4":       {{0, 1, 1}, {1, 2, 4}},
		"1/3/7":       {{0, 1, 1}, {1, 3, 7}},
		moment(3):     {{0, 2, 4}, {1, 1, 1}},
		moment(11):    {{0, 3, 7}, {1, 3, 6}},
	} {
		dir := writeTrail(t)
		run(t, "create", "a", dir)
		if _, err := run(t, "advance", "a", dir, "--to", to); err != nil {
			t.Errorf("%s: %v", to, err)
		}
		if got := positions(t, dir, "a"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", to, got)
		}
	}
}

func TestMomentsAcknowledgeNothingThatMayBeUnread(t *testing.T) {
	dir := writeTrail(t)
	run(t, "create", "a", dir)
	start := positions(t, dir, "a")
	// a moment behind all that is there is the end: who knows whether it was read?
	beyond := render.Time(trailtest.Epoch + 99*second)
	for to, want := range map[string]string{
		beyond: "the trail contains nothing that ended at", "now": "is not over yet", "0s": "is not over yet", "9999-01-01": "is not over yet",
	} {
		if _, err := run(t, "advance", "a", dir, "--to", to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
		if got := positions(t, dir, "a"); !slices.Equal(got, start) {
			t.Errorf("%s: %v", to, got)
		}
	}
	if _, err := run(t, "advance", "a", dir, "--to", beyond, "--force"); err != nil {
		t.Error(err)
	}
	if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 3, 7}, {1, 3, 7}}) {
		t.Errorf("forced: %v", got)
	}
	if _, err := run(t, "advance", "a", dir, "--to", beyond); err != nil {
		t.Errorf("a slot that is there already: %v", err)
	}
}

func TestMomentsDoNotPassWhatCannotBeRead(t *testing.T) {
	dir := writeTrail(t)
	run(t, "create", "a", dir)
	if err := os.WriteFile(filepath.Join(dir, "0", "0000000002.steno"), bytes.Repeat([]byte("x"), 500), 0o600); err != nil {
		t.Fatal(err)
	}
	to := render.Time(trailtest.Epoch + 11*second)
	if _, err := run(t, "advance", "a", dir, "--to", to); err == nil || !strings.Contains(err.Error(), "0000000002.steno") {
		t.Errorf("%v", err)
	}
	if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 1, 1}, {1, 1, 1}}) {
		t.Errorf("moved to %v", got)
	}
}

func TestSlotsDoNotGoBackwardsByChance(t *testing.T) {
	dir := writeTrail(t)
	run(t, "create", "a", dir, "--from", "end")
	for _, to := range []string{"start", "0/2", "1/3/6", "2001-01-01"} {
		_, err := run(t, "advance", "a", dir, "--to", to)
		if to != "2001-01-01" && (err == nil || !strings.Contains(err.Error(), "would move backwards in stream")) {
			t.Errorf("%s: %v", to, err)
		}
		if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 3, 7}, {1, 3, 7}}) {
			t.Errorf("%s: %v", to, got)
		}
	}
	if _, err := run(t, "advance", "a", dir, "--to", "0/2", "--force"); err != nil {
		t.Error(err)
	}
	if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 2, 3}, {1, 3, 7}}) {
		t.Errorf("forced: %v", got)
	}
	if _, err := run(t, "advance", "a", dir, "--to", "2001-01-01", "--force"); err != nil {
		t.Error(err)
	}
	if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 1, 1}, {1, 1, 1}}) {
		t.Errorf("forced to a moment: %v", got)
	}
}

func TestLostSlotsSaySo(t *testing.T) {
	dir := writeTrail(t)
	run(t, "create", "a", dir)
	os.Remove(filepath.Join(dir, "0", "0000000001.steno"))
	out, err := run(t, "list", dir, "--format", "json")
	if !errors.Is(err, exit.ErrFailed) || !strings.Contains(out, `"name":"a","state":"lost"`) || !strings.Contains(out, `{"stream":1,"state":"active"`) {
		t.Errorf("%s %v", out, err)
	}
	if _, err := run(t, "advance", "a", dir, "--to", "1/2"); err == nil || !strings.Contains(err.Error(), `slot "a" is lost: it needs segment 1 of stream 0, but the first existing one is 2`) {
		t.Error(err)
	}
	if _, err := run(t, "advance", "a", dir, "--to", "1/2", "--force"); err != nil {
		t.Error(err)
	}
	if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 2, 3}, {1, 2, 3}}) {
		t.Errorf("got %v", got)
	}
}

func TestWrongUseIsRefused(t *testing.T) {
	dir := writeTrail(t)
	run(t, "create", "a", dir)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "a", dir}, `slot "a" already exists`},
		{[]string{"create", "A", dir}, `invalid slot name "A"`},
		{[]string{"create", "../x", dir}, "invalid slot name"},
		{[]string{"create", strings.Repeat("a", 64), dir}, "invalid slot name"},
		{[]string{"create", "b", dir, "--from", "here"}, `--from: "here" is neither start nor end`},
		{[]string{"create", "b", filepath.Join(dir, "0")}, "is not the directory of a trail"},
		{[]string{"create", "b", t.TempDir()}, "is not the directory of a trail"},
		{[]string{"drop", "b", dir}, `slot "b" does not exist`},
		{[]string{"advance", "b", dir, "--to", "0/2"}, `slot "b" does not exist`},
		{[]string{"advance", "a", dir, "--to", "end"}, "the current end may be beyond what your reader has read"},
		{[]string{"advance", "a", dir, "--to", "0/2,1"}, `invalid position "0/2,1"`},
		{[]string{"advance", "a", dir, "--to", "0/2,1/9"}, "segment 9 of stream 1 does not exist"},
		{[]string{"advance", "a", dir}, "specify a position with --to"},
		{[]string{"advance", "a", dir, "--to", "soon"}, `invalid position "soon"`},
		{[]string{"advance", "a", dir, "--to", "0/0"}, `invalid position "0/0"`},
		{[]string{"advance", "a", dir, "--to", "5/1"}, "stream 5 is not in the trail"},
		{[]string{"advance", "a", dir, "--to", "0/9"}, "segment 9 of stream 0 does not exist: there are segments 1 to 3"},
		{[]string{"advance", "a", dir, "--to", "0/2/9"}, "block 9 is not in segment 2 of stream 0, which has the blocks from 3 up to 4"},
		{[]string{"list", dir, "--format", "xml"}, `invalid format "xml"`},
	} {
		if _, err := run(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if got := positions(t, dir, "a"); !slices.Equal(got, []Position{{0, 1, 1}, {1, 1, 1}}) {
		t.Errorf("changed by what was refused: %v", got)
	}
}

func TestUnreadableSlotsAreShownAndCanBeDropped(t *testing.T) {
	dir := writeTrail(t)
	run(t, "create", "a", dir)
	os.WriteFile(filepath.Join(dir, "slots", "b"), []byte("pg_steno slot 9\n"), 0o600)
	out, err := run(t, "list", dir)
	if err != exit.ErrFailed || !strings.Contains(out, "b     unreadable") || !strings.Contains(out, "a     active") {
		t.Errorf("%s%v", out, err)
	}
	if _, err := run(t, "advance", "b", dir, "--to", "0/2"); err == nil {
		t.Error("an unreadable slot was advanced")
	}
	if _, err := run(t, "drop", "b", dir); err != nil {
		t.Error(err)
	}
	if _, err := run(t, "list", dir); err != nil {
		t.Error(err)
	}
}

func TestSlotFilesHaveOneSpelling(t *testing.T) {
	const good = "pg_steno slot 1\ncreated 5\nstream 0 segment 1 block 1\n"
	if _, p, err := parse([]byte(good)); err != nil || len(p) != 1 {
		t.Error(err)
	}
	for _, bad := range []string{
		"", "pg_steno slot 1\n", "pg_steno slot 2\ncreated 5\n", good[:len(good)-1], good + "\n", good + "stream 0 segment 1 block 1\n",
		strings.Replace(good, "segment 1", "segment 01", 1), strings.Replace(good, "segment 1", "segment 0", 1),
		strings.Replace(good, "block 1", "block -1", 1), strings.ReplaceAll(good, "\n", "\r\n"),
	} {
		if _, _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a slot", bad)
		}
	}
}

func FuzzSlot(f *testing.F) {
	corpus, _ := filepath.Glob(filepath.Join(trailtest.Unpack(f, "../../core/fuzz/corpus.tar.gz"), "slot", "*"))
	if len(corpus) < 3 {
		f.Fatal("no corpus")
	}
	for _, path := range corpus {
		text, _ := os.ReadFile(path)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		created, positions, err := parse(text)
		if err != nil {
			return
		}
		s := Slot{Created: created, Positions: positions}
		if again := s.encode(); !bytes.Equal(again, text) {
			t.Errorf("%q was read, %q written", text, again)
		}
		if s.positionIn(math.MaxUint32).Segment == 0 {
			t.Error("wants nothing")
		}
	})
}

// TestSlotsAreNotWrittenThroughLinks has the trail's owner put links where a slot is
// written, which root may do.
func TestSlotsAreNotWrittenThroughLinks(t *testing.T) {
	dir, elsewhere := writeTrail(t), t.TempDir()
	secret := filepath.Join(elsewhere, "secret")
	os.WriteFile(secret, []byte("secret"), 0o600)
	same := func(what string) {
		t.Helper()
		if b, _ := os.ReadFile(secret); string(b) != "secret" {
			t.Errorf("%s: the file is now %q", what, b)
		}
		info, _ := os.Stat(secret)
		if owner, ok := private.OwnerOf(info); owner.UID != uint32(os.Geteuid()) || !ok {
			t.Errorf("%s: the file was given away", what)
		}
	}
	os.Symlink(elsewhere, filepath.Join(dir, "slots"))
	if _, err := run(t, "create", "siem", dir); err == nil {
		t.Error("a slot was made behind a link")
	}
	if left, _ := os.ReadDir(elsewhere); len(left) != 1 {
		t.Errorf("made where the link leads: %v", left)
	}
	os.Remove(filepath.Join(dir, "slots"))
	os.Mkdir(filepath.Join(dir, "slots"), 0o700)
	if os.Geteuid() == 0 {
		os.Chown(filepath.Join(dir, "slots"), 65534, 65534)
	}
	for _, name := range []string{".siem.new", ".feed.new"} {
		make := os.Link
		if name == ".feed.new" {
			make = os.Symlink
		}
		if err := make(secret, filepath.Join(dir, "slots", name)); err != nil {
			t.Fatal(err)
		}
		slot := name[1 : len(name)-4]
		if _, err := run(t, "create", slot, dir); err != nil {
			t.Errorf("%s: %v", slot, err)
		}
		same(name)
		if len(positions(t, dir, slot)) != 2 {
			t.Errorf("%s: it is not there", slot)
		}
	}
	// nor read: what it says could be anything
	os.Symlink(secret, filepath.Join(dir, "slots", "other"))
	if _, err := run(t, "advance", "other", dir, "--to", "end"); err == nil {
		t.Error("a link was taken for a slot")
	}
	same("advance")
	if os.Geteuid() == 0 {
		info, _ := os.Stat(filepath.Join(dir, "slots", "siem"))
		if owner, ok := private.OwnerOf(info); owner.UID != 65534 || !ok {
			t.Errorf("the slot belongs to %d", owner.UID)
		}
	}
}

// TestFeedsEndWhenTheirSlotIsMoved: two readers of one slot, or a slot that was moved by hand.
func TestFeedsEndWhenTheirSlotIsMoved(t *testing.T) {
	dir := writeTrail(t)
	if _, err := run(t, "create", "a", dir); err != nil {
		t.Fatal(err)
	}
	open := func() *Feed {
		t.Helper()
		f, err := OpenFeed(dir, "a")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one, two := open(), open()
	first := []trail.Place{{Stream: 0, Segment: 1, Block: 2}}
	if err := one.Advance(first); err != nil {
		t.Fatal(err)
	}
	if err := one.Advance(first); err != nil {
		t.Fatal(err)
	}
	if err := two.Advance(first); err == nil || !strings.Contains(err.Error(), "was moved by another process") {
		t.Errorf("the other reader: %v", err)
	}
	// A place before the slot leaves it where it is, in its stream alone.
	if err := one.Advance([]trail.Place{{Stream: 0, Segment: 1, Block: 1}, {Stream: 7, Segment: 3, Block: 9}}); err != nil {
		t.Fatal(err)
	}
	if p := positions(t, dir, "a"); !slices.Contains(p, Position{0, 1, 2}) || !slices.Contains(p, Position{7, 3, 9}) {
		t.Errorf("the slot is at %v", p)
	}
	if n := open().From(7); n != 9 {
		t.Errorf("a feed begins with block %d", n)
	}
	if _, err := run(t, "drop", "a", dir); err != nil {
		t.Fatal(err)
	}
	if err := one.Advance([]trail.Place{{Stream: 0, Segment: 1, Block: 3}}); err == nil || !strings.Contains(err.Error(), "was dropped") {
		t.Errorf("without a slot: %v", err)
	}
}
