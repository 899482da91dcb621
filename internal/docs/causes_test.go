package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/proof"
)

// The table of what can hide an answer is the list in the code.
func TestCausesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "proof.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- causes -->\n")
	table, _, found := strings.Cut(rest, "\n<!-- end -->")
	if want := strings.TrimSpace(proof.CausesTable()); !found || strings.TrimSpace(table) != want {
		t.Errorf("the table in docs/proof.md is not the list of internal/proof/causes.go, which is:\n%s", want)
	}
}
