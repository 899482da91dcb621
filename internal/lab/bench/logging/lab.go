package logging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// place is where variants are measured: servers that are made for it, or one
// that is given.
type place interface {
	// use returns the server that has the variant's settings in force.
	use(ctx context.Context, v variant) (*target, error)
}

// labPlace has a server for each variant, all copies of one data folder.
type labPlace struct {
	lab     *cluster.Lab
	servers map[string]*target
}

// spare connections, for our own and the server's.
const spare = 20

// openLab makes the servers. Its lab is to be closed by the caller, also after
// an error.
func openLab(ctx context.Context, lab *cluster.Lab, o *Options, list []variant, p *progress.Phases) (*labPlace, error) {
	p.Phase(fmt.Sprintf("initializing pgbench's tables, scale %d", o.Scale))
	if err := fillTemplate(ctx, lab, o); err != nil {
		return nil, err
	}
	l := &labPlace{lab: lab, servers: map[string]*target{}}
	p.Phase("starting servers")
	for i, v := range list {
		p.Step(v.title, i, len(list))
		s, err := lab.Start(ctx, v.name, serverSettings(v, o))
		if err != nil {
			return nil, err
		}
		if err := o.warm(ctx, s); err != nil {
			return nil, err
		}
		l.servers[v.name] = &target{
			pgbench: s.Pgbench, processes: &tree{machine.Here, s.PID()},
			written: func(context.Context) (int64, error) { return logAndTrail(s) },
			tidy:    func() error { return emptyLogs(s) },
		}
	}
	return l, nil
}

func fillTemplate(ctx context.Context, lab *cluster.Lab, o *Options) error {
	fast := []cluster.Setting{
		{Name: "fsync", Value: "off"}, {Name: "shared_buffers", Value: "256MB"}, {Name: "max_wal_size", Value: "8GB"},
	}
	return lab.Prepare(ctx, fast, func(s *cluster.Server) error {
		if o.needsTables() {
			if _, err := s.Pgbench(ctx, "-iq", "--init-steps=dtgvp", "--scale="+strconv.Itoa(o.Scale)); err != nil {
				return err
			}
		}
		if o.Setup == "" {
			return nil
		}
		script, err := os.ReadFile(o.Setup)
		if err != nil {
			return err
		}
		_, err = s.Psql(ctx, string(script))
		return err
	})
}

// warm reads pgbench's table into the cache, by its index: a scan of a big
// table would not stay there.
func (o *Options) warm(ctx context.Context, s *cluster.Server) error {
	if !o.needsTables() {
		return nil
	}
	_, err := s.Psql(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT sum(abalance) FROM pgbench_accounts WHERE aid >= 0`)
	return err
}

// serverSettings are all of a variant's server; what --set says comes last.
func serverSettings(v variant, o *Options) []cluster.Setting {
	all := append(slices.Clone(bench.BaseSettings),
		cluster.Setting{Name: "max_connections", Value: strconv.Itoa(slices.Max(o.Clients) + spare)})
	return append(append(append(all, preloadSetting(v)...), v.settings...), o.settings...)
}

func preloadSetting(v variant) []cluster.Setting {
	if len(v.preload) == 0 {
		return nil
	}
	return []cluster.Setting{{Name: "shared_preload_libraries", Value: strings.Join(v.preload, ", ")}}
}

func (l *labPlace) use(_ context.Context, v variant) (*target, error) { return l.servers[v.name], nil }

func logDir(s *cluster.Server) string { return filepath.Join(s.DataDir, "log") }

func logAndTrail(s *cluster.Server) (int64, error) {
	logs, err := bench.TreeSize(logDir(s))
	if err != nil {
		return 0, err
	}
	trail := bench.TrailDir(s)
	if _, err := os.Stat(trail); errors.Is(err, os.ErrNotExist) {
		return logs, nil
	}
	n, err := bench.TrailSize(trail)
	return logs + n, err
}

// emptyLogs makes room for the next slice's. The logger appends, so it goes on
// at the beginning.
func emptyLogs(s *cluster.Server) error {
	files, err := filepath.Glob(filepath.Join(logDir(s), "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Truncate(file, 0); err != nil {
			return err
		}
	}
	return nil
}

// diskNeeded is a generous estimate of what the servers take, in bytes: their
// tables, what they write ahead, and the logs of one slice, for as many
// transactions as this machine's processors could make.
func (o *Options) diskNeeded(servers, cores int) int64 {
	const (
		mb      = 1 << 20
		cluster = 64 * mb // an empty one, with its first WAL segments
		scale   = 16 * mb // pgbench's tables, for each unit of the scale
		wal     = 5 * mb  // a second, of a processor that only writes
		mostWAL = 8 << 30 // max_wal_size
		log     = 20 * mb // a second, of a processor whose every statement is logged
	)
	each := int64(cluster) + int64(cores*o.Seconds)*log
	if o.needsTables() {
		each += int64(o.Scale) * scale
	}
	written := int64(0)
	for _, p := range o.points {
		if p.workload.writes {
			written += int64(cores*o.Seconds*o.Rounds) * wal
		}
	}
	return int64(servers+1) * (each + min(written, mostWAL))
}
