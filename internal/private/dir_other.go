//go:build !unix

// Directories on systems without Unix permissions: they can be read, but nothing is
// created in them.

package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Dir is an open directory. Reading it works as on Unix: os.Root resolves names in the
// open directory, and follows no link out of it. Changing it does not, because the
// accounts that files belong to are not checked here.
type Dir struct {
	root *os.Root
	path string
}

// unsupported is the error of everything that changes a directory.
func (d *Dir) unsupported(op, name string) error {
	return &fs.PathError{Op: op, Path: d.join(name),
		Err: fmt.Errorf("%w on %s: run steno on Linux or another Unix", errors.ErrUnsupported, runtime.GOOS)}
}

// OpenDir opens a directory by a path that somebody has chosen to name: links on it are
// followed.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root, path}, nil
}

// Path is the path that the directory was opened by.
func (d *Dir) Path() string { return d.path }

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Info describes the directory itself.
func (d *Dir) Info() (fs.FileInfo, error) { return d.root.Stat(".") }

func (d *Dir) join(name string) string { return filepath.Join(d.path, name) }

// check refuses what is not the name of an entry, and links.
func (d *Dir) check(op, name string) (fs.FileInfo, error) {
	if name != filepath.Base(name) || name == ".." {
		return nil, &fs.PathError{Op: op, Path: d.join(name), Err: fs.ErrInvalid}
	}
	return d.root.Lstat(name)
}

// Dir opens a directory in this one.
func (d *Dir) Dir(name string) (*Dir, error) {
	info, err := d.check("open", name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: d.join(name), Err: errors.New("not a directory")}
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Dir{root, d.join(name)}, nil
}

// Open opens a regular file for reading.
func (d *Dir) Open(name string) (*os.File, error) {
	info, err := d.check("open", name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: d.join(name), Err: ErrNotRegular}
	}
	return d.root.Open(name)
}

// Lstat describes what a name stands for; a link is not followed.
func (d *Dir) Lstat(name string) (fs.FileMode, error) {
	info, err := d.check("lstat", name)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// Entries are the directory's, by name.
func (d *Dir) Entries() ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), ".") }

// Alias is a path that leads to the directory.
func (d *Dir) Alias() string { return d.path }

// Create makes a file for writing, on Unix.
func (d *Dir) Create(name string, _ fs.FileMode) (*os.File, error) {
	return nil, d.unsupported("create", name)
}

// Mkdir makes a directory, on Unix.
func (d *Dir) Mkdir(name string, _ fs.FileMode) (*Dir, error) {
	return nil, d.unsupported("mkdir", name)
}

// Remove removes a file, on Unix.
func (d *Dir) Remove(name string) error { return d.unsupported("remove", name) }

// RemoveDir removes an empty directory, on Unix.
func (d *Dir) RemoveDir(name string) error { return d.unsupported("remove", name) }

// RemoveAll removes an entry and what is in it, on Unix.
func (d *Dir) RemoveAll(name string) error { return d.unsupported("remove", name) }

// Rename gives an entry another name, on Unix.
func (d *Dir) Rename(from, _ string) error { return d.unsupported("rename", from) }

// Lock locks the directory until it is closed, on Unix.
func (d *Dir) Lock() error { return d.unsupported("lock", ".") }

// TryLock locks a file until it is closed, on Unix.
func TryLock(f *os.File) (bool, error) {
	return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}

// Sync makes the names in the directory durable, on Unix.
func (d *Dir) Sync() error { return d.unsupported("sync", ".") }

// Chown gives the directory to an account, on Unix.
func (d *Dir) Chown(_, _ int) error { return d.unsupported("chown", ".") }

// Chmod changes the directory's mode, on Unix.
func (d *Dir) Chmod(fs.FileMode) error { return d.unsupported("chmod", ".") }

// OwnerOf returns the account that a file belongs to, on Unix.
func OwnerOf(fs.FileInfo) (owner Owner, ok bool) { return Owner{}, false }

// names is how many names a file has; what has no owner is not asked.
func names(fs.FileInfo) uint64 { return 0 }
