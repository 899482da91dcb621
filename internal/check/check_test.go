package check

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/statefile"
	"github.com/pg-steno/pg_steno/internal/trail"
)

func TestFailedUnitsAreTold(t *testing.T) {
	unit := func(id, active, file, result string) string {
		return "Id=" + id + "\nLoadState=loaded\nActiveState=" + active + "\nUnitFileState=" + file + "\nResult=" + result + "\n"
	}
	good := unit("steno-verify@15-main.timer", "active", "enabled", "success") + "\n" + unit("steno-verify@15-main.service", "inactive", "static", "success")
	for _, c := range []struct {
		shown string
		level Level
		what  string
	}{
		{"", OK, ""},
		{"Id=steno-old.service\nLoadState=not-found\nActiveState=failed\n", OK, ""},
		{good, OK, "none has failed"},
		{good + "\n" + unit("steno-verify@15-second.service", "failed", "static", "exit-code"), Critical, "steno-verify@15-second.service has failed (exit-code)"},
		{unit("steno-verify@15-main.timer", "inactive", "enabled", "success"), Warning, "steno-verify@15-main.timer is enabled, but not active"},
		{unit("steno-verify@15-main.timer", "inactive", "disabled", "success"), OK, "none has failed"},
	} {
		if level, what := judgeUnits(c.shown); level != c.level || what != c.what {
			t.Errorf("%q: %v %q, want %v %q", c.shown, level, what, c.level, c.what)
		}
	}
}

func TestTheWorstLevelCounts(t *testing.T) {
	for _, c := range [][3]Level{{OK, Unknown, Unknown}, {Unknown, Warning, Warning}, {Warning, Critical, Critical}, {Critical, Unknown, Critical}, {OK, OK, OK}} {
		if worseOf(c[0], c[1]) != c[2] || worseOf(c[1], c[0]) != c[2] {
			t.Errorf("%v and %v are not %v", c[0], c[1], c[2])
		}
	}
}

func TestStateIsKeptOrRefused(t *testing.T) {
	tr := &trail.Trail{Path: t.TempDir()}
	path := filepath.Join(t.TempDir(), "state")
	f, err := openState(path, tr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openState(path, tr); err == nil || !strings.Contains(err.Error(), "another check") {
		t.Errorf("two checks at once: %v", err)
	}
	s, err := f.read()
	if err != nil || !s.Time.IsZero() {
		t.Fatalf("a new state: %v, %v", s, err)
	}
	s.Time, s.Dropped = time.Now(), 7
	s.addAlarm(&alarm{Item: "losses", Level: Critical, What: "x"}, s.Time)
	s.addAlarm(&alarm{Item: "losses", Level: Critical, What: "x"}, s.Time)
	if err := f.write(s); err != nil {
		t.Fatal(err)
	}
	again, err := f.read()
	if err != nil || again.Dropped != 7 || len(again.Alarms) != 1 || again.Alarms[0].Level != Critical || !again.Time.Equal(s.Time) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	f.Close()
	for _, text := range []string{"", "{", "[]", `{"version":2}`, `{"version":1,"alarms":[{"level":"worst"}]}`, strings.Repeat(" ", mostState)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.read(); err == nil || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("a state of %.20q: %v", text, err)
		}
	}
}

// However many warnings there are, what is worse is kept, and so are several of the same kind.
func TestManyAlarmsHideNoWorseOne(t *testing.T) {
	s, now := &state{}, time.Now()
	for i := range 3 * mostAlarms {
		s.addAlarm(&alarm{Item: "recorded", Level: Warning, What: strings.Repeat("x", i)}, now)
	}
	for range 2 {
		s.addAlarm(&alarm{Item: "losses", Level: Critical, What: "7 records dropped"}, now)
	}
	if len(s.Alarms) != mostAlarms+2 {
		t.Errorf("%d alarms are kept", len(s.Alarms))
	}
	if last := s.Alarms[len(s.Alarms)-1]; last.Level != Critical || last.Item != "losses" {
		t.Errorf("the last one is %+v", last)
	}
}

// FuzzState: a state that anybody has written is read or refused.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"positions":[{"stream":0,"segment":1,"block":2,"hash":"00"}],"alarms":[null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		file := &stateFile{File: &statefile.File{Path: path}}
		if s, err := file.read(); err == nil {
			s.anchors()
			s.addAlarm(&alarm{}, time.Now())
		}
	})
}

func TestAnyDurationIsTold(t *testing.T) {
	for d, want := range map[time.Duration]string{
		math.MinInt64: "in 106751 days", -time.Minute: "in 1m0s", 0: "0s", 90 * time.Second: "1m30s", math.MaxInt64: "106751 days",
	} {
		if got := ago(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
	c := &checker{Options: &Options{Now: time.Now()}}
	if early, late := c.since(math.MinInt64), c.since(math.MaxInt64); early <= 0 || -late <= 0 {
		t.Errorf("the first time was %s ago, the last one %s", early, late)
	}
}
