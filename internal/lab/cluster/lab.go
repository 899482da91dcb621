// A lab: a temporary directory with a template cluster, which a second process removes if this one is killed.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Unix socket's path has at most 107 bytes; this is for ours inside the lab.
const (
	maxSocketPath = 107
	socketInLab   = "/run/.s.PGSQL.65535"
)

// Setting is a line of postgresql.conf.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Lab is a temporary folder with a template cluster and servers made from it.
type Lab struct {
	*Installation
	Dir string
	Env []string // environment of servers that are started from now on

	janitor *janitor
	mu      sync.Mutex
	servers []*Server
}

// NewLab makes the folder and the template cluster. The superuser is
// postgres, and everyone is let in, but for what the given lines of
// pg_hba.conf say first.
func NewLab(ctx context.Context, installation *Installation, hba ...string) (*Lab, error) {
	dir, err := temporaryFolder(installation)
	if err != nil {
		return nil, err
	}
	l := &Lab{Installation: installation, Dir: dir}
	if l.janitor, err = startJanitor(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := l.initialize(ctx, hba); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// temporaryFolder makes a folder that the server's user can reach, with a path
// short enough for a socket.
func temporaryFolder(installation *Installation) (string, error) {
	dir, err := os.MkdirTemp(installation.TempDir(), "steno-")
	if err != nil {
		return "", err
	}
	return dir, installation.own(dir)
}

// TempDir returns the directory for folders of labs.
func (i *Installation) TempDir() string {
	parent := os.TempDir()
	const example = "/steno-1234567890"
	if len(parent)+len(example)+len(socketInLab) > maxSocketPath || i.credential != nil && !reachable(parent) {
		return "/tmp"
	}
	return parent
}

// reachable reports whether all accounts may search dir and all its parents.
func reachable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (l *Lab) initialize(ctx context.Context, hba []string) error {
	run := filepath.Join(l.Dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		return err
	}
	if err := l.own(run); err != nil {
		return err
	}
	initdb := l.server(ctx, l.Program("initdb"), "--pgdata", l.template(), "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb failed: %w\n%s", err, bytes.TrimSpace(out))
	}
	path := filepath.Join(l.template(), "pg_hba.conf")
	lines, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all := strings.Join(append(hba, string(lines)), "\n")
	return os.WriteFile(path, []byte(all), 0o600)
}

func (l *Lab) template() string { return filepath.Join(l.Dir, "template") }

// Prepare starts the template as a server, calls fill to create what all later servers have, and stops it.
func (l *Lab) Prepare(ctx context.Context, settings []Setting, fill func(*Server) error) error {
	s, err := l.start(ctx, "template", l.template(), settings)
	if err != nil {
		return err
	}
	err = fill(s)
	return errors.Join(err, s.Stop())
}

// Start starts a server that is a copy of the template with these settings.
// The name names its folder and its log.
func (l *Lab) Start(ctx context.Context, name string, settings []Setting) (*Server, error) {
	data, err := l.copyTemplate(ctx, name)
	if err != nil {
		return nil, err
	}
	return l.start(ctx, name, data, settings)
}

func (l *Lab) copyTemplate(ctx context.Context, name string) (data string, err error) {
	data = filepath.Join(l.Dir, name)
	if _, err := os.Stat(data); err == nil {
		return "", fmt.Errorf("there is already a server \"%s\"", name)
	}
	// As the account of the servers, which will own the copy.
	copying := l.server(ctx, "cp", "-a", "--reflink=auto", l.template(), data)
	if out, err := copying.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot copy the template: %w\n%s", err, bytes.TrimSpace(out))
	}
	return data, nil
}

// Own makes the account that runs the servers the owner of a file or folder.
func (l *Lab) Own(path string) error { return l.own(path) }

// Close stops all servers and removes the folder.
func (l *Lab) Close() error {
	l.mu.Lock()
	servers := l.servers
	l.servers = nil
	l.mu.Unlock()

	var wg sync.WaitGroup
	failures := make([]error, len(servers))
	for i, s := range servers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			failures[i] = s.Stop()
		}()
	}
	wg.Wait()
	failures = append(failures, os.RemoveAll(l.Dir))
	return errors.Join(append(failures, l.janitor.stop())...)
}

// A janitor is a process that removes a lab's folder if this process dies before it could: it waits for the end of its
// input, which the kernel closes however this process dies, then until the servers have ended, and removes the folder.
type janitor struct {
	cmd   *exec.Cmd
	input io.Closer
}

// Servers remove their lock files when they end. If one does not end within a minute, its files are removed
// nevertheless. Programs that are creating files, such as initdb, fail when their folder is removed; files that they
// created meanwhile are removed, too.
const sweep = `cat >/dev/null
[ -e "$0" ] || exit 0
n=0
while [ $n -lt 300 ] && ls "$0"/*/postmaster.pid >/dev/null 2>&1; do
  sleep 0.2
  n=$((n + 1))
done
rm -rf -- "$0"
sleep 2
rm -rf -- "$0"
`

func startJanitor(dir string) (*janitor, error) {
	j := &janitor{cmd: exec.Command("sh", "-c", sweep, dir)}
	j.cmd.Dir = "/"
	// Ctrl-C must not end it, because it has to outlive this process.
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if j.input, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the process that removes temporary files: %w", err)
	}
	return j, nil
}

// stop ends the janitor of a folder that has been removed. It may be called twice.
func (j *janitor) stop() error {
	if j == nil || j.cmd.ProcessState != nil {
		return nil
	}
	return errors.Join(j.input.Close(), j.cmd.Wait())
}

// CheckDisk returns an error if the file system of labs does not have this many bytes free.
func (i *Installation) CheckDisk(bytes uint64) error {
	parent := i.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return fmt.Errorf("cannot determine the free space in \"%s\": %w", parent, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < bytes {
		return fmt.Errorf("not enough disk space: about %d MB are needed in \"%s\", but only %d MB are free; "+
			"measure less, or set TMPDIR to another directory", bytes>>20, parent, free>>20)
	}
	return nil
}
