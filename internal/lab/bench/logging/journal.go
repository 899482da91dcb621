// The journal of a given server's settings, from which they are restored after this
// program was killed.

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

// A journal says what a given server's settings were. It is on disk before the
// first is changed, and goes when all are what they were. When this program
// dies in between, the next one finds it. A lock on the file, which dies with
// the program, keeps two of them from measuring the same server.

// journal is the file's content.
type journal struct {
	Server   string          `json:"server"` // for people: where it is
	Time     time.Time       `json:"time"`
	Session  session         `json:"session"`
	Settings []journaledLine `json:"settings"`
}

// session is the server's side of the connection that changes settings.
type session struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// journaledLine is one setting's line of postgresql.auto.conf.
type journaledLine struct {
	Name string `json:"name"`
	// Before is its value, or nothing when there was no such line.
	Before *string `json:"before"`
	// Ours are the values that we may have set. Another value is somebody
	// else's, and stays.
	Ours []string `json:"ours"`
}

// journalFile is the locked file.
type journalFile struct {
	file *os.File
	path string
}

// stateDir is where journals are: $XDG_STATE_HOME/steno, or the same in the
// user's folder.
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

// openJournal locks the file of a server, which is made.
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
		// Whoever had the lock may have removed the file before we got it.
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

// read returns what an earlier program left, or nil. Half a journal was never
// followed by a change.
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

// write puts the journal on disk.
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

// remove takes the file away, and gives up the lock.
func (j *journalFile) remove() error { return errors.Join(os.Remove(j.path), j.file.Close()) }

// keep gives up the lock only.
func (j *journalFile) keep() error { return j.file.Close() }
