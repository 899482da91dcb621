// The servers of a run: a primary and its standbys, their settings, and the primary's cores.

package replication

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

const (
	standbys = 2
	// walBetweenCheckpoints is the amount of WAL after which a checkpoint is made between slices. Automatic
	// checkpoints occur only after much more, so none occurs within a slice.
	walBetweenCheckpoints = 256 << 20
	// spacePerServer is the size of a data directory, including the WAL that it keeps.
	spacePerServer = 1 << 30

	createTable = `CREATE TABLE inserted (client integer, number integer, at timestamptz DEFAULT now(), filler text)`
)

// set is a primary with its standbys.
type set struct {
	name     string
	primary  *cluster.Server
	standbys []*cluster.Server

	conn       *pgx.Conn // to the primary; its commits do not wait for a standby
	cores      string    // current affinity of the primary
	checkpoint string    // WAL location of the last checkpoint
}

// settings returns the settings of all servers, except those that make a server a primary.
func settings(clients int) []cluster.Setting {
	return []cluster.Setting{
		{Name: "max_connections", Value: strconv.Itoa(clients + 20)},
		{Name: "shared_buffers", Value: "128MB"},
		{Name: "fsync", Value: "on"},
		{Name: "autovacuum", Value: "off"},
		{Name: "checkpoint_timeout", Value: "1h"},
		{Name: "max_wal_size", Value: "1GB"},
		{Name: "wal_keep_size", Value: "512MB"},
		{Name: "log_checkpoints", Value: "off"},
	}
}

// startSet starts a primary, with additional settings, and its standbys, and waits until they are streaming.
func startSet(ctx context.Context, lab *cluster.Lab, name string, clients int, more []cluster.Setting) (*set, error) {
	s := &set{name: name, cores: allCores}
	var known []string
	for i := range standbys {
		known = append(known, fmt.Sprintf("%s_standby_%d", name, i+1))
	}
	all := append(settings(clients), cluster.Setting{
		Name: "synchronous_standby_names", Value: "ANY 1 (" + strings.Join(known, ", ") + ")"})
	var err error
	if s.primary, err = lab.Start(ctx, name+"_primary", append(all, more...)); err != nil {
		return nil, err
	}
	for _, standby := range known {
		server, err := lab.StartStandby(ctx, standby, s.primary, settings(clients))
		if err != nil {
			return nil, err
		}
		s.standbys = append(s.standbys, server)
	}
	if s.conn, err = pgx.Connect(ctx, conninfo(s.primary, "local")); err != nil {
		return nil, err
	}
	return s, errors.Join(cluster.WaitCaughtUp(ctx, s.conn, standbys), s.writeCheckpoint(ctx))
}

// conninfo returns a connection string for sessions with this synchronous_commit, and other settings.
func conninfo(s *cluster.Server, sync string, more ...cluster.Setting) string {
	Options := "-c synchronous_commit=" + sync
	for _, setting := range more {
		Options += " -c " + setting.Name + "=" + setting.Value
	}
	return s.Conninfo("postgres", "postgres") + " options='" + Options + "'"
}

// settle empties the table, and waits until the standbys have replayed everything, so that the next slice runs without
// work left from the last one.
func (s *set) settle(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, "TRUNCATE inserted"); err != nil {
		return err
	}
	if err := cluster.WaitCaughtUp(ctx, s.conn, standbys); err != nil {
		return err
	}
	var bytes int64
	err := s.conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - $1::text::pg_lsn)::bigint", s.checkpoint).Scan(&bytes)
	if err != nil || bytes < walBetweenCheckpoints {
		return err
	}
	return s.writeCheckpoint(ctx)
}

// writeCheckpoint makes a checkpoint on all servers, because old WAL is removed only after a checkpoint.
func (s *set) writeCheckpoint(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	if err := cluster.WaitCaughtUp(ctx, s.conn, standbys); err != nil {
		return err
	}
	for _, standby := range s.standbys {
		if _, err := standby.Psql(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	return s.conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&s.checkpoint)
}

// close closes the connection, even in the middle of a query.
func (s *set) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// limit restricts the primary to this many of the processors that this program may use, or to all. The other
// processes, its clients and standbys, use all.
func (s *set) limit(cores string) error {
	if cores == s.cores {
		return nil
	}
	mask, err := processors(cores)
	if err != nil {
		return err
	}
	// The postmaster comes first: processes that it forks inherit its affinity. The second pass finds those that it
	// forked during the first.
	for range 2 {
		for _, pid := range s.primary.Processes() {
			if err := unix.SchedSetaffinity(pid, mask); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("cannot limit the primary to %s processors: %w", cores, err)
			}
		}
	}
	s.cores = cores
	return nil
}

// processors returns the first of the processors that this program may use, up to this number, or all.
func processors(cores string) (*unix.CPUSet, error) {
	var ours, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		return nil, err
	}
	if cores == allCores {
		return &ours, nil
	}
	n, err := strconv.Atoi(cores)
	if err != nil {
		return nil, err
	}
	for cpu := 0; some.Count() < min(n, ours.Count()); cpu++ {
		if ours.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	return &some, nil
}

// startSets starts the servers that the matrix needs: those without pg_steno, and those with it. All are copies of one
// template, which contains the table.
func startSets(ctx context.Context, lab *cluster.Lab, m *matrix, clients int,
	phases *progress.Phases) (map[string]*set, error) {
	// A standby must have the values of some settings that its primary had according to the WAL.
	err := lab.Prepare(ctx, append(settings(clients), cluster.Setting{Name: "fsync", Value: "off"}),
		func(s *cluster.Server) error {
			_, err := s.Psql(ctx, createTable)
			return err
		})
	if err != nil {
		return nil, err
	}
	sets := map[string]*set{} // by the values of dimSteno
	byName := map[string]*set{}
	for i, steno := range m.Steno {
		name, more := "plain", []cluster.Setting(nil)
		if steno != stenoOff {
			name, more = "steno", []cluster.Setting{
				{Name: "shared_preload_libraries", Value: stenoLibrary},
				{Name: "steno.log", Value: "all"},
				{Name: "steno.retention_size", Value: "512MB"},
			}
		}
		if byName[name] == nil {
			phases.Step("a primary and two standbys", i, len(m.Steno))
			if byName[name], err = startSet(ctx, lab, name, clients, more); err != nil {
				return nil, err
			}
		}
		sets[steno] = byName[name]
	}
	return sets, nil
}
