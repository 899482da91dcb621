// The servers of a laboratory: primaries and standbys.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pg-steno/pg_steno/internal/postgres"
	"github.com/pg-steno/pg_steno/lab/machine"
)

const (
	startTimeout = 60 * time.Second
	firstPort    = 5432
)

// Server is a running PostgreSQL server of a lab.
type Server struct {
	*postgres.Server
	lab *Lab
}

// start starts a server on a data folder and waits until it accepts
// connections.
func (l *Lab) start(ctx context.Context, name, data string, settings []Setting) (*Server, error) {
	l.mu.Lock()
	port := firstPort
	for _, other := range l.servers {
		port = max(port, other.Port+1)
	}
	s := &Server{Server: l.NewServer(l.Folder, name, data, port), lab: l}
	s.Env = l.Env
	l.servers = append(l.servers, s)
	l.mu.Unlock()

	if err := s.Configure(settings); err != nil {
		return nil, err
	}
	if err := s.Launch(); err != nil {
		return nil, err
	}
	if err := s.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Processes returns the IDs of the server's current processes: the postmaster and its children.
func (s *Server) Processes() []int {
	pids := []int{s.PID()}
	children, _ := machine.Here.AllChildren(s.PID())
	for _, p := range children {
		pids = append(pids, p.PID)
	}
	return pids
}

// Psql runs a script as the superuser and returns its output: unaligned values, a line per row.
func (s *Server) Psql(ctx context.Context, script string) (string, error) {
	psql := s.lab.Client(ctx, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", s.Conninfo("postgres", "postgres"))
	psql.Stdin = strings.NewReader(script)
	out, err := postgres.Output(ctx, psql, fmt.Sprintf("psql on server \"%s\"", s.Name))
	return strings.TrimSpace(out), err
}

// Pgbench runs pgbench as the superuser and returns its report.
func (s *Server) Pgbench(ctx context.Context, args ...string) (string, error) {
	pgbench := s.lab.Client(ctx, "pgbench", append(args, s.Conninfo("postgres", "postgres"))...)
	return postgres.Output(ctx, pgbench, fmt.Sprintf("pgbench on server \"%s\"", s.Name))
}

// StartStandby starts a standby of a server of the lab, and waits until it accepts queries. It is a copy of the
// template and streams all WAL that the primary has written since it was such a copy itself, so the primary must still
// have that (wal_keep_size). Its application_name is its name, for the primary's synchronous_standby_names.
func (l *Lab) StartStandby(ctx context.Context, name string, primary *Server, settings []Setting) (*Server, error) {
	data, err := l.copyTemplate(ctx, name)
	if err != nil {
		return nil, err
	}
	signal := filepath.Join(data, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return nil, err
	}
	if err := l.Own(signal); err != nil {
		return nil, err
	}
	conninfo := primary.Conninfo("postgres", "postgres") + " application_name=" + name
	all := append([]Setting{{Name: "primary_conninfo", Value: conninfo}}, settings...)
	return l.start(ctx, name, data, all)
}

// WaitCaughtUp waits until this many standbys stream from the server and have replayed all WAL that it had written. It
// uses the caller's connection.
func WaitCaughtUp(ctx context.Context, primary *pgx.Conn, standbys int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var lsn string
	if err := primary.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&lsn); err != nil {
		return err
	}
	for {
		var n int
		err := primary.QueryRow(ctx, `
			SELECT count(*) FROM pg_stat_replication
			WHERE state = 'streaming' AND replay_lsn >= $1::text::pg_lsn`, lsn).Scan(&n)
		if err == nil && n >= standbys {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d standbys have replayed the primary's log up to %s: %w", n, standbys, lsn,
				ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
		if err != nil {
			return err
		}
	}
}
