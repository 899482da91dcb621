package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
)

// withoutPage are commands of steno, steno-query, steno-top and steno-ship that docs/steno.md says enough of.
var withoutPage = []string{"completion", "help", "man", "version"}

var helpFlag = regexp.MustCompile(`(?m)(\n\n(?:Other|Flags):)?\n  -h, --help  .*$`)

// block is what stands at the beginning of a command's page: its usage, examples and flags, and those of its subcommands.
func block(c *cobra.Command) string {
	text := strings.TrimRight(cmdutil.Usage(c), "\n")
	text = helpFlag.ReplaceAllString(text, "")
	text, _, _ = strings.Cut(text, "\n\n\"") // how help is shown
	root := c.Root().Name()
	for _, of := range []string{"  ", "\""} { // steno runs the commands of the others
		text = strings.ReplaceAll(text, of+root+" ", of+"steno ")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			text += "\n\n" + block(sub)
		}
	}
	return text
}

// TestPagesOfCommandsBeginWithTheirHelp: STENO_UPDATE=1 writes it there.
func TestPagesOfCommandsBeginWithTheirHelp(t *testing.T) {
	want := map[string]string{"steno help filters": strings.TrimRight(flags.NewTopic().Long, "\n")}
	for _, name := range []string{"steno", "steno-query", "steno-top", "steno-ship"} {
		everyCommand(name, func(c *cobra.Command) {
			if c.Parent() == c.Root() && c.HasParent() && c.Runnable() && !slices.Contains(withoutPage, c.Name()) {
				want["steno "+c.Name()+" --help"] = block(c)
			}
		})
	}
	begun := regexp.MustCompile(`(?s)\A# [^\n]+\n\n<!-- (steno [a-z -]+) -->\n(.*?)<!-- end -->\n`)
	for _, path := range slices.Sorted(maps.Keys(pagesOfCommands(t))) {
		page := contents(t, path)
		m := begun.FindStringSubmatchIndex(page)
		if m == nil {
			t.Errorf("%s does not begin with the help of a command", path)
			continue
		}
		command := page[m[2]:m[3]]
		help, known := want[command]
		if name := strings.Fields(strings.TrimSuffix(command, " --help")); !known || name[len(name)-1]+".md" != filepath.Base(path) {
			t.Errorf("%s begins with the help of %q", path, command)
			continue
		}
		delete(want, command)
		help = "```text\n" + help + "\n```\n"
		if page[m[4]:m[5]] == help {
			continue
		}
		if os.Getenv("STENO_UPDATE") == "" {
			t.Errorf("%s: not what %q prints; STENO_UPDATE=1 writes it", path, command)
		} else if err := os.WriteFile(filepath.Join(top, path), []byte(page[:m[4]]+help+page[m[5]:]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for command := range want {
		t.Errorf("no page in docs/commands begins with %q", command)
	}
}

// TestEveryCommandIsInTheTable of docs/steno.md, with a link to its page.
func TestEveryCommandIsInTheTable(t *testing.T) {
	table := contents(t, "docs/steno.md")
	for path := range pagesOfCommands(t) {
		if to := fmt.Sprintf("](%s)", strings.TrimPrefix(path, "docs/")); !strings.Contains(table, to) {
			t.Errorf("docs/steno.md has no link to %s", path)
		}
	}
}

// pagesOfCommands are the pages in docs/commands, by their paths.
func pagesOfCommands(t *testing.T) map[string]bool {
	t.Helper()
	pages := map[string]bool{}
	found, err := filepath.Glob(filepath.Join(top, "docs", "commands", "*.md"))
	if err != nil || len(found) < 10 {
		t.Fatalf("%d pages, %v", len(found), err)
	}
	for _, path := range found {
		pages["docs/commands/"+filepath.Base(path)] = true
	}
	return pages
}
