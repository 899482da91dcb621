package export

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestErrorsNameTheFlags: of paths, unfinished exports and slots, whose errors come from a library.
func TestErrorsNameTheFlags(t *testing.T) {
	golden := trailtest.Golden(t) + "/kinds"
	run := func(args ...string) error {
		streams, _, _, _ := iostreams.Test()
		cmd := NewCmdExport(&cmdutil.Factory{IO: streams, SlotBlocks: slot.NeededBlocks}, nil)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{"--format", "jsonl"}, args...))
		return cmd.Execute()
	}
	dir := t.TempDir()
	file, done, begun := filepath.Join(dir, "file"), filepath.Join(dir, "done"), filepath.Join(dir, "begun")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("--out", done, golden); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(begun, 0o700); err != nil {
		t.Fatal(err)
	}
	plan := `{"plan":{"request":{"format":"jsonl","trails":["other"]},"created":"2026-11-21T20:45:13Z"}}` + "\n"
	if err := os.WriteFile(filepath.Join(begun, ".unfinished"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--out", file, golden}, "--out " + file + ": not a directory, which an export in format jsonl is"},
		{[]string{"--out", done, golden}, "--out " + done + " has a complete export already, with _manifest.json"},
		{[]string{"--out", begun, golden}, "--out " + begun + ` has an unfinished export with other options: {"format":"jsonl","trails":["other"]}; repeat these to resume it, or add --restart to discard it`},
		{[]string{"--out", filepath.Join(dir, "new"), "--slot", "siem", golden, trailtest.Golden(t) + "/objects"}, "--slot requires a single trail"},
		{[]string{"--out", filepath.Join(dir, "new"), "--since", "soon", golden}, `--since: invalid time "soon"`},
	} {
		err := run(c.args...)
		var usage *exit.UsageError
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.As(err, &usage) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}
