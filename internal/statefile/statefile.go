// Package statefile keeps what a command remembers from one run to the next in a file that only its owner can read,
// and that one run at a time uses.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pg-steno/pg_steno/internal/private"
)

// ErrLocked is the error of a file that another run uses.
var ErrLocked = errors.New("another run uses the file")

// File is the file of a state while it is locked.
type File struct {
	Path string
	lock *os.File
}

// Open locks the file, which need not exist.
func Open(path string) (*File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := private.TryLock(lock)
	if err == nil && !ok {
		err = ErrLocked
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &File{path, lock}, nil
}

// Close unlocks the file.
func (f *File) Close() { f.lock.Close() }

// Read reads the file; exists is false if there is none. One with more bytes than most is refused.
func (f *File) Read(most int64) (text []byte, exists bool, err error) { return Read(f.Path, most) }

// Read reads the file of a state without locking it.
func Read(path string, most int64) (text []byte, exists bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: it has more than %d bytes", path, most)
	}
	return text, true, err
}

// Write replaces the file durably and atomically: if this process dies meanwhile, the old one remains. It does not
// follow a link that somebody put in place of the temporary file.
func (f *File) Write(text []byte) error {
	temporary := f.Path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(temporary, f.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	dir, err := private.OpenDir(filepath.Dir(f.Path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
