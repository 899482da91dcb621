package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartStandby starts a standby of a server of the lab, and waits until it
// accepts queries. It is a copy of the template and streams all that the
// primary has written since it was one itself, so the primary must still have
// that (wal_keep_size). Its name is its application_name, which is what
// synchronous_standby_names of the primary knows it by.
func (l *Lab) StartStandby(ctx context.Context, name string, primary *Server, settings []Setting) (*Server, error) {
	data, err := l.copyTemplate(ctx, name)
	if err != nil {
		return nil, err
	}
	signal := filepath.Join(data, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return nil, err
	}
	if err := l.own(signal); err != nil {
		return nil, err
	}
	conninfo := primary.Conninfo("postgres", "postgres") + " application_name=" + name
	all := append([]Setting{{Name: "primary_conninfo", Value: conninfo}}, settings...)
	return l.start(ctx, name, data, all)
}

// WaitCaughtUp waits until that many standbys stream from the server and have
// replayed all that it had written. It asks on the caller's connection.
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
