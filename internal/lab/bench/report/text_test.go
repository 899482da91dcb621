package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden compares with a file of testdata; STENO_UPDATE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("STENO_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s, which STENO_UPDATE=1 writes:\n%s", path, got)
	}
}

func TestTextIsThatOfTheGoldenFiles(t *testing.T) {
	for name, r := range examples() {
		var b strings.Builder
		Terminal{Width: 100}.Text(&b, r)
		golden(t, name+".txt", b.String())
		for line := range strings.Lines(b.String()) {
			if n := length(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}
