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
	Port    int // names its socket

	lab  *Lab
	cmd  *exec.Cmd
	done chan struct{} // closed when the postmaster has ended
	err  error         // how it ended; to be read after done
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

// configure writes the settings into a file of their own, which replaces what
// an earlier start wrote.
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

// launch starts the postmaster as our child. Were we to die, the kernel would
// send it SIGINT, its fast shutdown. The kernel takes the end of the thread
// that started the child for the end of the parent, so that thread waits.
// Ctrl-C on a terminal does not reach it: it has its own process group.
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

// WaitReady waits until the postmaster writes into its lock file that it is
// ready, or a standby that is consistent, as pg_ctl does.
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
		// a killed postmaster leaves its file behind
		if len(lines) > statusLine && lines[0] == strconv.Itoa(s.PID()) {
			if status := strings.TrimSpace(lines[statusLine]); status == "ready" || status == "standby" {
				return nil
			}
		}
	}
}

// Stop shuts the server down, fast, and waits for its end. A server that does
// not end within a minute is killed, which is an error. Stopping twice is
// fine.
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

// Ended is closed when the postmaster has ended.
func (s *Server) Ended() <-chan struct{} { return s.done }

// PID is the postmaster's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Processes are the ids of the server's processes: the postmaster, and its
// children as they are now.
func (s *Server) Processes() []int {
	pids := []int{s.PID()}
	children, _ := machine.Here.AllChildren(s.PID())
	for _, p := range children {
		pids = append(pids, p.PID)
	}
	return pids
}

// SocketDir is the folder of the server's socket.
func (s *Server) SocketDir() string { return filepath.Join(s.lab.Dir, "run") }

// LogFile is where the postmaster's standard error goes.
func (s *Server) LogFile() string { return filepath.Join(s.lab.Dir, s.Name+".log") }

// LogTail is the last lines of the log file.
func (s *Server) LogTail(lines int) string {
	text, err := os.ReadFile(s.LogFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Conninfo is a connection string for libpq and its kin.
func (s *Server) Conninfo(user, database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.SocketDir(), s.Port, user, database)
}

// Psql runs a script as the superuser and returns its output: bare values, a
// row a line.
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

// Output runs a client program, and returns what it prints. The error begins with
// name, and ends with what the client said; when the context has ended, it is that.
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
