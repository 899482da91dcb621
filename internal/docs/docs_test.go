// Package docs has the tests that compare the documents with the sources: links, commands,
// settings, views, manual pages.
package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/command/query"
	"github.com/pg-steno/pg_steno/internal/command/ship"
	screen "github.com/pg-steno/pg_steno/internal/command/top"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/command"
)

// The manual against what it speaks of: its links, the commands, settings, views
// and functions that it names, and the tests of docs/compliance.md and docs/guarantees.md.

const top = "../.."

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sources are the files of the sources, by their paths from the top.
func sources(t *testing.T) []string {
	var paths []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // what others make and remove meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() && path != top && (d.Name() == "build" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, top+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// documents are the Markdown files among them.
func documents(t *testing.T) []string {
	paths := slices.DeleteFunc(sources(t), func(path string) bool { return !strings.HasSuffix(path, ".md") })
	if len(paths) < 10 {
		t.Fatalf("only %d documents found", len(paths))
	}
	return paths
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	span    = regexp.MustCompile("`[^`\n]+`")
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// anchors are the names that a page's headings have, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		unique := name
		for i := 1; found[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", name, i)
		}
		found[unique] = true
	}
	return found
}

// brokenLinks returns the links of a page to files and headings that do not exist.
func brokenLinks(path, text string, read func(path string) (string, error)) []string {
	var broken []string
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		to, err := text, error(nil)
		if file != "" {
			to, err = read(filepath.Join(filepath.Dir(path), file))
		}
		if err != nil || anchor != "" && !anchors(to)[anchor] {
			broken = append(broken, m[1])
		}
	}
	return broken
}

func TestLinksOfDocumentsResolve(t *testing.T) {
	read := func(path string) (string, error) {
		data, err := os.ReadFile(filepath.Join(top, path))
		return string(data), err
	}
	links := 0
	for _, path := range documents(t) {
		text := contents(t, path)
		links += len(link.FindAllString(text, -1))
		for _, to := range brokenLinks(path, text, read) {
			t.Errorf("%s: %s leads nowhere", path, to)
		}
	}
	if links < 20 {
		t.Errorf("only %d links found", links)
	}
	page := "# One `two`\n## x.y_z\n## x.y_z\n[a](#one-two) [b](#xy_z-1) [c](other.md#there) `[d](code)` [e](https://example.org/)\n" +
		"```\n[f](code)\n# Not a heading\n```\n[g](#not-a-heading) [h](missing.md) [i](other.md#missing)"
	broken := brokenLinks("docs/page.md", page, func(path string) (string, error) {
		if path == "docs/other.md" {
			return "# There", nil
		}
		return "", os.ErrNotExist
	})
	if want := []string{"#not-a-heading", "missing.md", "other.md#missing"}; !slices.Equal(broken, want) {
		t.Errorf("of a page with broken links: got %q, want %q", broken, want)
	}
}

// named is what the manual can name.
type named struct {
	settings map[string]bool
	sql      map[string]bool // views and functions
	columns  map[string]bool // of views
	classes  map[string]bool
	root     *cobra.Command // steno
	query    *cobra.Command // steno-query
	screen   *cobra.Command // steno-top
	ship     *cobra.Command // steno-ship
	lab      *cobra.Command // steno-lab
}

func names(pattern, text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

func whatExists(t *testing.T) *named {
	streams, _, _, _ := iostreams.Test()
	var sql string
	for _, path := range sources(t) {
		if script, _ := filepath.Match("extension/pg_steno--*.sql", path); script {
			sql += contents(t, path)
		}
	}
	n := &named{
		settings: names(`(?m)^STENO_SETTING_\w+\((\w+),`, contents(t, "extension/base/settings.def")),
		sql:      names(`CREATE (?:VIEW|FUNCTION|TYPE) steno\.(\w+)`, sql),
		columns:  names(`OUT (\w+) `, sql),
		classes:  names(`(?m)^STENO_CLASS\(\d+, \w+, "(\w+)"`, contents(t, "format/records.def")),
		root:     cli.New(streams),
		query:    query.New(streams),
		screen:   screen.New(streams),
		ship:     ship.New(streams),
		lab:      command.New(streams),
	}
	n.root.InitDefaultCompletionCmd()
	n.root.InitDefaultHelpCmd()
	for _, other := range []*cobra.Command{n.query, n.screen, n.ship, n.lab} {
		other.InitDefaultCompletionCmd()
		other.InitDefaultHelpCmd()
	}
	if len(n.settings) < 20 || len(n.sql) < 5 || len(n.columns) < 10 || len(n.classes) < 10 {
		t.Fatalf("definitions are not understood: %d settings, %d of SQL, %d columns, %d classes", len(n.settings), len(n.sql), len(n.columns), len(n.classes))
	}
	return n
}

// isElsewhere says whether steno has a command in another program.
func isElsewhere(steno *cobra.Command, name string) bool {
	c, _, err := steno.Find([]string{name})
	return err == nil && program.IsExternal(c)
}

// wrongCommand says what is wrong in a command line of steno, "" if nothing.
func (n *named) wrongCommand(line string) string {
	words := strings.Fields(line)
	root := n.root
	for _, other := range []*cobra.Command{n.query, n.screen, n.ship, n.lab} {
		if c, _, err := other.Find(words[1:]); words[0] == other.Name() || words[0] == "steno" && err == nil && c != other && isElsewhere(n.root, words[1]) {
			root = other
		}
	}
	c := root
	for _, w := range words[1:] {
		if sub, _, err := c.Find([]string{w}); err == nil && sub != c {
			c = sub
			continue
		}
		break
	}
	if c == root && len(words) > 1 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[1]) {
		return "no command " + words[1]
	}
	c.InitDefaultHelpFlag()
	for _, m := range regexp.MustCompile(`(?:^|[ \[])--?([a-z][a-z-]*)`).FindAllStringSubmatch(line, -1) {
		if c == root && m[1] == "version" {
			continue
		}
		if len(m[1]) > 1 && c.Flags().Lookup(m[1]) == nil || len(m[1]) == 1 && c.Flags().ShorthandLookup(m[1]) == nil {
			return c.CommandPath() + " has no option " + m[1]
		}
	}
	return ""
}

// wrongNames returns the settings, views and functions of a text that do not
// exist, and what is wrong in its command lines.
func (n *named) wrongNames(text string) []string {
	var wrong []string
	for _, m := range regexp.MustCompile(`(?:^|[^\w./-])steno\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
		if !n.settings[m[1]] && !n.sql[m[1]] && m[1] != "h" && m[1] != "md" && m[1] != "conf" && m[1] != "prom" {
			wrong = append(wrong, "steno."+m[1])
		}
	}
	lines := span.FindAllString(fence.ReplaceAllString(text, ""), -1)
	for i := range lines {
		lines[i] = strings.Trim(lines[i], "`")
	}
	lines = append(lines, strings.Split(text, "\n")...) // of code
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if (strings.HasPrefix(line, "steno ") || strings.HasPrefix(line, "steno-query ") || strings.HasPrefix(line, "steno-top ") || strings.HasPrefix(line, "steno-ship ") || strings.HasPrefix(line, "steno-lab ")) && !strings.HasPrefix(line, "steno writer") { // which is a process
			line, _, _ = strings.Cut(line, " # ")
			line, _, _ = strings.Cut(line, "  ")
			line, _, _ = strings.Cut(line, "|")
			line, _, _ = strings.Cut(line, " > ")
			if what := n.wrongCommand(line); what != "" {
				wrong = append(wrong, what)
			}
		}
	}
	return wrong
}

func TestDocumentsNameWhatExists(t *testing.T) {
	n := whatExists(t)
	for _, path := range documents(t) {
		for _, what := range n.wrongNames(contents(t, path)) {
			t.Errorf("%s: %s", path, what)
		}
	}
	wrong := n.wrongNames("`steno.log` `steno.logg` (steno.flush()) see steno.md\n`steno cat --failed --fail` `steno cut`\n\n    steno tail -f -z  what --now\n    steno verify | cat --x\n")
	if want := []string{"steno.logg", "steno cat has no option fail", "no command cut", "steno tail has no option z"}; !slices.Equal(wrong, want) {
		t.Errorf("of a page with wrong names: got %q, want %q", wrong, want)
	}
}

// TestDocumentsNameFilesThatExist looks for the source files that the maps of the
// sources name, by their paths or the ends of these.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	files := sources(t)
	name := regexp.MustCompile("[`│ ]([a-z_][\\w/*.-]*\\.(?:c|h|go|def|pl|pm|sql|md))\\b")
	for _, document := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		found := name.FindAllStringSubmatch(contents(t, document), -1)
		if len(found) < 4 {
			t.Errorf("%s: only %d files found", document, len(found))
		}
		for _, m := range found {
			if !slices.ContainsFunc(files, func(f string) bool {
				if dir, pattern := filepath.Split("/" + m[1]); strings.Contains(pattern, "*") {
					ok, _ := filepath.Match(pattern, filepath.Base(f))
					return ok && (dir == "/" || strings.HasSuffix("/"+filepath.Dir(f)+"/", dir))
				}
				return strings.HasSuffix("/"+f, "/"+m[1])
			}) {
				t.Errorf("%s: there is no file %s", document, m[1])
			}
		}
	}
}

// TestPackageCommentsListTheirFiles checks comments that list the files of their package: all of them, but for the one
// with the comment, and nothing else.
func TestPackageCommentsListTheirFiles(t *testing.T) {
	packages := map[string][]string{}
	for _, path := range sources(t) {
		if strings.HasPrefix(path, "internal/") && strings.HasSuffix(path, ".go") && !regexp.MustCompile(`_(test|gen)\.go$`).MatchString(path) {
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], path)
		}
	}
	lists := 0
	for _, files := range packages {
		for _, file := range files {
			comment := regexp.MustCompile(`(?m)(?:^//.*\n)+package `).FindString(contents(t, file))
			list := regexp.MustCompile(`(?m)^//\t.*\.go\b.*$`).FindAllString(comment, -1)
			if len(list) < 3 {
				continue
			}
			lists++
			listed := map[string]bool{file: true}
			for _, name := range regexp.MustCompile(`[\w*]+\.go\b`).FindAllString(strings.Join(list, " "), -1) {
				found, _ := filepath.Glob(filepath.Join(top, filepath.Dir(file), name))
				if len(found) == 0 {
					t.Errorf("%s: there is no file %s", file, name)
				}
				for _, f := range found {
					listed[strings.TrimPrefix(f, top+"/")] = true
				}
			}
			for _, f := range files {
				if !listed[f] {
					t.Errorf("%s does not list %s", file, filepath.Base(f))
				}
			}
		}
	}
	if lists < 8 {
		t.Errorf("only %d lists found", lists)
	}
}

// complianceTables checks the tables of a compliance map, and returns how many
// rows there are in each.
func complianceTables(n *named, text string, test func(name string) bool) (rows map[string]int, wrong []string) {
	rows = map[string]int{}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?s)(\d+) rows: (\d+) yes, (\d+) partly, (\d+) no, (\d+) other\.\n\n<!-- requirements: (\w+) -->\n(.*?)<!-- end -->`).FindAllStringSubmatch(text, -1) {
		table := m[6]
		counts := map[string]int{}
		lines := strings.Split(strings.TrimSpace(m[7]), "\n")
		if lines[0] != "| id | asks for | covered | by | shown by | left to you |" {
			wrong = append(wrong, table+": has other columns")
			continue
		}
		for _, line := range lines[2:] {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			if len(cells) != 6 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
				wrong = append(wrong, "not six cells: "+line)
				continue
			}
			for _, what := range complianceRow(n, cells, test) {
				wrong = append(wrong, cells[0]+": "+what)
			}
			if seen[cells[0]] {
				wrong = append(wrong, cells[0]+": stands there twice")
			}
			seen[cells[0]] = true
			counts[cells[2]]++
			rows[table]++
		}
		if said, are := strings.Join(m[1:6], " "), fmt.Sprint(rows[table], counts["yes"], counts["partly"], counts["no"], counts["other"]); said != are {
			wrong = append(wrong, fmt.Sprintf("%s: says %s, has %s", table, said, are))
		}
	}
	return rows, wrong
}

// complianceRow says what is wrong in one row.
func complianceRow(n *named, cells []string, test func(name string) bool) (wrong []string) {
	const nothing = "–"
	covered, by, shown, left := cells[2], cells[3], cells[4], cells[5]
	if covered != "yes" && covered != "partly" && covered != "no" && covered != "other" {
		wrong = append(wrong, "covered is "+covered)
	}
	does := covered == "yes" || covered == "partly"
	if does != (by != nothing) || does != (shown != nothing) {
		wrong = append(wrong, "what is covered, and only that, has a setting or command and a test")
	}
	if covered != "yes" && left == nothing {
		wrong = append(wrong, "what is left to do is not said")
	}
	known := 0
	for _, s := range span.FindAllString(by, -1) {
		s = strings.Trim(s, "`")
		name, _, _ := strings.Cut(strings.TrimPrefix(s, "steno."), " = ")
		name = strings.TrimSuffix(name, "()")
		switch {
		case strings.HasPrefix(s, "steno "):
			if what := n.wrongCommand(s); what != "" {
				wrong = append(wrong, what)
			}
			known++
		case strings.HasPrefix(s, "steno."):
			if !n.settings[name] && !n.sql[name] {
				wrong = append(wrong, "there is no "+s)
			}
			known++
		case name == "shared_preload_libraries":
			known++
		case !n.classes[s] && !n.columns[s] && strings.ToUpper(s) != s: // SQL is in capitals
			wrong = append(wrong, "there is no "+s)
		}
	}
	if does && known == 0 {
		wrong = append(wrong, "no setting and no command")
	}
	tests := span.FindAllString(shown, -1)
	for _, s := range tests {
		if !test(strings.Trim(s, "`")) {
			wrong = append(wrong, "there is no test "+s)
		}
	}
	if does && (len(tests) == 0 || strings.Trim(span.ReplaceAllString(shown, ""), ", ") != "") {
		wrong = append(wrong, "tests are not a list of names")
	}
	return wrong
}

// testExists returns a function that says whether there is a test of that name: a
// file, by its extension, or a function of Go.
func testExists(t *testing.T) func(name string) bool {
	functions := map[string]bool{}
	for _, path := range sources(t) {
		if !strings.HasPrefix(path, "internal/") || !strings.HasSuffix(path, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(top, path))
		if err != nil {
			t.Fatal(err)
		}
		for f := range names(`(?m)^func (Test\w+)\(`, string(data)) {
			functions[f] = true
		}
	}
	folders := map[string]string{".pl": "extension/t", ".sql": "extension/test/sql", ".txtar": "internal/command/cli/testdata/script", ".c": "core/test"}
	return func(name string) bool {
		folder, ok := folders[filepath.Ext(name)]
		if !ok {
			return functions[name]
		}
		for _, depth := range []string{"", "*"} {
			if found, _ := filepath.Glob(filepath.Join(top, folder, depth, name)); len(found) > 0 {
				return true
			}
		}
		return false
	}
}

func TestComplianceMapIsRight(t *testing.T) {
	n := whatExists(t)
	exists := testExists(t)
	text := contents(t, "docs/compliance.md")
	rows, wrong := complianceTables(n, text, exists)
	for _, what := range wrong {
		t.Error(what)
	}
	for _, table := range []string{"stig", "cis", "pci", "hipaa", "soc2"} {
		if rows[table] == 0 {
			t.Errorf("there is no table %s", table)
		}
	}
	if got := len(regexp.MustCompile(`(?m)^\| V-\d{6} CD12-00-\d{6} \| `).FindAllString(text, -1)); got != rows["stig"] {
		t.Errorf("%d of %d requirements of the STIG have both numbers", got, rows["stig"])
	}
}

// TestComplianceMapIsChecked breaks a row in every way that matters.
func TestComplianceMapIsChecked(t *testing.T) {
	n := whatExists(t)
	const (
		head = "1 rows: 1 yes, 0 partly, 0 no, 0 other.\n\n<!-- requirements: x -->\n| id | asks for | covered | by | shown by | left to you |\n|---|---|---|---|---|---|\n"
		row  = "| 1 | something | yes | `steno.log` with `ddl`; `steno cat --failed` | `a.pl`, `TestB` | – |\n"
	)
	check := func(head, row string) []string {
		rows, wrong := complianceTables(n, head+row+"<!-- end -->\n", func(name string) bool { return name == "a.pl" || name == "TestB" })
		if len(rows) == 0 && len(wrong) == 0 {
			return []string{"nothing is seen"}
		}
		return wrong
	}
	if wrong := check(head, row); len(wrong) != 0 {
		t.Fatalf("a right row: %q", wrong)
	}
	for _, c := range []struct{ old, new, want string }{
		{"`steno.log`", "`steno.logs`", "there is no steno.logs"},
		{"`ddl`", "`dll`", "there is no dll"},
		{"--failed", "--failing", "has no option failing"},
		{"steno cat", "steno cut", "no command cut"},
		{"`a.pl`", "`b.pl`", "there is no test `b.pl`"},
		{"`TestB`", "`TestA`", "there is no test `TestA`"},
		{"`a.pl`, `TestB`", "by looking at it", "not a list of names"},
		{"`steno.log` with `ddl`; `steno cat --failed`", "good will", "no setting and no command"},
		{"`a.pl`, `TestB`", "–", "what is covered"},
		{" | – |", " |", "not six cells"},
		{"something", " ", "not six cells"},
		{"yes", "maybe", "covered is maybe"},
		{"yes", "no", "what is covered"},
		{"yes", "partly", "what is left"},
		{"yes | `steno.log` with `ddl`; `steno cat --failed` | `a.pl`, `TestB`", "other | – | –", "what is left"},
		{row, row + row, "stands there twice"},
		{row, row + strings.Replace(row, "| 1", "| 2", 1), "says 1 1 0 0 0, has 2 2 0 0 0"},
	} {
		wrong := check(head, strings.Replace(row, c.old, c.new, 1))
		if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, c.want) }) {
			t.Errorf("%s for %s: got %q, want %q", c.new, c.old, wrong, c.want)
		}
	}
	if wrong := check(strings.Replace(head, "| shown by ", "", 1), row); len(wrong) == 0 {
		t.Error("a table without a column passes")
	}
}

// guaranteedFaults are what docs/guarantees.md must speak of.
var guaranteedFaults = []string{
	"backend killed", "writer killed", "postmaster killed", "crash-restart", "immediate shutdown", "fast shutdown",
	"writer ends while the server is running", "writer stopped", "system crash or power loss", "disk full", "I/O error on write", "failed sync",
	"slow or hung disk", "ring directory full at start", "ring file removed while running", "ring file damaged", "ring files planted by another account",
	"trail directory removed", "trail directory moved", "permissions taken away", "trail files changed",
	"end cut off", "blocks appended after the end", "data directory copied with the trail",
	"data directory replaced by rewinding or restoring", "cluster upgraded and the old one deleted", "segments deleted by retention", "clock set back",
}

// wrongGuarantees says what is wrong in the tables of the guarantees: each fault
// stands once in a table of what can be missing and once in one of what is seen,
// says something in each cell, and names tests, all of which exist.
func wrongGuarantees(text string, faults []string, test func(name string) bool) (wrong []string) {
	heads := map[string]string{
		"missing": "| fault | `wait` | `drop` | `steno.sync` | shown by |",
		"seen":    "| fault | the server meanwhile | what one sees | shown by |",
	}
	rows := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)<!-- (missing|seen) -->\n(.*?)<!-- end -->`).FindAllStringSubmatch(text, -1) {
		lines := strings.Split(strings.TrimSpace(m[2]), "\n")
		if lines[0] != heads[m[1]] {
			wrong = append(wrong, m[1]+": has other columns")
			continue
		}
		for _, line := range lines[2:] {
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
			if len(cells) != strings.Count(heads[m[1]], "|")-1 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
				wrong = append(wrong, "not all cells: "+line)
				continue
			}
			rows[m[1]+": "+cells[0]]++
			shown := cells[len(cells)-1]
			tests := span.FindAllString(shown, -1)
			if len(tests) == 0 || strings.Trim(span.ReplaceAllString(shown, ""), ", ") != "" {
				wrong = append(wrong, cells[0]+": tests are not a list of names")
			}
			for _, s := range tests {
				if !test(strings.Trim(s, "`")) {
					wrong = append(wrong, cells[0]+": there is no test "+s)
				}
			}
		}
	}
	for _, table := range []string{"missing", "seen"} {
		for _, fault := range faults {
			if n := rows[table+": "+fault]; n != 1 {
				wrong = append(wrong, fmt.Sprintf("%s: %s has %d rows", table, fault, n))
			}
			delete(rows, table+": "+fault)
		}
	}
	for row := range rows {
		wrong = append(wrong, row+" is no fault that is known")
	}
	// tests that the text names
	text = regexp.MustCompile(`(?s)<!-- (missing|seen) -->\n.*?<!-- end -->`).ReplaceAllString(text, "")
	for _, m := range regexp.MustCompile("`(\\w+\\.(?:pl|c)|Test\\w+)`").FindAllStringSubmatch(text, -1) {
		if !test(m[1]) {
			wrong = append(wrong, "there is no test "+m[1])
		}
	}
	return wrong
}

func TestGuaranteesAreShown(t *testing.T) {
	exists := testExists(t)
	faults := names(`(?m)^\t\t\{"([^"]+)", \d+, `, contents(t, "lab/chaos/fault.go"))
	modes := names(`\{name: "(\w+)", weight`, contents(t, "lab/chaos/mode.go"))
	if len(faults) < 20 || len(modes) < 3 {
		t.Fatalf("the chaos suite is not understood: %d faults, %d modes", len(faults), len(modes))
	}
	for _, what := range wrongGuarantees(contents(t, "docs/guarantees.md"), guaranteedFaults, func(name string) bool {
		if fault, ok := strings.CutPrefix(name, "chaos: "); ok {
			return faults[fault]
		}
		if mode, ok := strings.CutPrefix(name, "chaos mode "); ok {
			return modes[mode]
		}
		return exists(name)
	}) {
		t.Error(what)
	}
}

// TestGuaranteesAreChecked breaks a page in every way that matters.
func TestGuaranteesAreChecked(t *testing.T) {
	const page = "Text (`a.pl`).\n<!-- missing -->\n| fault | `wait` | `drop` | `steno.sync` | shown by |\n|---|---|---|---|---|\n" +
		"| flood | nothing | all | some | `a.pl`, `TestB` |\n<!-- end -->\n" +
		"<!-- seen -->\n| fault | the server meanwhile | what one sees | shown by |\n|---|---|---|---|\n" +
		"| flood | swims | water | `chaos: flood` |\n<!-- end -->\n"
	check := func(page string) []string {
		return wrongGuarantees(page, []string{"flood"}, func(name string) bool { return name == "a.pl" || name == "TestB" || name == "chaos: flood" })
	}
	if wrong := check(page); len(wrong) != 0 {
		t.Fatalf("a right page: %q", wrong)
	}
	for _, c := range []struct{ old, new, want string }{
		{"`a.pl`, `TestB`", "`b.pl`, `TestB`", "no test `b.pl`"},
		{"`TestB`", "`TestC`", "no test `TestC`"},
		{"`chaos: flood`", "`chaos: fire`", "no test `chaos: fire`"},
		{"`a.pl`, `TestB`", "by looking", "not a list"},
		{"(`a.pl`)", "(`c.pl`)", "no test c.pl"},
		{"| flood | swims", "| fire | burns", "seen: flood has 0 rows"},
		{"| flood | swims", "| fire | burns", "seen: fire is no fault"},
		{"| all |", "| |", "not all cells"},
		{"| all |", "|", "not all cells"},
		{"| `drop` ", "", "missing: has other columns"},
		{"| flood | swims", "| flood | sinks | mud | `a.pl` |\n| flood | swims", "seen: flood has 2 rows"},
	} {
		wrong := check(strings.Replace(page, c.old, c.new, 1))
		if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, c.want) }) {
			t.Errorf("%s for %s: got %q, want %q", c.new, c.old, wrong, c.want)
		}
	}
}

// The two programs: their manual pages, help, and what the one says of the other.

var programs = map[string]func(*iostreams.IOStreams) *cobra.Command{"steno": cli.New, "steno-query": query.New, "steno-top": screen.New, "steno-ship": ship.New, "steno-lab": command.New}

// The packages' manual pages are what "man" prints.
func TestManualPagesHaveEveryCommandAndFlag(t *testing.T) {
	for name, newRoot := range programs {
		streams, _, out, _ := iostreams.Test()
		root := newRoot(streams)
		if code := program.Run(t.Context(), root, []string{"man"}); code != 0 {
			t.Fatalf("%s: exit code %d", name, code)
		}
		page := strings.ReplaceAll(out.String(), `\-`, "-")
		var check func(c *cobra.Command)
		check = func(c *cobra.Command) {
			if c != root && (!c.IsAvailableCommand() || program.IsExternal(c) || c.Name() == "help") {
				return
			}
			if c != root && !strings.Contains(page, "\n.SS "+c.CommandPath()) {
				t.Errorf("%s: the manual page lacks the command %s", name, c.CommandPath())
			}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && f.Name != "help" && !strings.Contains(page, "--"+f.Name) {
					t.Errorf("%s: the manual page lacks --%s of %s", name, f.Name, c.CommandPath())
				}
			})
			if c.Name() == "completion" {
				return // its shells are in its text
			}
			for _, sub := range c.Commands() {
				check(sub)
			}
		}
		check(root)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	for _, newRoot := range programs {
		streams, _, _, _ := iostreams.Test()
		for _, c := range newRoot(streams).Commands() {
			if c.Example == "" && !c.HasSubCommands() && !program.IsExternal(c) && c.Runnable() && c.Name() != "help" {
				t.Errorf("%s has no example", c.CommandPath())
			}
		}
	}
}

// TestStenoKnowsTheCommandsOfOtherPrograms: steno, which links nothing of them, lists the
// commands of the other programs as these do.
func TestStenoKnowsTheCommandsOfOtherPrograms(t *testing.T) {
	streams, _, _, _ := iostreams.Test()
	known := map[string]string{}
	for _, c := range cli.New(streams).Commands() {
		if program.IsExternal(c) {
			known[c.Name()] = c.Short
		}
	}
	for _, c := range slices.Concat(command.New(streams).Commands(), query.New(streams).Commands(), screen.New(streams).Commands(), ship.New(streams).Commands()) {
		if name := c.Name(); c.Runnable() && name != "version" && name != "man" && name != "help" {
			if known[name] != c.Short {
				t.Errorf("%s: steno says %q, its program %q", name, known[name], c.Short)
			}
			delete(known, name)
		}
	}
	for name := range known {
		t.Errorf("no program has a command %s", name)
	}
}

// stated is a place that states the version of the release, and the pattern that finds it there.
type stated struct{ path, pattern string }

// TestVersionsAgree compares the version of the programs with all other places that state one. The SQL scripts have
// its first two numbers, because a patch release does not change them.
func TestVersionsAgree(t *testing.T) {
	minor := program.Release[:strings.LastIndex(program.Release, ".")]
	for place, want := range map[stated]string{
		{"extension/base/steno.h", `(?m)^#define STENO_VERSION "(.*)"$`}:    program.Release,
		{"CHANGELOG.md", `(?m)^## \[(\d.*)\] - \d{4}-\d\d-\d\d$`}:           program.Release,
		{"packaging/pg_steno.spec", `(?m)^Version: +(.*)$`}:                 program.Release,
		{"packaging/pg_steno.spec", `(?m)^\* .* - (.*)-1$`}:                 program.Release,
		{"README.md", ` \./steno_(.*?)-1_amd64\.deb`}:                       program.Release,
		{"extension/pg_steno.control", `(?m)^default_version = '(.*)'$`}:    minor,
		{"extension/pg_steno--0.1--" + minor + ".sql", `UPDATE TO '(.*?)'`}: minor,
	} {
		m := regexp.MustCompile(place.pattern).FindStringSubmatch(contents(t, place.path))
		if m == nil || m[1] != want {
			t.Errorf("%s: got %q, want version %s (%s)", place.path, m, want, place.pattern)
		}
	}
}

// TestPackagesAreOfSupportedVersions compares the table of packages with the versions that are tested.
func TestPackagesAreOfSupportedVersions(t *testing.T) {
	c := exec.Command("scripts/test-versions", "--releases")
	c.Dir = top
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			want = append(want, fmt.Sprintf("`postgresql-%s-steno` %s", f[0], f[1]))
		}
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| (`postgresql-\\d+-steno`) \\| (\\w+)").FindAllStringSubmatch(contents(t, "docs/packages.md"), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	if len(want) < 3 || !slices.Equal(got, want) {
		t.Errorf("docs/packages.md lists %q, want %q (scripts/test-versions --releases)", got, want)
	}
}

// TestInstallCommandsAgree compares the commands of README.md that install packages with those of docs/packages.md, which
// scripts/test-packages runs.
func TestInstallCommandsAgree(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^    (sudo .*)$`)
	read := func(path, after, before string) (found []string) {
		_, section, _ := strings.Cut(contents(t, path), after)
		section, _, _ = strings.Cut(section, before)
		for _, m := range commands.FindAllStringSubmatch(section, -1) {
			found = append(found, m[1])
		}
		return found
	}
	readme := read("README.md", "\n## Install\n", "\nWithout them, `make install`")
	page := read("docs/packages.md", "\n## Install\n", "\n### ")
	if len(readme) != 3 || len(page) < 3 || !slices.Equal(readme, page[:3]) {
		t.Errorf("README.md has %q, docs/packages.md %q", readme, page)
	}
}

// TestPackagedFilesNameWhatExists looks at the settings and command lines of the files that packages install.
func TestPackagedFilesNameWhatExists(t *testing.T) {
	n := whatExists(t)
	if wrong := n.wrongNames(contents(t, "packaging/steno.conf")); len(wrong) > 0 {
		t.Errorf("packaging/steno.conf: %q", wrong)
	}
	for path, want := range map[string]int{"packaging/steno-verify-cluster": 2} {
		commands := regexp.MustCompile(`(?m)(?:^|\$\()(steno [a-z]+(?: [a-z]+)?)`).FindAllStringSubmatch(contents(t, path), -1)
		if len(commands) != want {
			t.Errorf("%s: got %d commands, want %d", path, len(commands), want)
		}
		for _, m := range commands {
			if what := n.wrongCommand(m[1]); what != "" {
				t.Errorf("%s: %s", path, what)
			}
		}
	}
}

// TestLinksOfPackagedDocumentsResolve makes what the package steno has in /usr/share/doc, and follows the links between its files.
func TestLinksOfPackagedDocumentsResolve(t *testing.T) {
	folder := t.TempDir()
	c := exec.Command("packaging/documents", folder, program.Release)
	c.Dir = top
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	links := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s: %s is not in the package", strings.TrimPrefix(path, folder), m[1])
			}
		}
		return err
	})
	if err != nil || links < 100 {
		t.Errorf("%d links, %v", links, err)
	}
}

// TestShellsComplete generates what the packages install for each shell.
func TestShellsComplete(t *testing.T) {
	for name, newRoot := range programs {
		for shell, want := range map[string]string{"bash": "complete -o default -F __start_%s %s", "zsh": "#compdef %s", "fish": "complete -c %s "} {
			streams, _, out, _ := iostreams.Test()
			root := newRoot(streams)
			root.SetArgs([]string{"completion", shell})
			if err := root.Execute(); err != nil {
				t.Fatalf("%s completion %s: %s", name, shell, err)
			}
			if want = strings.ReplaceAll(want, "%s", name); !strings.Contains(out.String(), want) {
				t.Errorf("%s completion %s: no %q in %d bytes", name, shell, want, out.Len())
			}
		}
	}
}

// TestFormatListsTheClassesOfProblems: FORMAT.md has each class that a reader reports, and the code no other.
func TestFormatListsTheClassesOfProblems(t *testing.T) {
	page, err := os.ReadFile("../../format/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "### What a reader reports\n")
	if !ok {
		t.Fatal("FORMAT.md has no such section")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	ofReaders := []string{"deleted", "incomplete", "anchor", "acknowledgment"}
	want := slices.DeleteFunc(slices.Clone(format.ProblemClasses()), func(c string) bool { return slices.Contains(ofReaders, c) })
	if !slices.Equal(listed, want) {
		t.Errorf("FORMAT.md lists %v, package format has %v", listed, want)
	}
}
