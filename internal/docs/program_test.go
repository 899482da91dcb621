package docs

import (
	"bytes"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/lab/command"
)

// The two programs: their manual pages, help, and what the one says of the other.

var programs = map[string]func(*iostreams.IOStreams) *cobra.Command{"steno": cli.New, "steno-lab": command.New}

// TestManualPagesAreUpToDate compares docs/man with the command trees. STENO_UPDATE=1
// writes the pages.
func TestManualPagesAreUpToDate(t *testing.T) {
	for name, newRoot := range programs {
		path := top + "/docs/man/" + name + ".1"
		streams, _, out, _ := iostreams.Test()
		if code := program.Run(t.Context(), newRoot(streams), []string{"man"}); code != 0 {
			t.Fatalf("%s: exit code %d", name, code)
		}
		if os.Getenv("STENO_UPDATE") != "" {
			if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(page, out.Bytes()) {
			t.Errorf("%s differs from the commands: run go run ./cmd/%[2]s man > docs/man/%[2]s.1", path, name)
		}
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	for _, newRoot := range programs {
		streams, _, _, _ := iostreams.Test()
		for _, c := range newRoot(streams).Commands() {
			if c.Example == "" && !c.HasSubCommands() && !program.IsElsewhere(c) && c.Name() != "help" {
				t.Errorf("%s has no example", c.CommandPath())
			}
		}
	}
}

// TestStenoKnowsTheCommandsOfTheLab: steno, which links nothing of them, lists the
// commands of steno-lab as steno-lab does.
func TestStenoKnowsTheCommandsOfTheLab(t *testing.T) {
	streams, _, _, _ := iostreams.Test()
	known := map[string]string{}
	for _, c := range cli.New(streams).Commands() {
		if program.IsElsewhere(c) {
			known[c.Name()] = c.Short
		}
	}
	for _, c := range command.New(streams).Commands() {
		if name := c.Name(); name != "version" && name != "man" {
			if known[name] != c.Short {
				t.Errorf("%s: steno says %q, steno-lab %q", name, known[name], c.Short)
			}
			delete(known, name)
		}
	}
	for name := range known {
		t.Errorf("steno-lab has no command %s", name)
	}
}
