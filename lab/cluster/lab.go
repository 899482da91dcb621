// A lab: a temporary directory with a template cluster, and servers that are copies of it.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/internal/postgres"
)

// Setting is a line of postgresql.conf.
type Setting = postgres.Setting

// Lab is a temporary folder with a template cluster and servers made from it.
type Lab struct {
	*Installation
	*postgres.Folder
	Env []string // environment of servers that are started from now on

	mu      sync.Mutex
	servers []*Server
}

// NewLab makes the folder and the template cluster. The superuser is postgres, and everyone is let in, unless the
// given lines of pg_hba.conf, which come first, say otherwise.
func NewLab(ctx context.Context, installation *Installation, hba ...string) (*Lab, error) {
	folder, err := installation.NewFolder()
	if err != nil {
		return nil, err
	}
	l := &Lab{Installation: installation, Folder: folder}
	if err := l.initialize(ctx, hba); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) initialize(ctx context.Context, hba []string) error {
	if err := l.Initialize(ctx, l.template(), "postgres"); err != nil {
		return err
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
	copying := l.Command(ctx, "cp", "-a", "--reflink=auto", l.template(), data)
	if out, err := copying.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot copy the template: %w\n%s", err, bytes.TrimSpace(out))
	}
	return data, nil
}

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
	return errors.Join(append(failures, l.Folder.Close())...)
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
