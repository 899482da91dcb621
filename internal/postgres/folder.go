// A temporary folder, which a second process removes if this one is killed.

package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A Unix socket's path has at most 107 bytes, on macOS 103; this is for ours inside the folder.
const (
	maxSocketPath  = 103
	socketInFolder = "/run/.s.PGSQL.65535"
)

// Folder is a temporary folder for servers.
type Folder struct {
	Dir     string
	janitor *janitor
}

// NewFolder makes a folder that the servers' account can reach, with a path short enough for a socket, and in it the
// folder for sockets.
func (i *Installation) NewFolder() (*Folder, error) {
	// The janitor is there first, so that the folder does not stay whenever this process is killed. Nobody else can
	// have a folder of this name.
	dir := filepath.Join(i.TempDir(), "steno-"+strings.ToLower(rand.Text()[:16]))
	f := &Folder{Dir: dir}
	var err error
	if f.janitor, err = startJanitor(dir); err != nil {
		return nil, err
	}
	if err = os.Mkdir(dir, 0o700); err != nil {
		return nil, errors.Join(err, f.janitor.stop())
	}
	err = i.Own(dir)
	if err == nil {
		err = os.Mkdir(f.SocketDir(), 0o700)
	}
	if err == nil {
		err = i.Own(f.SocketDir())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// SocketDir returns the folder of the servers' sockets.
func (f *Folder) SocketDir() string { return filepath.Join(f.Dir, "run") }

// Close removes the folder, whose servers have been stopped.
func (f *Folder) Close() error {
	err := os.RemoveAll(f.Dir)
	for n := 0; err != nil && n < 20; n++ { // a program that was killed may have created files meanwhile
		time.Sleep(50 * time.Millisecond)
		err = os.RemoveAll(f.Dir)
	}
	return errors.Join(err, f.janitor.stop())
}

// TempDir returns the directory for folders.
func (i *Installation) TempDir() string {
	parent := os.TempDir()
	const example = "/steno-1234567890123456"
	if len(parent)+len(example)+len(socketInFolder) > maxSocketPath || i.account != nil && !reachable(parent) {
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

// Initialize makes a data folder with initdb: everyone who reaches the socket is let in.
func (i *Installation) Initialize(ctx context.Context, data, superuser string, args ...string) error {
	initdb := i.Command(ctx, i.Program("initdb"),
		append([]string{"--pgdata", data, "--username", superuser, "--auth", "trust",
			"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"}, args...)...)
	setGroup(initdb)
	initdb.Cancel = func() error { return killGroup(initdb) }
	// It makes the folder if that is not there: it must not outlive this process, and what removes the folder then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(initdb, syscall.SIGKILL)
	out, err := initdb.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("initdb failed: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// A janitor is a process that removes a folder if this process dies before it could: it waits for the end of its
// input, which the kernel closes however this process dies, stops the servers, waits until they have ended, and
// removes the folder.
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
  for f in "$0"/*/postmaster.pid; do
    read -r pid <"$f" && [ "$pid" -gt 1 ] && [ $n -eq 5 ] && kill -INT "$pid"
  done 2>/dev/null
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
	setGroup(j.cmd) // Ctrl-C must not end it, because it has to outlive this process
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
