package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// mayNameFlags are the files outside of internal/command that have flags in strings or comments: which ones (* is any), and why.
var mayNameFlags = map[string]struct{ flags, why string }{
	"internal/browsertest/browsertest.go": {"*", "a browser's"},
	"internal/check/units.go":             {"all property", "systemctl's"},
	"internal/postgres/folder.go":         {"pgdata username auth encoding locale no-sync no-instructions", "initdb's"},
	"internal/postgres/installation.go":   {"bindir version", "pg_config's, and the server's"},
	"internal/review/restore.go":          {"wal-segsize schema-only create file", "initdb's and pg_restore's"},
	"internal/format/gen/fields.go":       {"format time-zone", "documents what steno cat prints"},
	"internal/format/gen/foreign.go":      {"format", "documents what steno cat prints"},
	"internal/format/gen/schema.go":       {"format", "documents what steno cat prints"},
}

// aFlag is a word of a text that looks like a flag.
var aFlag = regexp.MustCompile("(?:^|[ \"'`(])--([a-z][a-z0-9-]*)")

// TestOnlyCommandsKnowFlags: libraries take values of types, and return errors that name a value, or a type of error.
// internal/command makes values of flags, and says which flag an error is about (cmdutil.FlagError). So no package outside
// of it, and of the laboratory, imports a library for flags, begins a string with a flag, or names one of ours in a string
// or a comment.
func TestOnlyCommandsKnowFlags(t *testing.T) {
	ours := flagNames()
	excused := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", "..", "internal"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source := filepath.ToSlash(strings.TrimPrefix(name, filepath.Join("..", "..")+string(filepath.Separator)))
		if strings.HasPrefix(source, "internal/command/") || strings.HasPrefix(source, "lab/") {
			return nil
		}
		for _, found := range flagsIn(t, name, ours) {
			if may := mayNameFlags[source].flags; may == "*" || slices.Contains(strings.Fields(may), found.flag) {
				excused[source+" *"], excused[source+" "+found.flag] = true, true
				continue
			}
			t.Errorf("%s:%d: %s belongs into internal/command", source, found.line, found.flag)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for source, may := range mayNameFlags {
		for flag := range strings.FieldsSeq(may.flags) {
			if !excused[source+" "+flag] {
				t.Errorf("%s does not name --%s any more", source, flag)
			}
		}
	}
}

// flagNames are the flags of all programs.
func flagNames() map[string]bool {
	all := map[string]bool{}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { all[f.Name] = true })
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	for name, newRoot := range programs {
		if name != "steno-lab" {
			streams, _, _, _ := iostreams.Test()
			collect(newRoot(streams))
		}
	}
	return all
}

// place is where a file knows a flag, or imports a library for flags.
type place struct {
	line int
	flag string
}

// flagsIn are such places of a file.
func flagsIn(t *testing.T, name string, ours map[string]bool) (found []place) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(at token.Pos, what string) {
		found = append(found, place{files.Position(at).Line, what})
	}
	for _, i := range file.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); path.Dir(p) == "github.com/spf13" || p == "flag" {
			tell(i.Pos(), p)
		}
	}
	look := func(at token.Pos, text string, any bool) {
		for _, m := range aFlag.FindAllStringSubmatchIndex(text, -1) {
			if flag := text[m[2]:m[3]]; ours[flag] || any && m[0] == 0 {
				tell(at, flag)
			}
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			look(c.Pos(), c.Text, false)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil {
				look(l.Pos(), text, true)
			}
		}
		return true
	})
	return found
}
