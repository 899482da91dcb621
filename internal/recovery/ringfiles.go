// Finds ring files, and opens only those that nobody else can have planted.

package recovery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/ring"
)

// ringFile is an open ring file, and where it is.
type ringFile struct {
	*ring.File
	dir  *private.Dir
	name string
	file *os.File
}

// ringFinder opens the ring files that --rings names.
type ringFinder struct {
	*recovery
	owners private.Owners
}

// trusted are the accounts whose files are read: that of the trail, who runs the
// command, and root. What any other account has put beside them is not, even if it is
// named like a server's.
func (r *recovery) trusted() private.Owners {
	return private.Owners{0, uint32(os.Geteuid()), r.owner.UID}
}

// openRings opens the ring files, oldest first. One that cannot be read is an error of the
// report; one that must not be is an error of usage.
func (r *recovery) openRings(paths []string) error {
	r.identify()
	f := &ringFinder{r, r.trusted()}
	for _, path := range paths {
		open := f.named
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			open = f.directory
		}
		if err := open(path); err != nil {
			return err
		}
	}
	slices.SortFunc(r.files, func(a, b *ringFile) int {
		if a.Created != b.Created {
			if a.Created < b.Created {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return nil
}

func (r *recovery) closeRings() {
	for _, f := range r.files {
		f.Close()
	}
	for _, d := range r.ringDirs {
		d.Close()
	}
}

func (f *ringFinder) ignore(path string, why error) {
	f.report.Ignored = append(f.report.Ignored, fmt.Sprintf("%s: %s", path, why))
}

// keep keeps the directory open for as long as its files are.
func (f *ringFinder) keep(d *private.Dir) { f.ringDirs = append(f.ringDirs, d) }

// named opens a file that was named. Its directory is whatever it is: the file tells
// whose it is.
func (f *ringFinder) named(path string) error {
	d, err := private.OpenDir(filepath.Dir(path))
	if err != nil {
		f.report.Errors = append(f.report.Errors, err.Error())
		return nil
	}
	f.keep(d)
	return f.open(d, filepath.Base(path), path, false)
}

var errOpenToAll = errors.New("is in a directory where others can create files with any name; if it belongs to the server, name the file")

// directory opens what a directory has of the cluster: in the directories that servers
// make for themselves there, and files that were put there.
func (f *ringFinder) directory(path string) error {
	d, err := private.OpenDir(path)
	if err != nil {
		f.report.Errors = append(f.report.Errors, err.Error())
		return nil
	}
	f.keep(d)
	return f.files(d, path, true)
}

func (f *ringFinder) files(d *private.Dir, path string, outer bool) error {
	info, err := d.Info()
	var entries []fs.DirEntry
	if err == nil {
		entries, err = d.Entries()
	}
	if err != nil {
		f.report.Errors = append(f.report.Errors, err.Error())
		return nil
	}
	open := info.Mode().Perm()&0o022 != 0
	for _, e := range entries {
		p := filepath.Join(path, e.Name())
		switch {
		case !strings.HasPrefix(e.Name(), "pg_steno."):
		case outer && e.IsDir():
			err = f.own(d, e.Name(), p)
		case open:
			f.ignore(p, errOpenToAll)
		default:
			err = f.open(d, e.Name(), p, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// own opens the files of a directory that a server has made for itself.
func (f *ringFinder) own(parent *private.Dir, name, path string) error {
	d, err := parent.Dir(name)
	if err != nil {
		f.ignore(path, reasonOf(err))
		return nil
	}
	info, err := d.Info()
	if err == nil {
		err = f.owners.Check(info)
	}
	if err != nil {
		d.Close()
		f.ignore(path, err)
		return nil
	}
	f.keep(d)
	return f.files(d, path, false)
}

func reasonOf(err error) error { return errors.New(pathReason(err)) }

// open opens one file. found says that nobody has named it: one of another cluster is
// not meant, then, and one of another account was planted there.
func (f *ringFinder) open(d *private.Dir, name, path string, found bool) error {
	file, err := d.Open(name)
	if err != nil {
		if errors.Is(err, private.ErrNotRegular) {
			err = fmt.Errorf("%s: %w", path, ring.ErrNoRingFile)
		}
		f.report.Errors = append(f.report.Errors, err.Error())
		return nil
	}
	info, err := file.Stat()
	if err == nil {
		err = f.owners.Check(info)
	}
	if err != nil {
		file.Close()
		if !found {
			return exit.Usagef("%s: %s: not read. If you know what it is, make a copy that belongs to you, and name that copy", path, err)
		}
		f.ignore(path, err)
		return nil
	}
	r, err := ring.Read(path, file, info.Size())
	if err != nil {
		file.Close()
		var version *ring.VersionError
		switch {
		case errors.As(err, &version):
			return exit.Usagef("%s", err)
		case errors.Is(err, ring.ErrUnfinished):
		default:
			f.report.Errors = append(f.report.Errors, err.Error())
		}
		return nil
	}
	if f.systemID == 0 {
		f.systemID = r.SystemID
	}
	if r.SystemID != f.systemID {
		file.Close()
		if found {
			return nil
		}
		return exit.Usagef("%s: ring file belongs to cluster %d, but the trail belongs to cluster %d", path, r.SystemID, f.systemID)
	}
	if pid := serverOf(path, info, r.Postmaster); pid != 0 {
		file.Close()
		return exit.Usagef("%s: process %d uses this ring file: its server is running, and will write the contents to the trail. Stop the server first", path, pid)
	}
	f.recovery.files = append(f.recovery.files, &ringFile{r, d, name, file})
	return nil
}

// Close closes the file.
func (f *ringFile) Close() { f.file.Close() }

// moveTo puts the ring file into another directory: it is gone where it was when its
// copy is on disk.
func (f *ringFile) moveTo(to *private.Dir) error {
	dst, err := to.Create(f.name, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.file.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(dst, f.file)
	}
	if err == nil {
		err = dst.Sync()
	}
	if closed := dst.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = to.Sync()
	}
	if err != nil {
		return err
	}
	return f.dir.Remove(f.name)
}
