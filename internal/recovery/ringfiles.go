// Finds ring files, and opens only those that no untrusted account can have created.

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

// ringFile is an open ring file and its path.
type ringFile struct {
	*ring.File
	dir  *private.Dir
	name string
	file *os.File
}

// ringFinder opens ring files that are named, and those in directories that are.
type ringFinder struct {
	*recovery
	owners private.Owners
}

// trusted returns the accounts whose files are read: the owner of the trail, the account that runs the command, and
// root. Files of other accounts are not read, even if they have names like a server's.
func (r *recovery) trusted() private.Owners {
	return private.Owners{0, uint32(os.Geteuid()), r.owner.UID}
}

// openRings opens the ring files, oldest first. A file that cannot be read is an error in the report; one that must
// not be read is a usage error.
func (r *recovery) openRings(paths []string) error {
	r.identify()
	f := &ringFinder{r, r.trusted()}
	for _, path := range paths {
		open := f.openNamed
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			open = f.openDirectory
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

// keepOpen keeps the directory open for as long as its files are.
func (f *ringFinder) keepOpen(d *private.Dir) { f.ringDirs = append(f.ringDirs, d) }

// openNamed opens a file that was named. Only the owner of the file counts, not that of its directory.
func (f *ringFinder) openNamed(path string) error {
	d, err := private.OpenDir(filepath.Dir(path))
	if err != nil {
		f.report.Errors = append(f.report.Errors, err.Error())
		return nil
	}
	f.keepOpen(d)
	return f.open(d, filepath.Base(path), path, false)
}

var errOpenToAll = errors.New("is in a directory where others can create files with any name; if it belongs to the " +
	"server, name the file")

// openDirectory opens the cluster's ring files in a directory: those in directories that servers have created there,
// and those directly in it.
func (f *ringFinder) openDirectory(path string) error {
	d, err := private.OpenDir(path)
	if err != nil {
		f.report.Errors = append(f.report.Errors, err.Error())
		return nil
	}
	f.keepOpen(d)
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
			err = f.openOwnDirectory(d, e.Name(), p)
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

// openOwnDirectory opens the files of a directory that a server has created for itself.
func (f *ringFinder) openOwnDirectory(parent *private.Dir, name, path string) error {
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
	f.keepOpen(d)
	return f.files(d, path, false)
}

func reasonOf(err error) error { return errors.New(pathReason(err)) }

// open opens one file. found is set if the file was found, and not named: it is then ignored if it belongs to another
// cluster or to an untrusted account.
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
			return exit.Usagef("%s: %s: not read. If you know what it is, make a copy that belongs to you, and name "+
				"that copy", path, err)
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
		return exit.Usagef("%s: ring file belongs to cluster %d, but the trail belongs to cluster %d", path,
			r.SystemID, f.systemID)
	}
	if pid := serverOf(path, info, r.Postmaster); pid != 0 {
		file.Close()
		return exit.Usagef("%s: process %d uses this ring file: its server is running, and will write the contents "+
			"to the trail. Stop the server first", path, pid)
	}
	f.recovery.files = append(f.recovery.files, &ringFile{r, d, name, file})
	return nil
}

// Close closes the file.
func (f *ringFile) Close() { f.file.Close() }

// moveTo moves the ring file to another directory: it is removed from its place once its copy is on disk.
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
