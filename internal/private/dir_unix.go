//go:build unix

// Directories on Unix, by descriptors: no name is looked up twice, no link is followed.

package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir is an open directory.
type Dir struct{ f *os.File }

// OpenDir opens a directory by a path that somebody has chosen to name: links on it are
// followed.
func OpenDir(path string) (*Dir, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{f}, nil
}

// Path is the path that the directory was opened by.
func (d *Dir) Path() string { return d.f.Name() }

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// Info describes the directory itself.
func (d *Dir) Info() (fs.FileInfo, error) { return d.f.Stat() }

func (d *Dir) join(name string) string { return filepath.Join(d.f.Name(), name) }

func (d *Dir) failed(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: d.join(name), Err: err}
}

// at calls the system, with the directory's descriptor, until nothing interrupts it.
func (d *Dir) at(op, name string, call func(dir int) error) error {
	if name != filepath.Base(name) || name == ".." {
		return d.failed(op, name, syscall.EINVAL)
	}
	c, err := d.f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := c.Control(func(fd uintptr) {
		for {
			if result = call(int(fd)); result != syscall.EINTR {
				return
			}
		}
	}); err != nil {
		return err
	}
	if result != nil {
		return d.failed(op, name, result)
	}
	return nil
}

func (d *Dir) open(name string, flags int, perm uint32) (*os.File, error) {
	var f *os.File
	err := d.at("open", name, func(dir int) error {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err == nil {
			f = os.NewFile(uintptr(fd), d.join(name))
		}
		return err
	})
	return f, err
}

// Dir opens a directory in this one.
func (d *Dir) Dir(name string) (*Dir, error) {
	f, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{f}, nil
}

// Open opens a regular file for reading.
func (d *Dir) Open(name string) (*os.File, error) {
	// without waiting for whoever writes to a pipe
	f, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = d.failed("open", name, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Create makes a file for writing, which must not be there.
func (d *Dir) Create(name string, perm fs.FileMode) (*os.File, error) {
	return d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(perm.Perm()))
}

// Mkdir makes a directory, which must not be there, and opens it. It is an error when
// somebody has put another one in its place meanwhile.
func (d *Dir) Mkdir(name string, perm fs.FileMode) (*Dir, error) {
	if err := d.at("mkdir", name, func(dir int) error { return unix.Mkdirat(dir, name, uint32(perm.Perm())) }); err != nil {
		return nil, err
	}
	made, err := d.Dir(name)
	if err != nil {
		return nil, err
	}
	info, err := made.Info()
	if err == nil {
		err = (Owners{uint32(os.Geteuid())}).Check(info)
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = made.Entries()
	}
	if err == nil && len(entries) > 0 {
		err = errors.New("is not the one that was created")
	}
	if err != nil {
		made.Close()
		return nil, d.failed("mkdir", name, err)
	}
	return made, nil
}

// Lstat describes what a name stands for; a link is not followed.
func (d *Dir) Lstat(name string) (mode fs.FileMode, err error) {
	var st unix.Stat_t
	err = d.at("lstat", name, func(dir int) error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return 0, err
	}
	mode = fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	return mode, nil
}

// Remove removes a file.
func (d *Dir) Remove(name string) error {
	return d.at("remove", name, func(dir int) error { return unix.Unlinkat(dir, name, 0) })
}

// RemoveDir removes an empty directory.
func (d *Dir) RemoveDir(name string) error {
	return d.at("remove", name, func(dir int) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

// RemoveAll removes an entry, and what is in it when it is a directory. It is no error
// when there is none.
func (d *Dir) RemoveAll(name string) error {
	err := d.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	inside, dirErr := d.Dir(name)
	if dirErr != nil {
		return err
	}
	defer inside.Close()
	entries, err := inside.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := inside.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return d.RemoveDir(name)
}

// Rename gives an entry another name in the directory, and replaces what has it.
func (d *Dir) Rename(from, to string) error {
	if to != filepath.Base(to) || to == ".." {
		return d.failed("rename", to, syscall.EINVAL)
	}
	return d.at("rename", from, func(dir int) error { return unix.Renameat(dir, from, dir, to) })
}

// Lock locks the directory until it is closed, and waits for whoever has it locked.
func (d *Dir) Lock() error {
	return d.at("lock", ".", func(dir int) error { return syscall.Flock(dir, syscall.LOCK_EX) })
}

// TryLock locks a file until it is closed, unless another process has it locked.
func TryLock(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	default:
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// Alias is a path that leads to this very directory while it is open, whatever has
// become of the path that it was opened by, which is all that there is on some systems.
func (d *Dir) Alias() string {
	alias := fmt.Sprintf("/proc/self/fd/%d", d.f.Fd())
	if _, err := os.Stat(alias); err != nil {
		return d.Path()
	}
	return alias
}

// Entries are the directory's, by name.
func (d *Dir) Entries() ([]fs.DirEntry, error) {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	entries, err := d.f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	return entries, err
}

// Sync makes the names in the directory durable.
func (d *Dir) Sync() error {
	// some file systems cannot sync a folder, and need not
	if err := d.f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EBADF) {
		return err
	}
	return nil
}

// Chown gives the directory to an account.
func (d *Dir) Chown(uid, gid int) error { return d.f.Chown(uid, gid) }

// Chmod changes the directory's mode.
func (d *Dir) Chmod(mode fs.FileMode) error { return d.f.Chmod(mode) }

// OwnerOf returns the account that a file belongs to.
func OwnerOf(info fs.FileInfo) (owner Owner, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{}, false
	}
	return Owner{st.Uid, st.Gid}, true
}

// names is how many names a file has.
func names(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}
