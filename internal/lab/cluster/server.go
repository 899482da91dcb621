// The servers of a laboratory: primaries and standbys.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pg-steno/pg_steno/internal/lab/machine"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 60 * time.Second
	firstPort    = 5432
)

// Server is a running PostgreSQL server of a lab.
type Server struct {
	Name    string
	DataDir string
	Port    int // part of the socket's name

	lab  *Lab
	cmd  *exec.Cmd
	done chan struct{} // closed when the postmaster has ended
	err  error         // how it ended; valid after done is closed
}

// start starts a server on a data folder and waits until it accepts
// connections.
func (l *Lab) start(ctx context.Context, name, data string, settings []Setting) (*Server, error) {
	l.mu.Lock()
	port := firstPort
	for _, other := range l.servers {
		port = max(port, other.Port+1)
	}
	s := &Server{Name: name, DataDir: data, Port: port, lab: l, done: make(chan struct{})}
	l.servers = append(l.servers, s)
	l.mu.Unlock()

	if err := s.configure(settings); err != nil {
		close(s.done)
		return nil, err
	}
	if err := s.launch(); err != nil {
		return nil, err
	}
	if err := s.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// configure writes the settings to a separate file, which replaces that of an earlier start.
func (s *Server) configure(settings []Setting) error {
	var b strings.Builder
	write := func(name, value string) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	write("listen_addresses", "")
	write("unix_socket_directories", s.SocketDir())
	write("port", strconv.Itoa(s.Port))
	for _, setting := range settings {
		write(setting.Name, setting.Value)
	}
	path := filepath.Join(s.DataDir, "lab.conf")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return err
	}
	if err := s.lab.own(path); err != nil {
		return err
	}

	const include = "include 'lab.conf'\n"
	main := filepath.Join(s.DataDir, "postgresql.conf")
	text, err := os.ReadFile(main)
	if err != nil || bytes.HasSuffix(text, []byte(include)) {
		return err
	}
	return os.WriteFile(main, append(text, include...), 0o600)
}

// launch starts the postmaster as a child of this process. If this process dies, the kernel sends it SIGINT, for a fast
// shutdown. The kernel does so when the thread that started the child ends, so that thread waits. Ctrl-C on a terminal
// does not reach the postmaster, because it has its own process group.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.cmd = s.lab.server(context.Background(), s.lab.Program("postgres"), "-D", s.DataDir)
	s.cmd.Env = append(s.cmd.Env, s.lab.Env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr.Setpgid = true
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGINT

	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer log.Close()
		err := s.cmd.Start()
		if err != nil {
			close(s.done)
		}
		started <- err
		if err == nil {
			s.err = s.cmd.Wait()
			close(s.done)
		}
	}()
	return <-started
}

// Launch starts the postmaster again, after its end, and does not wait until it
// accepts connections.
func (s *Server) Launch() error {
	<-s.done
	s.done = make(chan struct{})
	return s.launch()
}

// WaitReady waits, as pg_ctl does, until the postmaster's lock file states that it is ready, or a consistent standby.
func (s *Server) WaitReady(ctx context.Context) error {
	const statusLine = 7 // LOCK_FILE_LINE_PM_STATUS, from zero
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(startTimeout)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("server \"%s\" was not ready within %s; the end of its log:\n%s", s.Name, startTimeout, s.LogTail(10))
		case <-s.done:
			return fmt.Errorf("server \"%s\" did not start; the end of its log:\n%s", s.Name, s.LogTail(10))
		case <-tick.C:
		}
		text, _ := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
		lines := strings.Split(string(text), "\n")
		// the file may be that of a killed postmaster
		if len(lines) > statusLine && lines[0] == strconv.Itoa(s.PID()) {
			if status := strings.TrimSpace(lines[statusLine]); status == "ready" || status == "standby" {
				return nil
			}
		}
	}
}

// Stop requests a fast shutdown and waits for the end of the server. A server that does not stop within a minute is
// killed, which is an error. Stop may be called twice.
func (s *Server) Stop() error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		select {
		case <-s.done:
			return nil
		default:
		}
		_ = s.cmd.Process.Signal(sig)
		select {
		case <-s.done:
			if sig != syscall.SIGINT {
				return fmt.Errorf("server \"%s\" had to be killed (%s); the end of its log:\n%s", s.Name, sig, s.LogTail(10))
			}
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("server \"%s\" cannot be killed", s.Name)
}

// Signal sends the postmaster a signal.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// Ended returns a channel that is closed when the postmaster has ended.
func (s *Server) Ended() <-chan struct{} { return s.done }

// PID returns the postmaster's process ID.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Processes returns the IDs of the server's current processes: the postmaster and its children.
func (s *Server) Processes() []int {
	pids := []int{s.PID()}
	children, _ := machine.Here.AllChildren(s.PID())
	for _, p := range children {
		pids = append(pids, p.PID)
	}
	return pids
}

// SocketDir returns the folder of the server's socket.
func (s *Server) SocketDir() string { return filepath.Join(s.lab.Dir, "run") }

// LogFile returns the path of the file with the postmaster's standard error.
func (s *Server) LogFile() string { return filepath.Join(s.lab.Dir, s.Name+".log") }

// LogTail returns the last lines of the log file.
func (s *Server) LogTail(lines int) string {
	text, err := os.ReadFile(s.LogFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Conninfo returns a connection string in libpq's format.
func (s *Server) Conninfo(user, database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.SocketDir(), s.Port, user, database)
}

// Psql runs a script as the superuser and returns its output: unaligned values, a line per row.
func (s *Server) Psql(ctx context.Context, script string) (string, error) {
	psql := s.lab.Client(ctx, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", s.Conninfo("postgres", "postgres"))
	psql.Stdin = strings.NewReader(script)
	out, err := Output(ctx, psql, fmt.Sprintf("psql on server \"%s\"", s.Name))
	return strings.TrimSpace(out), err
}

// Pgbench runs pgbench as the superuser and returns its report.
func (s *Server) Pgbench(ctx context.Context, args ...string) (string, error) {
	pgbench := s.lab.Client(ctx, "pgbench", append(args, s.Conninfo("postgres", "postgres"))...)
	return Output(ctx, pgbench, fmt.Sprintf("pgbench on server \"%s\"", s.Name))
}

// Output runs a client program and returns its output. The error begins with name and ends with the client's message;
// if the context has ended, it is the context's error.
func Output(ctx context.Context, client *exec.Cmd, name string) (string, error) {
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
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
	if err := l.own(signal); err != nil {
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
