package bench

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/cluster"
	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/cmdutil/cmdtest"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// overhead parses a command line and returns what would run.
func overhead(t *testing.T, line string) (*overheadOptions, error) {
	t.Helper()
	streams, _, _, _ := iostreams.Test()
	return cmdtest.Parse(streams, newCmdOverhead, line)
}

func TestOverheadRefusesWrongUsage(t *testing.T) {
	for line, want := range map[string]string{
		"--workload insert":                 `no workload "insert"`,
		"--protocol x":                      `no protocol "x"`,
		"--clients 0":                       "0 clients",
		"--pairs 0":                         "--pairs must be at least 1",
		"--seconds 0":                       "--seconds must be at least 1",
		"--renew -1":                        "--renew must be at least 0",
		"--format xml":                      `no format "xml"`,
		"--set fsync":                       `--set takes name=value, not "fsync"`,
		"--dsn dbname=x --compare off":      "--dsn does not go with --compare",
		"--dsn dbname=x --profile 3":        "--dsn does not go with --compare",
		"--profile 3 --profile-runs 0":      "--profile-runs at least 1",
		"--compare off --scale 0 --pairs 1": "the scale must be at least 1",
		"argument":                          "unknown command",
	} {
		_, err := overhead(t, line)
		var usage *cmdutil.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a usage error with %q", line, err, want)
		}
	}
}

func TestOverheadDefaults(t *testing.T) {
	o, err := overhead(t, "--set steno.writers=2 --set a=b=c")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}); o.Load != want || o.Rounds != 100 || o.Seconds != 1 || o.Renew != 20 {
		t.Errorf("got %+v, %d rounds of %d s, new servers after %d", o.Load, o.Rounds, o.Seconds, o.Renew)
	}
	if want := []cluster.Setting{{Name: "steno.writers", Value: "2"}, {Name: "a", Value: "b=c"}}; !reflect.DeepEqual(o.Settings, want) {
		t.Errorf("got settings %v", o.Settings)
	}
	if o.Options.Version != "1.2" {
		t.Errorf("got version %q", o.Options.Version)
	}
}
