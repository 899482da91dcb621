package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// output runs steno in this process.
func output(t *testing.T, args ...string) []byte {
	t.Helper()
	streams, _, out, errOut := iostreams.Test()
	root := cli.New(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	for line := range strings.Lines(errOut.String()) { // a table of the trail is renamed
		if !strings.HasPrefix(line, "steno: incomplete: ") {
			t.Error(line)
		}
	}
	if err != nil {
		t.Fatalf("steno %q: %v\n%s", args, err, errOut)
	}
	return out.Bytes()
}

// commands are those of a report, with the counts that it has beside them.
func commands(value any, all map[string]float64, t *testing.T) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			commands(e, all, t)
		}
	case map[string]any:
		if command, ok := v["command"].(string); ok && v["count"] != nil {
			n := v["count"].(float64)
			if had, ok := all[command]; ok && had != n {
				t.Errorf("%s: %v and %v", command, had, n)
			}
			all[command] = n
		} else if n, ok := v["count"].(float64); ok && n > 0 {
			t.Errorf("no command: %v", v)
		}
		for _, e := range v {
			commands(e, all, t)
		}
	}
}

// TestCommandsOfReportsShowWhatTheyCount runs all commands of reports, as a shell reads them.
func TestCommandsOfReportsShowWhatTheyCount(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "it's; a trail")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	trailtest.Office(t, dir)
	for _, c := range []struct {
		args  []string
		least int
	}{
		{nil, 60},
		{[]string{"--since", "2026-11-20", "--until", "2026-11-23T08:00:02Z", "--time-zone", "Europe/Berlin"}, 60},
		{[]string{"--user", "alice,bob", "--not-class", "misc_set", "--not-command", "GRANT ROLE"}, 30},
		{[]string{"--top-level", "--off-hours", "--grep", "salary|orders", "-i", "--database", "shop"}, 10},
		{[]string{"--failed"}, 15},
	} {
		var report any
		if err := json.Unmarshal(output(t, append([]string{"report", "--format", "json", dir}, c.args...)...), &report); err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		commands(report, all, t)
		if len(all) < c.least {
			t.Errorf("%q: only %d commands", c.args, len(all))
		}
		for command, n := range all {
			words, err := exec.Command(bash, "-c", `steno() { printf '%s\0' "$@"; }; `+command).Output()
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
			if got := bytes.Count(output(t, append(args, "--format", "json")...), []byte("\n")); float64(got) != n {
				t.Errorf("%s: shows %d records, the report has %v", command, got, n)
			}
		}
	}
}
