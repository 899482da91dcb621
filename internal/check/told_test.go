package check

import (
	"crypto/ed25519"
	"fmt"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/acknowledge"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// second is one, in the trail's time.
const second = 1_000_000

// checked is a trail that a test writes and checks as a copy, at times that the test chooses.
type checked struct {
	*testing.T
	*sealtest.Writer
	dir, state string
	keys       seal.Keys
	now        int64
	open       func(dir string) (*trail.Trail, error)
}

func privateKey(first byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = first
	return ed25519.NewKeyFromSeed(seed)
}

// unsealed is empty, and checked without a key.
func unsealed(t *testing.T) *checked {
	dir := filepath.Join(t.TempDir(), "trail")
	return &checked{
		T: t, Writer: sealtest.NewWriter(t, dir, 0, privateKey(1)), dir: dir, state: filepath.Join(t.TempDir(), "state"),
		now: trailtest.Epoch, open: func(dir string) (*trail.Trail, error) { return trail.Open(dir) },
	}
}

// newChecked begins with the start of a server, sealed.
func newChecked(t *testing.T, settings ...string) *checked {
	c := unsealed(t)
	public := c.Signs.Public().(ed25519.PublicKey)
	c.keys = seal.Keys{seal.KeyID(public): public}
	c.start(settings...)
	c.Seal(c.now, seal.ReasonStart, nil)
	return c
}

func (c *checked) start(settings ...string) {
	c.event("start", append([]string{"version", "15.8", "run", "1", "steno.signing_key_file", "/key", "steno.seal_interval", "1min"}, settings...)...)
}

// event writes a server record, a second after the one before.
func (c *checked) event(name string, more ...string) {
	c.now += second
	c.Put(&trailtest.Record{Kind: format.KindServer, Session: c.Session, Time: c.now, Extra: append([]string{"event", name}, more...)})
}

func (c *checked) setting(of *trailtest.Session, name, from, to, source string) {
	c.now += second
	c.Put(&trailtest.Record{Kind: format.KindSetting, Session: of, Time: c.now, Shape: &trailtest.Shape{Class: format.ClassSetting}, Extra: []string{"name", name, "old", from, "new", to, "source", source}})
}

// check checks the trail some time after the last record.
func (c *checked) check(after time.Duration, change ...func(*Options)) *Result {
	c.Helper()
	o := &Options{
		Open: func() (*trail.Trail, error) { return c.open(c.dir) }, Keys: maps.Clone(c.keys), State: c.state, Offline: true,
		Remember: 24 * time.Hour, DiskWarning: 101, DiskCritical: 101, SlotWarning: 80, Now: query.Moment(c.now).Add(after),
	}
	for _, f := range change {
		f(o)
	}
	r, err := Run(c.Context(), o)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

// wrong is what is not well: item, level and how.
func wrong(r *Result) string {
	var all []string
	for _, one := range r.Items {
		if one.Level != OK {
			all = append(all, fmt.Sprintf("%s %s: %s", one.Name, one.Level, one.What))
		}
	}
	return strings.Join(all, "; ")
}

// tells expects that one thing is wrong; nothing, if it is empty.
func (c *checked) tells(what, want string, r *Result) {
	c.Helper()
	n := 0
	for _, one := range r.Items {
		if one.Level != OK {
			n++
		}
	}
	if got := wrong(r); n > 1 || (got == "") != (want == "") || !strings.HasPrefix(got, want) {
		c.Errorf("%s: %q, want %q", what, got, want)
	}
}

func metric(r *Result, name string) float64 {
	for _, m := range r.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	return -1
}

// TestWhatRecordsTellIsReported: each kind of loss, and each change of what is recorded, with its level and its number.
func TestWhatRecordsTellIsReported(t *testing.T) {
	bob := func() *trailtest.Session {
		return trailtest.NewSession(trailtest.Epoch, 7, trailtest.Fact{Key: format.KeyUser, Value: "bob"})
	}
	server := func(extra ...string) func(*checked) { return func(c *checked) { c.event(extra[0], extra[1:]...) } }
	set := func(name, from, to string) func(*checked) {
		return func(c *checked) { c.setting(c.Session, name, from, to, "server") }
	}
	of := func(name, from, to string) func(*checked) {
		return func(c *checked) { c.setting(bob(), name, from, to, "session") }
	}
	for _, one := range []struct {
		name   string
		put    func(*checked)
		want   string
		metric string
		value  float64
	}{
		{"dropped", func(c *checked) {
			c.Put(&trailtest.Record{Kind: format.KindGap, Session: bob(), Seq: 6, Time: c.now, Extra: []string{"count", "5", "first_seq", "1", "last_seq", "5", "reason", "ring full"}})
		}, "losses CRITICAL: 5 records dropped, as the trail tells at ", "dropped_records_total", 5},
		{"refused", server("recovered", "refused", "3", "since", "a", "until", "b", "reason", "disk full"), "losses CRITICAL: 3 statements refused from a until b (disk full)", "refused_statements_total", 3},
		{"waited", server("recovered", "refused", "0", "since", "a", "until", "b", "reason", "disk full"), "losses WARNING: the trail could not be written from a until b (disk full)", "refused_statements_total", 0},
		{"lost", server("lost", "stream", "0", "blocks", "3-5"), "losses CRITICAL: blocks 3-5 of stream 0 were lost at ", "lost_blocks_total", 3},
		{"torn", server("torn", "bytes", "77"), "losses WARNING: an unfinished block of 77 bytes was cut off at ", "lost_blocks_total", 0},
		{"a writer was away", server("restart", "writer", "1", "since", "a"), "losses WARNING: writer 1 was not running from a until ", "", 0},
		{"what is no loss", server("salvage", "segments", "1"), "", "", 0},
		{"a setting of the server", set("steno.log_rows", "on", "off"), "recorded WARNING: steno.log_rows was 'on' and became 'off' at ", "", 0},
		{"another setting of the server", set("work_mem", "4MB", "8MB"), "", "", 0},
		{"a setting of a session", of("steno.log_rows", "on", "off"), "recorded WARNING: steno.log_rows was 'on' and became 'off' at ", "", 0},
		{"one that hides nothing", of("steno.app_user", "", "eve"), "", "", 0},
		{"what a session does not record, the server does", of("steno.log", "all", "none"), "recorded WARNING: steno.log was 'all' and became 'none' at 2", "", 0},
		{"failures without a session", of("log_min_messages", "warning", "panic"), "recorded WARNING: log_min_messages was 'warning' and became 'panic' at ", "", 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			c := newChecked(t)
			c.tells("before", "", c.check(second))
			one.put(c)
			c.Seal(c.now, "interval", nil)
			r := c.check(time.Second)
			c.tells("then", one.want, r)
			if one.metric != "" && metric(r, one.metric) != one.value {
				t.Errorf("%s is %v", one.metric, metric(r, one.metric))
			}
			c.tells("seen", "", c.check(2*time.Second, func(o *Options) { o.Forget = true }))
			if r := c.check(3 * time.Second); one.metric != "" && metric(r, one.metric) != one.value {
				t.Errorf("the next time, %s is %v", one.metric, metric(r, one.metric))
			}
		})
	}
}

// TestEffectiveSettingsAreJudged: those of the last start with the changes since, also if that start is segments away.
func TestEffectiveSettingsAreJudged(t *testing.T) {
	const hidden = "recorded WARNING: log_min_messages is 'fatal': statements that fail before they are planned leave no record"
	c := newChecked(t, "log_min_messages", "fatal")
	for range 6 {
		c.event("salvage")
		c.Rotate(c.now)
	}
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	c.tells("from an old start", hidden, c.check(time.Second))
	c.tells("again", hidden, c.check(2*time.Second))
	forget := func(o *Options) { o.Forget = true }
	c.setting(c.Session, "log_min_messages", "fatal", "error", "server")
	c.Seal(c.now, "interval", nil)
	c.check(time.Second)
	c.tells("changed", "", c.check(2*time.Second, forget))
	// what was changed before a start is as the start says
	c.setting(c.Session, "steno.log", "all", "none", "server")
	c.start()
	c.Seal(c.now, "interval", nil)
	c.check(time.Second)
	c.tells("started", "", c.check(2*time.Second, forget))
	c.tells("as expected", "", c.check(2*time.Second, func(o *Options) { o.Expect = []string{"steno.log=all", "steno.seal_interval=60s"} }))
	c.setting(c.Session, "steno.log", "all", "none", "server")
	c.Seal(c.now, "interval", nil)
	c.check(time.Second)
	c.tells("nothing is recorded", "recorded CRITICAL: steno.log is 'none'", c.check(2*time.Second, forget))
	c.tells("which is expected", "", c.check(2*time.Second, func(o *Options) { o.Expect = []string{"steno.log=none"} }))
}

// TestEndsOfRunsAreJudged: by what the record of the next start says, and by what was recovered around it.
func TestEndsOfRunsAreJudged(t *testing.T) {
	start := func(at int64, wal string) moment { return moment{time: at, event: "start", wal: wal} }
	stop := func(at int64, wal string) moment { return moment{time: at, event: "stop", wal: wal} }
	recover := func(at int64) moment { return moment{time: at, event: "recover"} }
	const killed, lost, without = "WARNING the server had ended without a stop", "CRITICAL the server had ended without a stop", "CRITICAL the server may have run without pg_steno"
	for _, one := range []struct {
		name, last string
		moments    []moment
		now, want  string
	}{
		{"nothing is known", "", []moment{start(1, "0/1")}, "start", ""},
		{"stopped and started", "start", []moment{stop(1, "0/1"), start(2, "0/1")}, "start", ""},
		{"stopped", "start", []moment{stop(1, "0/1")}, "stop 0/1", ""},
		{"started since", "stop 0/1", []moment{start(1, "0/1")}, "start", ""},
		{"killed, and recovered before the start's record", "start", []moment{recover(4), start(5, "")}, "start", killed},
		{"killed, and recovered after it", "start", []moment{start(4, ""), recover(5)}, "start", killed},
		{"killed twice", "start", []moment{start(4, ""), recover(5), start(8, ""), recover(9)}, "start", killed + ", " + killed},
		{"recovered by another start", "start", []moment{start(2, ""), start(4, ""), start(6, ""), recover(7)}, "start", lost + ", " + lost + ", " + killed},
		{"killed, and not recovered", "start", []moment{start(5, "")}, "start", lost},
		{"run without", "stop 0/1", []moment{start(1, "")}, "start", without},
		{"run without, elsewhere in its WAL", "start", []moment{start(3, "0/1"), stop(2, "0/2")}, "start", without},
		{"a stop whose position is not known", "start", []moment{stop(1, ""), start(2, "0/1")}, "start", ""},
	} {
		e := &events{moments: one.moments}
		now, all := e.findRuns(one.last)
		var got []string
		for _, a := range all {
			what, _, _ := strings.Cut(a.What, " before ")
			got = append(got, a.Level.String()+" "+what)
		}
		if text := strings.Join(got, ", "); now != one.now || text != one.want {
			t.Errorf("%s: %q and %q, want %q and %q", one.name, now, text, one.now, one.want)
		}
	}
}

// TestMissingSealsAreTold: what is not sealed in time is told, also if a later check reads nothing new, but not of a server
// that was stopped.
func TestMissingSealsAreTold(t *testing.T) {
	const late = "sealed CRITICAL: stream 0 is not sealed since "
	c := newChecked(t)
	c.tells("sealed, and idle for long", "", c.check(time.Hour))
	c.event("salvage")
	first := c.now
	c.tells("not due", "", c.check(50*time.Second))
	c.tells("due, and nothing new", late, c.check(2*time.Minute))
	c.tells("still", late, c.check(3*time.Minute))
	// the first one that is not sealed counts, not the last
	c.now += 119 * second
	c.event("salvage")
	c.tells("late since "+fmt.Sprint(first), late, c.check(time.Second))
	c.Seal(c.now, "interval", nil)
	c.tells("sealed", "", c.check(time.Second))
	c.event("stop", "wal", "0/1")
	c.tells("stopped", "", c.check(time.Hour))

	c = newChecked(t, "steno.signing_key_file", "")
	c.event("salvage")
	c.tells("no key is set", "", c.check(time.Hour))

	c = unsealed(t)
	c.start()
	c.tells("no seal yet", "", c.check(50*time.Second))
	c.tells("never one", "sealed CRITICAL: stream 0 has no seal, although steno.signing_key_file is set", c.check(2*time.Minute))
}

// TestSegmentsBeforeTheNewOnesAreLookedFor: those that are not read must still be what they were.
func TestSegmentsBeforeTheNewOnesAreLookedFor(t *testing.T) {
	five := func(t *testing.T) *checked {
		c := newChecked(t)
		for range 4 {
			c.event("salvage")
			c.Rotate(c.now)
		}
		c.event("salvage")
		c.Seal(c.now, "interval", nil)
		c.tells("all are there", "", c.check(time.Second))
		return c
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	path := func(c *checked, n uint64) string { return c.SegmentPath(n) }
	for name, one := range map[string]struct {
		do   func(c *checked)
		want string
	}{
		"the first is missing":   {func(c *checked) { must(os.Remove(path(c, 1))) }, "intact CRITICAL: segments before 2 of stream 0 are missing, and were not deleted by retention"},
		"two are missing":        {func(c *checked) { must(os.Remove(path(c, 2))); must(os.Remove(path(c, 3))) }, "intact CRITICAL: segments 2 to 3 of stream 0 are missing"},
		"one is no segment":      {func(c *checked) { must(os.WriteFile(path(c, 3), []byte("no segment"), 0o600)) }, "intact CRITICAL: "},
		"one is another segment": {func(c *checked) { must(os.Remove(path(c, 3))); must(os.Link(path(c, 2), path(c, 3))) }, "intact CRITICAL: "},
		"deleted by retention": {func(c *checked) {
			c.Delete(t, c.Session, c.Stream, 1, 2)
			must(os.Remove(path(c, 1)))
			must(os.Remove(path(c, 2)))
		}, ""},
		"deleted for less than is missing": {func(c *checked) {
			c.Delete(t, c.Session, c.Stream, 1, 2)
			for n := range uint64(3) {
				must(os.Remove(path(c, n+1)))
			}
		}, "intact CRITICAL: segments before 4 of stream 0 are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			c := five(t)
			one.do(c)
			r := c.check(2 * time.Second)
			c.tells("then", one.want, r)
			if one.want == "" {
				return
			}
			c.tells("again", one.want, c.check(3*time.Second))
			if strings.HasSuffix(name, "another segment") && !strings.Contains(wrong(r), "its header is that of segment 2 of stream 0") {
				t.Errorf("%s", wrong(r))
			}
		})
	}
}

// TestDeletedBeforeTheyWereReadIsTold: what retention deletes between two checks, no check has seen.
func TestDeletedBeforeTheyWereReadIsTold(t *testing.T) {
	c := newChecked(t)
	c.check(time.Second)
	for range 3 {
		c.event("salvage")
		c.Rotate(c.now)
	}
	c.Delete(t, c.Session, c.Stream, 1, 3)
	for n := range uint64(3) {
		if err := os.Remove(c.SegmentPath(n + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := wrong(c.check(time.Second)); !strings.Contains(got, "losses WARNING: blocks 3 to ") || !strings.Contains(got, " of stream 0 were deleted before a check has read them") {
		t.Errorf("%q", got)
	}
}

// TestDeletionsInSpiteOfSlotsAreTold, once, and those of a policy are not.
func TestDeletionsInSpiteOfSlotsAreTold(t *testing.T) {
	for reason, want := range map[string]string{
		"age": "", "slot_max_size": "kept CRITICAL: segments 1 to 1 of stream 0 were deleted at 2026-11-21T20:45:13.000000Z although a slot needed them", "slot_max_size repeated": "",
	} {
		c := newChecked(t)
		c.Rotate(c.now)
		c.event("salvage")
		c.Seal(c.now, "interval", nil)
		c.check(time.Second)
		d := c.Delete(t, c.Session, c.Stream, 1, 1)
		c.event("salvage")
		c.Seal(c.now, "interval", nil)
		c.check(time.Second)
		first, repeated, _ := strings.Cut(reason, " ")
		d.Reason = first
		extra := trailtest.DeletionExtra(&d)
		if repeated != "" {
			extra = append(extra, repeated, "1")
		}
		c.Put(&trailtest.Record{Kind: format.KindServer, Session: c.Session, Time: d.Time, Extra: extra})
		c.Seal(c.now, "interval", nil)
		c.tells(reason, want, c.check(2*time.Second))
	}
}

// TestKeptRecordsAreOldEnough: the first segment that is left must be as old as what has to be kept.
func TestKeptRecordsAreOldEnough(t *testing.T) {
	keep := func(o *Options) { o.Keep = time.Hour }
	c := newChecked(t)
	c.tells("nothing was deleted", "", c.check(time.Second, keep))
	c.Rotate(c.now)
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	c.tells("there are two", "", c.check(time.Second, keep))
	c.Delete(t, c.Session, c.Stream, 1, 1)
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	if err := os.Remove(c.SegmentPath(1)); err != nil {
		t.Fatal(err)
	}
	c.tells("too early", "kept CRITICAL: records were deleted that must be kept for 1h0m0s: stream 0 begins ", c.check(time.Second, keep))
	c.tells("old enough", "", c.check(2*time.Hour, keep))
}

// TestAlarmsEnd: losses after a while, damage with its file, and neither in the check that finds it.
func TestAlarmsEnd(t *testing.T) {
	c := newChecked(t)
	c.check(time.Second)
	c.event("torn", "bytes", "77")
	c.Seal(c.now, "interval", nil)
	const torn = "losses WARNING: an unfinished block of 77 bytes was cut off at "
	c.tells("found", torn, c.check(time.Second, func(o *Options) { o.Forget = true }))
	c.tells("told for a day", torn, c.check(23*time.Hour))
	c.tells("and no longer", "", c.check(25*time.Hour))
	c.tells("the first check has no news", "", func() *Result {
		c := newChecked(t)
		c.setting(c.Session, "steno.log_rows", "on", "off", "server")
		c.Seal(c.now, "interval", nil)
		return c.check(time.Second)
	}())

	// damage in what is not read again
	c.Rotate(c.now)
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	image, err := os.ReadFile(c.SegmentPath(1))
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte{}, image...)
	broken[len(broken)-9] ^= 1
	write := func(image []byte) {
		if err := os.WriteFile(c.SegmentPath(1), image, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(broken)
	const damage = ": checksum of the payload does not match"
	if got := wrong(c.check(26 * time.Hour)); !strings.Contains(got, damage) {
		t.Errorf("damaged: %s", got)
	}
	write(image)
	if got := wrong(c.check(100 * time.Hour)); !strings.Contains(got, damage+" (found ") {
		t.Errorf("it was damaged: %s", got)
	}
	c.tells("which was seen", "", c.check(101*time.Hour, func(o *Options) { o.Forget = true }))
}

// TestOlderCopiesStayTold: a trail that ends before what was checked is told by each check, until somebody has seen it.
func TestOlderCopiesStayTold(t *testing.T) {
	c := newChecked(t)
	older, err := os.ReadFile(c.SegmentPath(1))
	if err != nil {
		t.Fatal(err)
	}
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	c.tells("as it was", "", c.check(time.Second))
	if err := os.WriteFile(c.SegmentPath(1), older, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got := wrong(c.check(time.Duration(i) * time.Minute)); strings.Count(got, "or the trail is an older copy") != 1 {
			t.Errorf("check %d: %s", i, got)
		}
	}
	c.check(time.Hour, func(o *Options) { o.Forget = true })
	c.tells("which was seen", "", c.check(2*time.Hour, func(o *Options) { o.Forget = true }))
}

// TestEncryptedRecordsAreNotKnown: without their key, a check says nothing of losses that they may tell.
func TestEncryptedRecordsAreNotKnown(t *testing.T) {
	c := newChecked(t)
	c.Stream.Key = new([32]byte)
	c.Rotate(c.now)
	c.event("salvage")
	c.tells("without the key", "intact UNKNOWN: ", c.check(time.Second))
}

// TestKeysOfLaterSealsAreKept: a key that a seal has named is trusted by the checks that do not read that seal.
func TestKeysOfLaterSealsAreKept(t *testing.T) {
	c := newChecked(t)
	c.check(time.Second)
	c.event("salvage")
	c.Seal(c.now, "key", privateKey(2))
	c.Rotate(c.now)
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	c.tells("named", "", c.check(time.Second))
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	c.tells("and then", "", c.check(time.Second))
	c.Signs = privateKey(3)
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	c.tells("not named", "intact UNKNOWN: ", c.check(time.Second))
}

// TestClocksThatAreAheadAreTold: a last record in the future hides how old it is.
func TestClocksThatAreAheadAreTold(t *testing.T) {
	c := newChecked(t)
	c.tells("a bit", "", c.check(-30*time.Second))
	c.tells("much", "written WARNING: the last record is 5m0s ahead of this machine's clock", c.check(-5*time.Minute))
}

// TestDamageIsTheSameAtAnotherTime: it is kept once, however often it is found.
func TestDamageIsTheSameAtAnotherTime(t *testing.T) {
	s := &state{}
	for _, at := range []string{"2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.5Z"} {
		s.addAlarm(&alarm{Item: "intact", What: "block 7 of the last check, " + at + ", does not exist"}, time.Now())
		s.addAlarm(&alarm{Item: "intact", What: "at " + at, File: "a"}, time.Now())
		s.addAlarm(&alarm{Item: "losses", What: "lost at " + at}, time.Now())
	}
	if len(s.Alarms) != 5 {
		t.Errorf("%d are kept: %v", len(s.Alarms), s.Alarms)
	}
	for i := range 2 * mostAlarms {
		s.addAlarm(&alarm{Item: "losses", What: fmt.Sprint(i)}, time.Now())
	}
	if n := len(s.Alarms); n != mostAlarms+1 || s.Alarms[n-1].What != "and more" {
		t.Errorf("%d are kept, the last one %v", n, s.Alarms[n-1])
	}
}

// TestOutputsAreRead: by people, Nagios and Prometheus, whatever names have.
func TestOutputsAreRead(t *testing.T) {
	r := &Result{Trail: `/a"b\c`, showAll: ": --verbose"}
	for i := range 6 {
		r.add("losses", Critical, "a|b %d", i)
	}
	r.add("disk", OK, "1 %% used")
	r.Metrics = []Metric{{Name: "slot_behind_bytes", Label: "x", Value: 5, kind: "gauge", unit: "B", help: "h"}, {Name: "slot_behind_bytes", Label: "y", Value: 6, kind: "gauge", unit: "B", help: "h"}}
	var text, prometheus strings.Builder
	if err := r.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	if want := "STENO CRITICAL - losses: a/b 0; losses: a/b 1; losses: a/b 2; losses: a/b 3; and 2 more: --verbose | slot_behind_bytes_x=5B slot_behind_bytes_y=6B\n"; text.String() != want {
		t.Errorf("%q, want %q", &text, want)
	}
	if err := r.WritePrometheus(&prometheus); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`steno_check_item_level{trail="/a\"b\\c",item="losses"} 2`, `steno_check_item_level{trail="/a\"b\\c",item="disk"} 0`, `steno_slot_behind_bytes{trail="/a\"b\\c",name="y"} 6`, "# TYPE steno_slot_behind_bytes gauge"} {
		if strings.Count(prometheus.String(), line+"\n") != 1 {
			t.Errorf("%s is not there once:\n%s", line, &prometheus)
		}
	}
}

// TestAcknowledgedDamageIsNotTold: also if an earlier version of this program has found it, which kept only what it is
// called. What somebody has seen, or what is no longer there, is not damage of this check.
func TestAcknowledgedDamageIsNotTold(t *testing.T) {
	c := newChecked(t)
	c.check(time.Second)
	c.event("salvage")
	c.Seal(c.now, "interval", nil)
	image, err := os.ReadFile(c.SegmentPath(1))
	if err != nil {
		t.Fatal(err)
	}
	image[len(image)-9] ^= 1
	if err := os.WriteFile(c.SegmentPath(1), image, 0o600); err != nil {
		t.Fatal(err)
	}
	const damage = "intact CRITICAL: "
	if got := wrong(c.check(time.Second)); !strings.HasPrefix(got, damage) {
		t.Errorf("damaged: %q", got)
	}
	whole := func(what string, r *Result) {
		t.Helper()
		c.tells(what, "", r)
		if !slices.ContainsFunc(r.Items, func(i Item) bool { return i.Name == "intact" }) {
			t.Errorf("%s: nothing says whether it is intact: %v", what, r.Items)
		}
	}
	found, err := os.ReadFile(c.state)
	if err != nil {
		t.Fatal(err)
	}
	restore := func(state []byte) {
		if err := os.WriteFile(c.state, state, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	old := regexp.MustCompile(`,"problem":\{[^{}]*\}`).ReplaceAll(found, nil)
	if len(old) == len(found) {
		t.Fatalf("the state has no problem: %s", found)
	}
	tr, err := c.open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := verify.Trail(c.Context(), tr, nil, verify.Checks{Keys: c.keys})
	if err == nil {
		err = r.Acknowledge(tr, nil)
	}
	if err != nil || len(r.Problems) == 0 {
		t.Fatal(err, r)
	}
	path, err := acknowledge.Path(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	list := new(acknowledge.List)
	for i := range r.Problems {
		e, err := r.Bind(c.dir, &r.Problems[i])
		if err == nil {
			err = list.Add(path, e, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	unsigned := func(o *Options) { o.By = nil }
	for name, state := range map[string][]byte{"found by this version": found, "found by an earlier one": old} {
		restore(state)
		whole(name, c.check(10*time.Second, unsigned))
	}
	signed := func(o *Options) { o.By = c.keys }
	restore(found)
	if got := wrong(c.check(10*time.Second, signed)); !strings.Contains(got, damage) {
		t.Errorf("not by one who may: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	// it is in a segment that is not read again
	restore(found)
	image[len(image)-9] ^= 1
	if err := os.WriteFile(c.SegmentPath(1), image, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := wrong(c.check(30 * time.Second)); !strings.HasPrefix(got, damage) || !strings.Contains(got, "found 29s ago") {
		t.Errorf("it was damaged: %q", got)
	}
	whole("which was seen", c.check(40*time.Second, func(o *Options) { o.Forget = true }))
}
