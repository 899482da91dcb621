// Package labtest looks in tests that throw-away servers leave nothing behind.
package labtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Installation is PostgreSQL's, or the test is skipped. Labs that the test makes
// are in a folder of their own, and at the test's end nothing of them may be left:
// no file, and no process that has the folder on its command line.
func Installation(t *testing.T) *cluster.Installation {
	t.Helper()
	i, err := cluster.Find("")
	if err != nil {
		t.Skipf("PostgreSQL is not installed: %v", err)
	}
	dir, err := os.MkdirTemp("/tmp", "steno-test-")
	if err != nil {
		t.Fatal(err)
	}
	// the server's user passes through
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		files, err := os.ReadDir(dir)
		if err != nil || len(files) > 0 {
			t.Errorf("left in the folder for temporary files: %v %v", files, err)
		}
		if commands := processes(dir); len(commands) > 0 {
			t.Errorf("processes left: %s", commands)
		}
		_ = os.RemoveAll(dir)
	})
	return i
}

// processes are the command lines that name the folder. One that is about to end
// gets a moment.
func processes(dir string) (commands [][]byte) {
	for range 100 {
		commands = nil
		paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range paths {
			if line, _ := os.ReadFile(path); bytes.Contains(line, []byte(dir)) {
				commands = append(commands, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
			}
		}
		if commands == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return commands
}

// CanceledAt is a context that ends when this text has been written to the
// error output, where commands say what they begin to do.
func CanceledAt(text string) (context.Context, *iostreams.IOStreams) {
	streams, _, _, _ := iostreams.Test()
	ctx, cancel := context.WithCancel(context.Background())
	streams.ErrOut = writer(func(p []byte) {
		if bytes.Contains(p, []byte(text)) {
			cancel()
		}
	})
	return ctx, streams
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

var _ io.Writer = writer(nil)
