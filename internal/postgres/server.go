// A server on a data folder.

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 60 * time.Second
)

// Setting is a line of postgresql.conf.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Server is a PostgreSQL server in a temporary folder.
type Server struct {
	Name    string
	DataDir string
	Port    int      // part of the socket's name
	Env     []string // beside that of this process

	installation *Installation
	folder       *Folder
	cmd          *exec.Cmd
	done         chan struct{} // closed when the postmaster has ended
	err          error         // how it ended; valid after done is closed
}

// NewServer returns a server on a data folder, which is not started.
func (i *Installation) NewServer(f *Folder, name, data string, port int) *Server {
	return &Server{Name: name, DataDir: data, Port: port, installation: i, folder: f, done: make(chan struct{})}
}

// Configure writes the settings to a separate file, which replaces that of an earlier start.
func (s *Server) Configure(settings []Setting) error {
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
	if err := s.installation.Own(path); err != nil {
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

// Launch starts the postmaster as a child of this process, and does not wait until it accepts connections. If this
// process dies, the server is stopped. On Linux, the kernel does that when the thread that started the child ends, so
// that thread waits. Ctrl-C on a terminal does not reach the postmaster, because it has its own process group.
func (s *Server) Launch() error {
	if s.cmd != nil {
		<-s.done // it has run before
		s.done = make(chan struct{})
	}
	log, err := os.OpenFile(s.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		close(s.done)
		return err
	}
	s.cmd = s.installation.Command(context.Background(), s.installation.Program("postgres"), "-D", s.DataDir)
	s.cmd.Env = append(s.cmd.Env, s.Env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	setGroup(s.cmd)
	dieWithParent(s.cmd, syscall.SIGINT) // a fast shutdown

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
			return fmt.Errorf("server \"%s\" was not ready within %s; the end of its log:\n%s", s.Name, startTimeout,
				s.LogTail(10))
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
	return s.end(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL)
}

// Abandon stops a server whose data is not needed any more: at once, without writing them.
func (s *Server) Abandon() error {
	return s.end(syscall.SIGQUIT, syscall.SIGKILL)
}

// end sends signals until the server ends.
func (s *Server) end(signals ...syscall.Signal) error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	for i, sig := range signals {
		select {
		case <-s.done:
			return nil
		default:
		}
		_ = s.cmd.Process.Signal(sig)
		select {
		case <-s.done:
			if i > 0 {
				return fmt.Errorf("server \"%s\" had to be killed (%s); the end of its log:\n%s", s.Name, sig,
					s.LogTail(10))
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

// SocketDir returns the folder of the server's socket.
func (s *Server) SocketDir() string { return s.folder.SocketDir() }

// LogFile returns the path of the file with the postmaster's standard error.
func (s *Server) LogFile() string { return filepath.Join(s.folder.Dir, s.Name+".log") }

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
	quote := func(v string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'" }
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", quote(s.SocketDir()), s.Port, quote(user), quote(database))
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
