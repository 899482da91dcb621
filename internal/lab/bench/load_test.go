package bench

import "testing"

const report = `pgbench (15.20 (Debian 15.20-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 16
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 14874
number of failed transactions: 0 (0.000%)
latency average = 1.058 ms
initial connection time = 20.105 ms
tps = 15116.904172 (without initial connection time)
`

func TestParseReport(t *testing.T) {
	got, err := ParseReport(report)
	if want := (Slice{TPS: 15116.904172, Transactions: 14874}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "tps = 12", "number of transactions actually processed: 0\ntps = 0.0 (without initial connection time)"} {
		if _, err := ParseReport(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestLoadCheck(t *testing.T) {
	good := Load{Workload: "select", Protocol: "prepared", Clients: 16, Scale: 10}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Load){
		func(l *Load) { l.Workload = "insert" },
		func(l *Load) { l.Protocol = "prepare" },
		func(l *Load) { l.Clients = 0 },
		func(l *Load) { l.Clients = 91 },
		func(l *Load) { l.Scale = 0 },
	} {
		l := good
		change(&l)
		if l.check() == nil {
			t.Errorf("no error for %+v", l)
		}
	}
}
