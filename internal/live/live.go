// Package live finds the ring file of the server that writes a trail, while that server runs on this machine, and
// reads what the trail does not have yet. It uses package ring, opens files for reading only, and trusts only
// files of the account of the trail's server.
package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/recovery"
	"github.com/pg-steno/pg_steno/internal/ring"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Finder finds the ring file of a trail's server.
type Finder struct {
	Ring *ring.File // of the server; nil: not found

	paths  []string
	id     uint64         // system identifier of the cluster
	owners private.Owners // accounts whose files are trusted
	data   string         // the server's data directory, if the trail is in it

	path string
	file *os.File
	info os.FileInfo
}

// New returns a Finder for the server of a trail. Paths are ring files, or directories that may contain it.
func New(t *trail.Trail, paths []string) *Finder {
	r := &Finder{paths: paths, owners: private.Owners{0, uint32(os.Geteuid())}}
	for _, s := range t.Streams {
		for _, seg := range s.Segments {
			if r.id == 0 {
				r.id = seg.Header.SystemID
			}
		}
	}
	if info, err := os.Stat(t.Path); err == nil {
		if owner, ok := private.OwnerOf(info); ok {
			r.owners = append(r.owners, owner.UID)
		}
	}
	if dir := filepath.Dir(realPath(t.Path)); isFile(filepath.Join(dir, "PG_VERSION")) {
		r.data = dir
	}
	return r
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func realPath(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	if p, err := filepath.Abs(path); err == nil {
		path = p
	}
	return path
}

// postmaster returns the process ID of the server in whose data directory the trail is: 0 if that is not known.
// none says that the server does not run. The system identifier alone does not identify a server, because
// standbys have the same one.
func (r *Finder) postmaster() (pid uint32, none bool) {
	if r.data == "" {
		return 0, false
	}
	text, err := os.ReadFile(filepath.Join(r.data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, true
	}
	line, _, _ := strings.Cut(string(text), "\n")
	n, _ := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
	return uint32(n), false
}

// Postmaster returns the process ID of the server in whose data directory the trail is; 0: it does not run, or
// is not known.
func (r *Finder) Postmaster() int {
	pid, _ := r.postmaster()
	const processes = "/proc/self"
	if _, err := os.Stat(processes); pid == 0 || err != nil {
		return int(pid)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(processes), strconv.Itoa(int(pid)))); err != nil {
		return 0 // left by a crash
	}
	return int(pid)
}

// InUse returns whether the server that uses the file still runs.
func (r *Finder) InUse() bool {
	now, err := os.Lstat(r.path)
	return err == nil && os.SameFile(now, r.info) && recovery.InUse(r.path, r.info, r.Ring.Postmaster)
}

// Close closes the ring file.
func (r *Finder) Close() {
	r.file.Close()
	r.file, r.Ring = nil, nil
}

// Find opens the server's ring file. If there is none, it returns why; empty: it was found.
func (r *Finder) Find() string {
	pid, none := r.postmaster()
	if none {
		return "no rings: the server does not run"
	}
	var unreadable error
	found := 0
	for _, path := range r.paths {
		for _, p := range candidates(path) {
			switch err := r.open(p, pid); {
			case err == nil:
				found++
			case errors.Is(err, errOther), errors.Is(err, fs.ErrNotExist):
			default:
				unreadable = err
			}
		}
	}
	if found > 1 {
		r.Close()
		return "no rings: several servers of this cluster run here, and no ring file was named"
	}
	if found == 0 && unreadable != nil {
		return "rings cannot be read: " + query.OpenError(unreadable).Error()
	}
	if found == 0 {
		return "no rings in " + strings.Join(r.paths, ", ") + ": the server does not run here"
	}
	return ""
}

// candidates returns the ring files at a path: the path itself, or those in it and in its directories of
// servers. A path that cannot be listed is returned itself, because opening it then returns the reason.
func candidates(path string) (all []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return []string{path}
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "pg_steno.") {
			continue
		}
		p := filepath.Join(path, e.Name())
		inside, err := os.ReadDir(p)
		if err != nil || !e.IsDir() {
			all = append(all, p)
			continue
		}
		for _, f := range inside {
			if strings.HasPrefix(f.Name(), "pg_steno.") {
				all = append(all, filepath.Join(p, f.Name()))
			}
		}
	}
	return all
}

var errOther = errors.New("belongs to another server, or to one that has ended")

// isForeign returns whether a file belongs to an account other than that of the trail's server.
func (r *Finder) isForeign(info fs.FileInfo) bool {
	owner, ok := private.OwnerOf(info)
	return ok && !slices.Contains(r.owners, owner.UID)
}

// open opens a ring file if the server uses it; pid is the process ID of its postmaster, if known.
func (r *Finder) open(path string, pid uint32) error {
	if info, err := os.Lstat(path); err == nil && r.isForeign(info) {
		return errOther
	}
	dir, err := private.OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := dir.Open(filepath.Base(path))
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		if wrong := r.owners.Check(info); wrong != nil {
			err = fmt.Errorf("%s: %w", path, wrong)
		}
	}
	var f *ring.File
	if err == nil {
		f, err = ring.Read(path, file, info.Size())
	}
	if err == nil && (f.SystemID != r.id || pid != 0 && f.Postmaster != pid ||
		!recovery.InUse(path, info, f.Postmaster)) {
		err = errOther
	}
	// A postmaster that has restarted its processes has created a new file.
	again := err == nil && r.file != nil && r.Ring.Postmaster == f.Postmaster
	if again && r.Ring.Created > f.Created {
		err = errOther
	}
	if err != nil {
		file.Close()
		return err
	}
	if r.file != nil {
		r.Close()
	}
	r.path, r.file, r.info, r.Ring = path, file, info, f
	if again {
		return errOther // it is counted already
	}
	return nil
}

// Unrecorded returns how many dropped records are not yet recorded in the trail.
func (r *Finder) Unrecorded() (n uint64, err error) {
	for i := range r.Ring.Rings {
		ringState, err := r.Ring.Ring(i)
		if err != nil {
			return 0, err
		}
		if orphans, ok := ringState.UnrecordedDrops(ringState.OrphanDropsRecorded); ok {
			n += orphans
		}
		n += ringState.Left.Count
		if ringState.Owner != 0 {
			n += ringState.Own.Count
		}
	}
	return n, nil
}
