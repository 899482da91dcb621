package bench

import (
	"reflect"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/measure/measuretest"
)

func TestOverheadRefusesWrongUsage(t *testing.T) {
	measuretest.Refused(t, NewOverhead, map[string]string{
		"--workload insert":                 `no workload "insert"`,
		"--protocol x":                      `no protocol "x"`,
		"--clients 0":                       "0 clients",
		"--pairs 0":                         "--pairs must be at least 1",
		"--seconds 0":                       "--seconds must be at least 1",
		"--renew -1":                        "--renew must be at least 0",
		"--format xml":                      `invalid format "xml"`,
		"--set fsync":                       `--set expects name=value, not "fsync"`,
		"--dsn dbname=x --compare off":      "--dsn cannot be used with --compare",
		"--dsn dbname=x --profile 3":        "--dsn cannot be used with --compare",
		"--profile 3 --profile-runs 0":      "--profile-runs at least 1",
		"--compare off --scale 0 --pairs 1": "the scale must be at least 1",
	})
}

func TestOverheadDefaults(t *testing.T) {
	o, err := measuretest.Parse(NewOverhead, "--set steno.writers=2 --set a=b=c")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}); o.Load != want || o.Rounds != 100 || o.Seconds != 1 || o.Renew != 20 {
		t.Errorf("got %+v, %d rounds of %d s, new servers after %d", o.Load, o.Rounds, o.Seconds, o.Renew)
	}
	if want := []cluster.Setting{{Name: "steno.writers", Value: "2"}, {Name: "a", Value: "b=c"}}; !reflect.DeepEqual(o.Settings, want) {
		t.Errorf("got settings %v", o.Settings)
	}
	if o.Environment.Version != "1.2" {
		t.Errorf("got version %q", o.Environment.Version)
	}
}
