// The directory of an export: its names, and what may be in it.

package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// place is the destination of an export: a directory with a directory for each day, or, with DuckDB, a single
// file. The names of all files follow from the format and the number of the export, so that files of others are
// recognized.
type place struct {
	format string
	path   string // as the user gave it
	dir    string // directory of the manifest
	base   string // name of the single file; empty: a directory
}

// extensions maps formats to the extensions of their files.
var extensions = map[string]string{"parquet": ".parquet", "csv": ".csv", "jsonl": ".jsonl", "duckdb": ".duckdb"}

// isDirectory returns whether exports in a format are directories.
func isDirectory(format string) bool { return format != "duckdb" }

const (
	partial     = ".partial" // ends the names of unfinished files
	journalName = ".unfinished"
)

var (
	manifestName = regexp.MustCompile(`^_manifest(-(\d{6}))?\.json$`)
	dayName      = regexp.MustCompile(`^day=-?\d{4,}-\d\d-\d\d$`)
	fileName     = regexp.MustCompile(`^trail(-\d{6})?\.(parquet|csv|jsonl)$`)
)

// PlaceError says why an export cannot be at a place. The text begins with the path.
type PlaceError struct{ text string }

func (e *PlaceError) Error() string { return e.text }

func misplaced(format string, args ...any) error {
	return &PlaceError{fmt.Sprintf(format, args...)}
}

// newPlace checks a path. It refuses paths inside trails, which are never written to.
func newPlace(format, path string, trails []string) (*place, error) {
	p := &place{format: format, path: path, dir: filepath.Clean(path)}
	if !isDirectory(format) {
		p.dir, p.base = filepath.Split(filepath.Clean(path))
		p.dir = filepath.Clean(p.dir)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case p.base != "" && !info.Mode().IsRegular():
		return nil, misplaced("%s: not a regular file", path)
	case p.base == "" && !info.IsDir():
		return nil, misplaced("%s: not a directory, which an export in format %s is", path, format)
	}
	above := filepath.Dir(filepath.Clean(path))
	if info, err := os.Stat(above); err != nil || !info.IsDir() {
		return nil, misplaced("%s: %s is not an existing directory", path, above)
	}
	real := realPath(above)
	for _, t := range trails {
		if isIn(filepath.Join(real, filepath.Base(filepath.Clean(path))), realPath(t)) ||
			isIn(realPath(path), realPath(t)) {
			return nil, misplaced("%s is inside of the trail %s", path, t)
		}
	}
	return p, nil
}

func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func isIn(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

func (p *place) journal() string {
	if p.base != "" {
		return filepath.Join(p.dir, "."+p.base+journalName)
	}
	return filepath.Join(p.dir, journalName)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("-%06d", n)
}

// manifest returns the name of the manifest for the export with a number.
func (p *place) manifest(n int) string {
	if p.base != "" {
		return p.base + ".manifest.json"
	}
	return "_manifest" + number(n) + ".json"
}

// file returns the name of a day's file, with slashes.
func (p *place) file(n int, d int64) string {
	if p.base != "" {
		return p.base
	}
	return "day=" + dayText(d) + "/trail" + number(n) + extensions[p.format]
}

func dayText(d int64) string { return time.Unix(d*86400, 0).UTC().Format(time.DateOnly) }

// pathOf returns the path for a name in the export.
func (p *place) pathOf(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// inspect refuses a place that contains anything but exports from slots, or anything at all if the export is
// not from a slot. It returns the next number for an export from a slot.
func (p *place) inspect(fromSlot bool) (next int, err error) {
	if p.base != "" {
		for _, name := range []string{p.base, p.manifest(0)} {
			if _, err := os.Lstat(p.pathOf(name)); err == nil {
				return 0, misplaced("%s: %s exists, and is never overwritten", p.path, name)
			}
		}
		return 0, nil
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries { // manifests come first, then days
		m := manifestName.FindStringSubmatch(e.Name())
		switch {
		case m != nil && (!fromSlot || m[2] == ""):
			return 0, misplaced("%s has a complete export already, with %s", p.path, e.Name())
		case m != nil:
			n, _ := strconv.Atoi(m[2])
			next = max(next, n)
		case dayName.MatchString(e.Name()) && !fromSlot:
			return 0, misplaced("%s has files of an export without a manifest: %s", p.path, e.Name())
		case dayName.MatchString(e.Name()) && e.IsDir():
			n, err := p.lastNumber(e.Name())
			if err != nil {
				return 0, err
			}
			next = max(next, n)
		case filepath.Join(p.dir, e.Name()) == p.journal() ||
			strings.HasSuffix(e.Name(), ".json"+partial) &&
				manifestName.MatchString(strings.TrimSuffix(e.Name(), partial)):
		default:
			return 0, misplaced("%s: %s does not belong to an export", p.path, e.Name())
		}
	}
	if !fromSlot {
		return 0, nil
	}
	return next + 1, nil
}

// lastNumber returns the largest number in the names of a day's files, including those whose manifest was
// removed.
func (p *place) lastNumber(name string) (last int, err error) {
	files, err := os.ReadDir(p.pathOf(name))
	for _, f := range files {
		m := fileName.FindStringSubmatch(finalName(f.Name()))
		if m == nil || m[1] == "" || !f.Type().IsRegular() {
			return 0, misplaced("%s: %s/%s does not belong to an export from a slot", p.path, name, f.Name())
		}
		n, _ := strconv.Atoi(m[1][1:])
		last = max(last, n)
	}
	return last, err
}

// sweep removes what an interrupted export has left: unfinished files, and those that are in no journal and no
// manifest. keep are the files that are.
func (p *place) sweep(n int, keep []string) error {
	if p.base != "" {
		leftovers := []string{p.base + partial, p.manifest(n) + partial}
		if !slices.Contains(keep, p.base) {
			leftovers = append(leftovers, p.base)
		}
		for _, name := range leftovers {
			if err := os.RemoveAll(p.pathOf(name)); err != nil {
				return err
			}
		}
		return nil
	}
	days, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, d := range days {
		if manifestName.MatchString(strings.TrimSuffix(d.Name(), partial)) && strings.HasSuffix(d.Name(), partial) {
			err = errors.Join(err, os.Remove(p.pathOf(d.Name())))
		}
		if !dayName.MatchString(d.Name()) || !d.IsDir() {
			continue
		}
		files, err := os.ReadDir(p.pathOf(d.Name()))
		if err != nil {
			return err
		}
		left := len(files)
		for _, f := range files {
			name := d.Name() + "/" + f.Name()
			final := finalName(f.Name())
			switch {
			case !fileName.MatchString(final) || !f.Type().IsRegular():
				return misplaced("%s: %s does not belong to an export", p.path, name)
			case slices.Contains(keep, name):
			case final != f.Name(), final == "trail"+number(n)+extensions[p.format]:
				if err := os.Remove(p.pathOf(name)); err != nil {
					return err
				}
				left--
			}
		}
		if left == 0 {
			if err := os.Remove(p.pathOf(d.Name())); err != nil {
				return err
			}
		}
	}
	return err
}

// temporary returns the path for an unfinished file. Programs that read the directory of a day ignore names
// that begin with an underscore; the manifest's does, too.
func (p *place) temporary(final string) string {
	if p.base != "" {
		return final + partial
	}
	return filepath.Join(filepath.Dir(final), "_"+filepath.Base(final)+partial)
}

// finalName returns the name of a day's file when it is complete.
func finalName(name string) string {
	if strings.HasPrefix(name, "_") && strings.HasSuffix(name, partial) {
		return name[1 : len(name)-len(partial)]
	}
	return name
}

// syncDir makes changes of the names in a directory durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// replace renames a complete file durably.
func replace(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}
