// The modes: settings and faults, and the records that may be missing with these.

package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// A mode is a guarantee: which records may be missing with these settings and faults.
type mode struct {
	name     string
	weight   int
	settings []cluster.Setting
	// last is a fault that ends the load; the server is started again after it.
	last string
	// mayMiss reports whether an answered statement may have no record.
	mayMiss func(r *round, s *statement) bool
	// gaps is set if gap records must account for missing records.
	gaps bool
	// syncs is set if statements wait for the disk.
	syncs bool
}

var modes = []mode{
	// Kills of processes lose nothing.
	{name: "wait", weight: 6, settings: []cluster.Setting{{Name: "steno.delivery", Value: "wait"}}},

	// Gap records account for everything that is lost.
	{name: "drop", weight: 2, settings: []cluster.Setting{{Name: "steno.delivery", Value: "drop"}}, gaps: true},

	// Power loss: loses at most what was answered within steno.flush_interval and steno.fsync_interval before, and
	// nothing from before a steno.flush().
	{name: "power", weight: 2, settings: []cluster.Setting{{Name: "steno.delivery", Value: "wait"}},
		last: "power loss",
		mayMiss: func(r *round, s *statement) bool {
			return s.ended.After(r.flushed()) && s.ended.After(r.lost.Add(-r.window()-sluggish))
		}},

	// The same, but answered statements of the classes of steno.sync, and everything that their session did before,
	// must not be lost; nor, with class transaction, the end of their transaction.
	{name: "sync", weight: 2, settings: []cluster.Setting{{Name: "steno.delivery", Value: "wait"}}, last: "power loss",
		syncs:   true,
		mayMiss: mayMissUnlessAssured},

	// The same without waits at starts, on which the promises of a transaction's end do not depend.
	{name: "commit", weight: 2, settings: []cluster.Setting{{Name: "steno.delivery", Value: "wait"},
		{Name: "steno.sync_start", Value: "off"}},
		last: "power loss", syncs: true, mayMiss: mayMissUnlessAssured},
}

// mayMissUnlessAssured allows that statements are missing that no answer after a wait for the disk has assured, if
// they ended in the loss window.
func mayMissUnlessAssured(r *round, s *statement) bool {
	return !s.assured && s.ended.After(r.flushed()) && s.ended.After(r.lost.Add(-r.window()-sluggish))
}

// sluggish is a tolerance for late wake-ups on a machine under load; the measured value is printed.
const sluggish = 5 * time.Second

func modeNames() []string {
	var names []string
	for _, m := range modes {
		names = append(names, m.name)
	}
	return names
}

// chooseMode returns the named mode, or a random one.
func chooseMode(rng *rand.Rand, name string) *mode {
	total := 0
	for i := range modes {
		if modes[i].name == name {
			return &modes[i]
		}
		total += modes[i].weight
	}
	n := rng.IntN(total)
	for i := range modes {
		if n -= modes[i].weight; n < 0 {
			return &modes[i]
		}
	}
	panic("unreachable")
}

// config is the configuration of a round's server.
type config struct {
	mode     *mode
	clients  int
	writers  int
	ringSize int // kB
	flush    time.Duration
	fsync    time.Duration
	tmpfs    bool // the trail is on a small file system of its own
	parallel bool // parallel workers and autovacuum are enabled
	sync     string
	// gaps is set if gap records must account for missing records.
	gaps bool
	keeping
	settings []cluster.Setting
}

func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

func newConfig(o *Options, n int) *config {
	rng := rounds.Random(o.Seed, n, "settings")
	c := &config{
		mode:     chooseMode(rng, o.Mode),
		clients:  pick(rng, 4, 8, 8, 16, 16, 40),
		writers:  pick(rng, 1, 1, 2, 3),
		ringSize: pick(rng, 16, 16, 32, 64, 128),
		flush:    pick[time.Duration](rng, 200, 200, 20, 1, 1000) * time.Millisecond,
		fsync:    pick[time.Duration](rng, 1000, 1000, 0, 100) * time.Millisecond,
		tmpfs:    rng.IntN(4) == 0,
		parallel: rng.IntN(3) == 0,
	}
	if rng.IntN(12) == 0 {
		c.clients = 500
	}
	if o.Clients > 0 {
		c.clients = o.Clients
	}
	set := func(name, value string) { c.settings = append(c.settings, cluster.Setting{Name: name, Value: value}) }
	set("max_connections", strconv.Itoa(c.clients+30))
	set("steno.writers", strconv.Itoa(c.writers))
	set("steno.ring_size", fmt.Sprintf("%dkB", c.ringSize))
	set("steno.large_buffers", pick(rng, "0", "256kB", "4MB"))
	set("steno.flush_interval", fmt.Sprintf("%dms", c.flush.Milliseconds()))
	set("steno.fsync_interval", fmt.Sprintf("%dms", c.fsync.Milliseconds()))
	set("steno.segment_size", pick(rng, "1MB", "1MB", "64MB"))
	set("steno.block_size", pick(rng, "64kB", "256kB", "1MB"))
	set("steno.compression", pick(rng, "lz4", "lz4", "none"))
	set("steno.start_after", pick(rng, "1000", "50", "-1"))
	set("steno.log_start", pick(rng, "none", "none", "write", "all"))
	if c.parallel {
		set("autovacuum", "on")
		set("autovacuum_naptime", "1s")
		set("autovacuum_vacuum_scale_factor", "0")
		set("autovacuum_vacuum_threshold", "20")
		set("max_worker_processes", "16")
		set("min_parallel_table_scan_size", "0")
		set("parallel_setup_cost", "0")
		set("parallel_tuple_cost", "0")
	} else {
		set("autovacuum", "off")
	}
	set("plan_cache_mode", pick(rng, "auto", "auto", "force_generic_plan"))
	c.keeping.choose(rng, set)
	c.gaps = c.mode.gaps || c.onFailure == "continue" || c.onFailure == "shutdown"
	c.settings = append(c.settings, c.mode.settings...)
	if c.mode.syncs {
		c.sync = pick(rng, "write, ddl, role", "write, ddl, role", "all")
		set("steno.sync", c.sync)
	}
	return c
}

// fixed are the settings of all servers.
var fixed = []cluster.Setting{
	{Name: "shared_preload_libraries", Value: "pg_steno"},
	{Name: "shared_buffers", Value: "16MB"},
	// the server's own files need not survive a power loss
	{Name: "fsync", Value: "off"},
	{Name: "restart_after_crash", Value: "on"},
	{Name: "max_prepared_transactions", Value: "600"},
	{Name: "max_wal_size", Value: "256MB"},
	{Name: "log_checkpoints", Value: "off"},
	{Name: "log_line_prefix", Value: "%m [%p] %a "},
	{Name: "log_min_messages", Value: "warning"},
	{Name: "log_min_error_statement", Value: "panic"},
	{Name: "log_error_verbosity", Value: "terse"},
	{Name: "client_min_messages", Value: "warning"}, /* waits that are canceled */
}
