package benchcmd

import (
	"strings"
	"testing"
)

func TestArchivedCommandsHaveNoConnectionStrings(t *testing.T) {
	for line, want := range map[string]string{
		"bench logging --quick":                "steno bench logging --quick",
		"bench logging --dsn password=x --yes": "steno bench logging --dsn ... --yes",
		"bench logging --dsn=password=x --yes": "steno bench logging --dsn=... --yes",
	} {
		if got := commandOf(strings.Fields(line)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
