// The connection to the server that is profiled. It only reads.

package profile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	applicationName = "steno profile"
	connectTimeout  = 5 * time.Second
)

// connection is our session on the server, which only reads.
type connection struct {
	conn *pgx.Conn
	pid  int
	// version is, for example, "15.20 (Debian 15.20-0+deb12u1)".
	version  string
	settings map[string]string
	// mayNot is set if the user may not see the waits of other sessions.
	mayNot bool
}

func connect(ctx context.Context, dsn string) (*connection, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = applicationName
	config.RuntimeParams["default_transaction_read_only"] = "on"
	c := &connection{settings: map[string]string{}}
	if c.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := c.look(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *connection) look(ctx context.Context) error {
	err := c.conn.QueryRow(ctx, `
		SELECT pg_backend_pid(), current_setting('server_version'), NOT pg_has_role('pg_read_all_stats', 'USAGE')`).
		Scan(&c.pid, &c.version, &c.mayNot)
	if err != nil {
		return err
	}
	rows, err := c.conn.Query(ctx, `
		SELECT name, CASE WHEN unit IS NULL OR setting IN ('0', '-1') THEN setting ELSE setting || unit END
		FROM pg_settings WHERE name = ANY($1)`, settingNames)
	if err != nil {
		return err
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		c.settings[name] = value
		return nil
	})
	return err
}

// settingNames are the settings that the advice and the report mention.
var settingNames = []string{
	"log_statement", "log_duration", "log_min_duration_statement", "log_min_duration_sample", "log_destination",
	"logging_collector",
	"log_line_prefix", "track_io_timing", "synchronous_commit", "synchronous_standby_names",
	"shared_preload_libraries",
	"shared_buffers", "fsync", "wal_sync_method", "data_directory", "max_connections",
}

func (c *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_ = c.conn.Close(ctx)
}

// activity is the state of a session.
type activity struct {
	kind  string // its backend_type
	state string
	wait  string // as in "IPC:SyncRep"
}

// event returns the session's wait event. The server shows none for a session that has just become idle.
func (a activity) event() string {
	if a.wait == "" && strings.HasPrefix(a.state, "idle") {
		return clientRead
	}
	return a.wait
}

// activities returns the states of all other sessions.
func (c *connection) activities(ctx context.Context) (map[int]activity, error) {
	rows, err := c.conn.Query(ctx, `
		SELECT pid, coalesce(backend_type, ''), coalesce(state, ''),
			coalesce(wait_event_type || ':' || wait_event, '')
		FROM pg_stat_activity WHERE pid <> pg_backend_pid()`)
	if err != nil {
		return nil, err
	}
	found := map[int]activity{}
	var pid int
	var a activity
	_, err = pgx.ForEachRow(rows, []any{&pid, &a.kind, &a.state, &a.wait}, func() error {
		found[pid] = a
		return nil
	})
	return found, err
}

// target finds the server's processes if it runs on this machine.
func (c *connection) target() (*Target, error) {
	config := c.conn.Config()
	if !strings.HasPrefix(config.Host, "/") && !isHere(c.conn.PgConn().Conn().RemoteAddr()) {
		return nil, fmt.Errorf("the server at \"%s\" is on another machine", config.Host)
	}
	t, err := AtPID(c.pid)
	if err != nil {
		return nil, fmt.Errorf("the server's processes cannot be seen from here: %w", err)
	}
	return t, nil
}

// isHere reports whether an address belongs to this machine.
func isHere(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return address != nil && address.Network() == "unix"
	}
	mine, err := net.InterfaceAddrs()
	if err != nil {
		return tcp.IP.IsLoopback()
	}
	for _, a := range mine {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(tcp.IP) {
			return true
		}
	}
	return false
}

// guess tries to connect to a server that was found by its files.
func (t *Target) guess(ctx context.Context) (*connection, error) {
	if t.DataDir == "" {
		return nil, errors.New("this user is not permitted to read the server's postmaster.pid, which states where " +
			"it listens")
	}
	if t.socketDir == "" || t.port == "" {
		return nil, errors.New("the server does not listen on any socket")
	}
	names := []string{os.Getenv("PGUSER")}
	if names[0] == "" {
		names = []string{"postgres", t.owner()}
	}
	var failed error
	for _, name := range names {
		if name == "" {
			continue
		}
		c, err := connect(ctx, fmt.Sprintf("host='%s' port=%s user='%s' dbname=postgres", t.socketDir, t.port, name))
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// owner returns the name of the account that runs the server.
func (t *Target) owner() string {
	info, err := os.Stat("/proc/" + strconv.Itoa(t.Postmaster))
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	u, err := user.LookupId(strconv.Itoa(int(stat.Uid)))
	if err != nil {
		return ""
	}
	return u.Username
}
