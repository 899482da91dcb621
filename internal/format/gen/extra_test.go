package main

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources is the text of the sources in folders of the repository, without tests.
func sources(t *testing.T, extension string, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir("../../../"+folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && (d.Name() == "t" || d.Name() == "test" || d.Name() == "fuzz") {
				return cmp.Or(err, fs.SkipDir)
			}
			if strings.HasSuffix(path, extension) && !strings.HasSuffix(path, "_test.go") {
				text, err := os.ReadFile(path)
				all.Write(text)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestFurtherNamesAreThoseThatAreWritten compares the names in extra with what the server and steno recover write.
func TestFurtherNamesAreThoseThatAreWritten(t *testing.T) {
	c, g := sources(t, ".c", "extension", "core"), sources(t, ".go", "internal/recovery")
	written := map[string]bool{}
	for _, call := range []string{
		`put_pair(?:_number|_hex)?\(p, r, "(\w+)"`, `put_deleted_(?:text|number)\(out, &p, "(\w+)"`, `PUT_CONSTANT\(\w+, "(\w+)"\)`,
		`steno_record_add_(?:extra|omitted)\(&?\w+, "(\w+)"`, `pairs\[n\+\+\] = "(\w+)";\s*pairs\[n\+\+\] = `, `pairs\[2 \* n\] = "(\w+)"`,
		`steno_writer_event\(\w+, "\w+", "(\w+)"`, `steno_put_string\(p, "(further_bytes)"\)`,
	} {
		for _, m := range regexp.MustCompile(call).FindAllStringSubmatch(c, -1) {
			written[m[1]] = true
		}
	}
	// Lists of pairs: every other one is a name.
	lists := regexp.MustCompile(`pairs\[[^\n=]*=\s*\{([^;]*)\};|\*(?:failure|recovered)\[\] = \{([^;]*)\};|names\[STENO_GAP_PAIRS\] = \{([^}]*)\}`).FindAllStringSubmatch(c, -1)
	for _, m := range lists {
		values := regexp.MustCompile(`"\w+"|[^,"{}\s][^,{}]*`).FindAllString(m[1]+m[2], -1)
		for i := 0; i < len(values); i += 2 {
			written[strings.Trim(values[i], `"`)] = true
		}
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[3], -1) {
			written[name] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?:r\.event|write\.Pairs)\(((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*)\)`).FindAllStringSubmatch(g, -1) {
		for i, value := range regexp.MustCompile(`fmt\.Sprint\([^()]*(?:\([^()]*\)[^()]*)*\)|filepath\.Base\([^()]*\)|"\w+"|[\w.]+`).FindAllString(m[1], -1) {
			if i%2 == 0 && value[0] == '"' {
				written[strings.Trim(value, `"`)] = true
			}
		}
	}
	delete(written, "name") // a parameter of steno_writer_event, and a name of kind setting
	known := map[string]bool{"portal": true}
	for _, f := range furtherNames {
		known[f.name] = true
		if f.name != "steno.*" && !strings.Contains(c+g, `"`+f.name+`"`) && !slices.Contains([]string{"statements", "commit_lsn", "end_lsn"}, f.name) {
			t.Errorf("nothing writes %s", f.name)
		}
	}
	for name := range written {
		if !known[name] {
			t.Errorf("%s is written, but is not in furtherNames", name)
		}
	}
	if len(written) < 55 {
		t.Errorf("only %d names found: %v", len(written), written)
	}
	format, err := os.ReadFile("../../../format/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range furtherNames {
		if f.name != "steno.*" && !strings.Contains(string(format), "`"+f.name+"`") {
			t.Errorf("format/FORMAT.md lacks %s", f.name)
		}
	}
}
