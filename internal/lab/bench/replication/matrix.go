package replication

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Names of dimensions in cases and files.
const (
	dimSync    = "synchronous_commit"
	dimSteno   = "steno"
	dimInserts = "inserts"
	dimClients = "clients"
	dimCores   = "cores"
	dimEvent   = "event"
	dimCall    = "call"
)

// base is what the other values of synchronous_commit are compared with: the
// same server does the same, and waits for its own disk only.
const base = "local"

// syncs are the values of synchronous_commit, from the least to the most.
var syncs = []result.Value{
	{Name: "off", Title: "off"},
	{Name: base, Title: base},
	{Name: "remote_write", Title: "remote_write"},
	{Name: "on", Title: "on"},
	{Name: "remote_apply", Title: "remote_apply"},
}

const (
	stenoOff   = "off"
	stenoAsync = "async"
	stenoSync  = "sync"

	stenoLibrary = "pg_steno"
	allCores     = "all"
)

// stenos are the ways to record, with what a session sets for it.
var stenos = []result.Value{
	{Name: stenoOff, Title: "no pg_steno"},
	{Name: stenoAsync, Title: "pg_steno", Settings: []cluster.Setting{{Name: "steno.sync", Value: "none"}}},
	{Name: stenoSync, Title: "pg_steno, steno.sync=write,ddl,role", Settings: []cluster.Setting{
		{Name: "steno.sync", Value: "write,ddl,role"}}},
}

func names(values []result.Value) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.Name)
	}
	return all
}

func find(values []result.Value, name string) result.Value {
	i := slices.IndexFunc(values, func(v result.Value) bool { return v.Name == name })
	return values[i]
}

// matrix is what is varied.
type matrix struct {
	Sync    []string
	Steno   []string
	Inserts []int
	Clients []int
	Cores   []string
}

// point is one combination.
type point struct {
	sync, steno      string
	inserts, clients int
	cores            string
}

func (p point) result() result.Case {
	return result.Case{dimSync: p.sync, dimSteno: p.steno, dimInserts: strconv.Itoa(p.inserts),
		dimClients: strconv.Itoa(p.clients), dimCores: p.cores}
}

// title says what a slice is about, for people who wait for it.
func (p point) title() string {
	title := fmt.Sprintf("synchronous_commit=%s, %d clients, %s", p.sync, p.clients, insertsTitle(p.inserts))
	if p.cores != allCores {
		title += ", cores: " + p.cores
	}
	if p.steno != stenoOff {
		title += ", " + find(stenos, p.steno).Title
	}
	return title
}

// groups are the combinations, those together that are compared with each other:
// they get their slices one right after the other.
func (m *matrix) groups() [][]point {
	var all [][]point
	for _, clients := range m.Clients {
		for _, cores := range m.Cores {
			for _, inserts := range m.Inserts {
				var group []point
				for _, steno := range m.Steno {
					for _, sync := range m.Sync {
						group = append(group, point{sync, steno, inserts, clients, cores})
					}
				}
				all = append(all, group)
			}
		}
	}
	return all
}

func (m *matrix) size() int {
	return len(m.Sync) * len(m.Steno) * len(m.Inserts) * len(m.Clients) * len(m.Cores)
}

// check compares the matrix with what there is on a machine of so many cores.
func (m *matrix) check(cores int) error {
	if m.size() == 0 {
		return fmt.Errorf("an empty list means that there is nothing to measure")
	}
	for _, list := range []struct {
		flag       string
		have, want []string
	}{{"--sync", names(syncs), m.Sync}, {"--steno", names(stenos), m.Steno}} {
		for _, name := range list.want {
			if !slices.Contains(list.have, name) {
				return fmt.Errorf("%s: \"%s\" is not one of %v", list.flag, name, list.have)
			}
		}
	}
	for _, n := range m.Inserts {
		if n < 1 || n > 1000 {
			return fmt.Errorf("--inserts: %d is not between 1 and 1000", n)
		}
	}
	for _, n := range m.Clients {
		if n < 1 || n > mostClients {
			return fmt.Errorf("--clients: %d is not between 1 and %d", n, mostClients)
		}
	}
	for _, c := range m.Cores {
		if n, err := strconv.Atoi(c); c != allCores && (err != nil || n < 1 || n > cores) {
			return fmt.Errorf("--cores: \"%s\" is neither \"%s\" nor between 1 and %d, which this machine has", c,
				allCores, cores)
		}
	}
	return nil
}

// mostClients is a limit of good sense: more would measure how a machine forks, and
// each session has a ring in /dev/shm.
const mostClients = 1000

// dimensions are the matrix for a result.
func (m *matrix) dimensions() []result.Dimension {
	numbers := func(list []int) []result.Value {
		var values []result.Value
		for _, n := range list {
			values = append(values, result.Value{Name: strconv.Itoa(n), Title: strconv.Itoa(n)})
		}
		return values
	}
	var cores, sync, steno []result.Value
	for _, c := range m.Cores {
		cores = append(cores, result.Value{Name: c, Title: c})
	}
	for _, name := range m.Sync {
		v := find(syncs, name)
		v.Settings = []cluster.Setting{{Name: "synchronous_commit", Value: name}}
		sync = append(sync, v)
	}
	for _, name := range m.Steno {
		steno = append(steno, find(stenos, name))
	}
	return []result.Dimension{
		{Name: dimSync, Title: "synchronous_commit", Values: sync},
		{Name: dimSteno, Title: "recorded by", Values: steno},
		{Name: dimClients, Title: "clients", Values: numbers(m.Clients)},
		{Name: dimCores, Title: "primary's cores", Values: cores},
		{Name: dimInserts, Title: "inserts per transaction", Values: numbers(m.Inserts)},
	}
}
