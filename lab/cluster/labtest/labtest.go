// Package labtest checks in tests that throw-away servers leave nothing behind.
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
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// Installation returns the installed PostgreSQL, or skips the test. Labs that the test creates are in a separate
// folder. At the end of the test, no file may be left in it, and no process with the folder on its command line.
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
	// the account of the servers must be able to search it
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

// processes returns the command lines that name the folder. Processes that are about to end get a moment to do so.
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

// CanceledAt returns a context that is canceled when this text is written to standard error, where commands report
// their progress.
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
