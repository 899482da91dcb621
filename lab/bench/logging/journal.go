// The journal of a given server's settings, from which they are restored if this program was killed.

package logging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A journal has the original settings of a given server. It is on disk before the first setting is changed, and is
// removed when all are restored. If this program is killed in between, the next one finds it. A lock on the file,
// which the kernel releases when the program exits, prevents two programs from measuring on the same server.

// journal is the contents of the file.
type journal struct {
	Server   string          `json:"server"` // for messages: the address
	Time     time.Time       `json:"time"`
	Session  session         `json:"session"`
	Settings []journaledLine `json:"settings"`
}

// session is the server's side of the connection that changes settings.
type session struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// journaledLine is the line of a setting in postgresql.auto.conf.
type journaledLine struct {
	Name string `json:"name"`
	// Before is its original value, or nil if there was no such line.
	Before *string `json:"before"`
	// Ours are the values that this program may have set. Any other value was set by another user, and is kept.
	Ours []string `json:"ours"`
}

// journalFile is the locked file.
type journalFile struct {
	file *os.File
	path string
}

// stateDir returns the directory of journals: $XDG_STATE_HOME/steno, or its default in the user's home directory.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "steno"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no directory in which to save the server's settings: set XDG_STATE_HOME: %w", err)
	}
	return filepath.Join(home, ".local", "state", "steno"), nil
}

var errMeasured = errors.New("another \"steno bench logging\" is measuring this server")

// openJournal creates and locks the file of a server.
func openJournal(dir, server string) (*journalFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "bench-logging-"+server+".json")
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return nil, errors.Join(errMeasured, f.Close())
		}
		// The previous owner of the lock may have removed the file before it was locked here.
		opened, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(opened, named) {
			return &journalFile{f, path}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// read returns what an earlier program left, or nil. An incomplete journal counts as none, because no setting is
// changed before it is complete.
func (j *journalFile) read() (*journal, error) {
	text, err := io.ReadAll(io.NewSectionReader(j.file, 0, 1<<20))
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var old journal
	if err := json.Unmarshal(text, &old); err != nil {
		return nil, nil //nolint:nilerr // it was cut off
	}
	return &old, nil
}

// write writes the journal to disk.
func (j *journalFile) write(content *journal) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	if _, err := j.file.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(j.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// remove removes the file, and releases the lock.
func (j *journalFile) remove() error { return errors.Join(os.Remove(j.path), j.file.Close()) }

// keep only releases the lock.
func (j *journalFile) keep() error { return j.file.Close() }
