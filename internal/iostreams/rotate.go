// A file of lines for programs that follow files.

package iostreams

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RotatingFile is a file to which whole lines are appended. When it would become larger than a
// size, it is renamed to PATH.1, that to PATH.2 and so on, and a new one is begun: programs that
// follow it by name or by inode find every line. A file that was renamed or removed by
// others is begun again.
type RotatingFile struct {
	// Header is written at the beginning of each file.
	Header []byte

	path string
	size int64 // 0: it is never renamed
	keep int   // of the renamed ones
	file *os.File
	at   int64 // its length
	buf  []byte
	made bool // the folder is to be synced
}

// bufferSize is how much is written at once.
const bufferSize = 256 << 10

// OpenRotatingFile opens or creates a file. If a crash left half a line at its end, the line is
// ended there.
func OpenRotatingFile(path string, size int64, keep int, header []byte) (*RotatingFile, error) {
	f := &RotatingFile{Header: header, path: path, size: size, keep: keep}
	return f, f.open()
}

func (f *RotatingFile) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", f.path)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.at, f.made = file, info.Size(), true
	if f.at == 0 {
		return f.append(f.Header)
	}
	var end [1]byte
	if _, err := file.ReadAt(end[:], f.at-1); err != nil {
		return err
	}
	if end[0] != '\n' {
		return f.append([]byte("\n"))
	}
	return nil
}

// Write adds lines that stay together. They are in the file after Flush.
func (f *RotatingFile) Write(lines []byte) (int, error) {
	length := f.at + int64(len(f.buf))
	if f.size > 0 && length > int64(len(f.Header)) && length+int64(len(lines)) > f.size {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	f.buf = append(f.buf, lines...)
	if len(f.buf) >= bufferSize {
		return len(lines), f.Flush()
	}
	return len(lines), nil
}

// Flush writes to the file.
func (f *RotatingFile) Flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	if there, err := os.Stat(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if mine, err2 := f.file.Stat(); err != nil || err2 != nil || !os.SameFile(there, mine) {
		if err := f.close(); err != nil {
			return err
		}
		if err := f.open(); err != nil {
			return err
		}
	}
	err := f.append(f.buf)
	f.buf = f.buf[:0]
	return err
}

// append writes bytes; of what cannot be written whole, for lack of space, nothing stays.
func (f *RotatingFile) append(b []byte) error {
	n, err := f.file.Write(b)
	if err != nil && n > 0 {
		_ = f.file.Truncate(f.at)
		return err
	}
	f.at += int64(n)
	return err
}

// Sync writes to the disk.
func (f *RotatingFile) Sync() error {
	if err := f.Flush(); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	if !f.made {
		return nil
	}
	f.made = false
	return syncFolder(filepath.Dir(f.path))
}

// Close syncs and closes the file.
func (f *RotatingFile) Close() error {
	err := f.Sync()
	return errors.Join(err, f.file.Close())
}

func (f *RotatingFile) close() error {
	err := f.file.Sync()
	return errors.Join(err, f.file.Close())
}

// rotate renames the files, the oldest over the one that is too many, and begins a new one.
func (f *RotatingFile) rotate() error {
	if err := f.Flush(); err != nil {
		return err
	}
	if err := f.close(); err != nil {
		return err
	}
	for i := f.keep; i > 0; i-- {
		from := f.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", f.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", f.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, f.open())
		}
	}
	return f.open()
}

// syncFolder makes the names in a folder durable. Some systems cannot do that, and need not.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer folder.Close()
	_ = folder.Sync()
	return nil
}
