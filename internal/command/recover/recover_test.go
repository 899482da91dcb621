package recover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestUsage: what is asked for must be clear, and a refusal says which flag is missing.
func TestUsage(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1), Time: trailtest.Epoch, Text: "x"})
	trailtest.NewStream(t, dir, 0).Write(t, b)
	segments, _ := filepath.Glob(filepath.Join(dir, "*", "*.steno"))
	for want, args := range map[string][]string{
		"--out DIR or --in-place":                                     {dir},
		"specify where to write the copy":                             {"--out", "x", "--in-place", dir},
		"is not the directory of a trail":                             {"--out", "x", segments[0]},
		"only one trail can be recovered at a time":                   {"--out", "x", dir, empty},
		"no such file":                                                {"--out", "x", filepath.Join(dir, "none")},
		`--confirm: "this" is not the system identifier of a cluster`: {"--in-place", "--confirm", "this", dir},
		fmt.Sprintf("add --confirm %d", uint64(trailtest.SystemID)):   {"--in-place", dir},
		"no segment says which cluster's trail this is: use --out":    {"--in-place", "--confirm", "1", empty},
	} {
		streams, _, _, _ := iostreams.Test()
		cmd := NewCmdRecover(&cmdutil.Factory{IO: streams}, nil)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		err := cmd.Execute()
		var usage *exit.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// TestWordsBehindRings: a shell expands a pattern to several words.
func TestWordsBehindRings(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trail, rings, err := arguments([]string{b, dir}, []string{a})
	if err != nil || trail != dir || !slices.Equal(rings, []string{a, b}) {
		t.Errorf("%s, %q, %v", trail, rings, err)
	}
}
