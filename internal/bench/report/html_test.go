package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWritePages(t *testing.T) {
	dir := os.Getenv("PAGES")
	if dir == "" {
		t.Skip()
	}
	for name, r := range examples() {
		var b strings.Builder
		if err := HTML(&b, r); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(dir, name+".html"), []byte(b.String()), 0o644)
	}
}
