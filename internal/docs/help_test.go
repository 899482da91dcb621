package docs

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// everyCommand calls a function for all commands of a program, also the program itself, but for those that another one has.
func everyCommand(name string, each func(c *cobra.Command)) {
	streams, _, _, _ := iostreams.Test()
	root := programs[name](streams)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if program.IsExternal(c) {
			return
		}
		c.InitDefaultHelpFlag()
		c.InitDefaultVersionFlag()
		each(c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// TestEachFlagHasAHeading: a flag is listed in help where people look for it. Only the laboratory's flags have none.
func TestEachFlagHasAHeading(t *testing.T) {
	used := map[string]bool{}
	for name := range programs {
		everyCommand(name, func(c *cobra.Command) {
			for _, l := range cmdutil.ListFlags(c) {
				for _, f := range l.Flags {
					used[f.Name], used[c.Name()+" "+f.Name] = true, true
					if l.Heading == "" && name != "steno-lab" {
						t.Errorf("one of the flags of %s, perhaps --%s, is not in cmdutil/headings.go", c.CommandPath(), f.Name)
					}
				}
			}
		})
	}
	for _, name := range cmdutil.FlagsWithHeading() {
		if !used[name] {
			t.Errorf("cmdutil/headings.go has %s, which no command has", name)
		}
	}
}

// TestHelpFitsOnATerminal: no line is wider than 80 columns, less one for terminals that wrap there.
func TestHelpFitsOnATerminal(t *testing.T) {
	for name := range programs {
		everyCommand(name, func(c *cobra.Command) {
			if c.Parent() != nil && c.Parent().Name() == "completion" {
				return // cobra's texts
			}
			help := cmdutil.Text(c) + "\n" + cmdutil.Usage(c)
			for line := range strings.SplitSeq(help, "\n") {
				if utf8.RuneCountInString(line) > 79 {
					t.Errorf("%s: longer than 79 columns: %s", c.CommandPath(), line)
				}
			}
		})
	}
}

// TestFiltersAreExplainedOnce: in the help of the filters, which names each one that a command has.
func TestFiltersAreExplainedOnce(t *testing.T) {
	explained := map[string]bool{}
	for _, p := range flags.HelpParts() {
		for _, f := range p.Flags {
			explained[f.Name] = true
		}
	}
	topic := flags.NewTopic().Long
	with := 0
	for _, name := range []string{"steno", "steno-query", "steno-top", "steno-ship"} {
		everyCommand(name, func(c *cobra.Command) {
			help := cmdutil.Usage(c)
			filters, _ := cmdutil.SplitShared(slices.Concat(allFlags(c)...))
			if len(filters) > 0 {
				with++
			}
			for _, f := range filters {
				positive := strings.TrimPrefix(f.Name, "not-")
				if !explained[positive] || !strings.Contains(topic, "--"+f.Name+" ") && !strings.Contains(topic, "--"+f.Name+", ") {
					t.Errorf("\"steno help filters\" does not explain --%s", f.Name)
				}
				if _, usage := pflag.UnquoteUsage(f); strings.Contains(help, usage[:min(len(usage), 40)]) {
					t.Errorf("%s explains --%s again", c.CommandPath(), f.Name)
				}
				if !strings.Contains(help, "--"+positive) {
					t.Errorf("%s does not name --%s", c.CommandPath(), positive)
				}
			}
		})
		streams, _, out, _ := iostreams.Test()
		if code := program.Run(t.Context(), programs[name](streams), []string{"man"}); code != 0 {
			t.Fatalf("%s: exit code %d", name, code)
		}
		for _, once := range []string{"\n.SH FILTERS\n", "(RE2)", "was refused or was interrupted"} {
			if n := strings.Count(out.String(), once); n != 1 {
				t.Errorf("the manual page of %s has %q %d times", name, once, n)
			}
		}
	}
	if with != 6 {
		t.Errorf("%d commands have filters", with)
	}
}

func allFlags(c *cobra.Command) (all [][]*pflag.Flag) {
	for _, l := range cmdutil.ListFlags(c) {
		all = append(all, l.Flags)
	}
	return all
}

// TestFiltersAreCompleted: that help does not list them is no reason for a shell not to know them.
func TestFiltersAreCompleted(t *testing.T) {
	for _, command := range []string{"cat", "tail", "report", "prove"} {
		streams, _, out, _ := iostreams.Test()
		if code := program.Run(t.Context(), programs["steno"](streams), []string{"__complete", command, "--"}); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		for _, want := range []string{"--user\tonly these session `users`\n", "--not-user\tnot these session `users`\n", "--failed\t", "--since\t"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q among the completions", command, want)
			}
		}
	}
	streams, _, out, _ := iostreams.Test()
	program.Run(t.Context(), programs["steno"](streams), []string{"__complete", "help", "fi"})
	if !strings.HasPrefix(out.String(), "filters\t") {
		t.Errorf("\"steno help f\" is completed as %q", out.String())
	}
}
