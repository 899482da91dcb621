package measure

import (
	"strings"
	"testing"
)

func TestCommandLinesHaveNoConnectionStrings(t *testing.T) {
	for line, want := range map[string]string{
		"bench logging --quick":                "steno bench logging --quick",
		"bench logging --dsn password=x --yes": "steno bench logging --dsn ... --yes",
		"bench logging --dsn=password=x --yes": "steno bench logging --dsn=... --yes",
	} {
		if got := commandLine(strings.Fields(line)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
