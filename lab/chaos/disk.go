// Faults of the disk: the library that makes writes and syncs fail, full disks, and power loss.

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// shim is the library that makes the trail's disk fail, controlled by files that faults.c describes.
type shim struct {
	folder string
	own    func(string) error
}

// set requests a fault, this many times; 0: until it is lifted.
func (s shim) set(name string, times int) error {
	// renamed, so that the file is complete when it appears
	unnamed := filepath.Join(s.folder, ".new")
	if err := os.WriteFile(unnamed, []byte(strings.Repeat("x", times)), 0o600); err != nil {
		return err
	}
	if err := s.own(unnamed); err != nil {
		return err
	}
	return os.Rename(unnamed, filepath.Join(s.folder, name))
}

func (s shim) unset(name string) { _ = os.Remove(filepath.Join(s.folder, name)) }

func (s shim) isSet(name string) bool {
	_, err := os.Stat(filepath.Join(s.folder, name))
	return err == nil
}

// lift ends all requested faults.
func (s shim) lift() {
	entries, _ := os.ReadDir(s.folder)
	for _, e := range entries {
		if !e.IsDir() {
			s.unset(e.Name())
		}
	}
}

// durable returns how many bytes of each segment are known to be on disk, by its path in the trail.
func (s shim) durable() map[string]int64 {
	sizes := map[string]int64{}
	files, _ := filepath.Glob(filepath.Join(s.folder, "durable", "*.steno"))
	for _, file := range files {
		stream, segment, _ := strings.Cut(filepath.Base(file), ".")
		text, _ := os.ReadFile(file)
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			sizes[filepath.Join(stream, segment)] = n
		}
	}
	return sizes
}

// mount mounts a small file system for the trail; false if that is not permitted.
func (r *round) mount() bool {
	return syscall.Mount("tmpfs", r.disk, "tmpfs", 0, "size=256m,mode=0700") == nil
}

// fillDisk uses up the free space; the returned function frees it.
func (r *round) fillDisk() (func(), error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(r.disk, &st); err != nil {
		return nil, err
	}
	filler := filepath.Join(r.disk, "filler")
	file, err := os.Create(filler)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// the load may use some meanwhile
	for left := int64(st.Bavail) * st.Bsize; left >= st.Bsize; left /= 2 {
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		_ = syscall.Fallocate(int(file.Fd()), 0, info.Size(), left)
	}
	return func() { _ = os.Remove(filler) }, nil
}

// losePower simulates the loss of everything that was not synced: of the rest of each segment, it keeps nothing, a
// part, or zeros, because a file system may do any of these.
func (r *round) losePower() error {
	durable := r.shim.durable()
	segments, err := filepath.Glob(filepath.Join(r.trail(), "*", "*.steno"))
	if err != nil {
		return err
	}
	for _, path := range segments {
		name, err := filepath.Rel(r.trail(), path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		keep, rest := durable[name], info.Size()-durable[name]
		if keep == 0 {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		if rest <= 0 {
			continue
		}
		switch r.rng.IntN(4) {
		case 0:
			keep += r.rng.Int64N(rest + 1)
		case 3: // the file keeps its length
			if err := os.Truncate(path, keep+r.rng.Int64N(rest+1)); err != nil {
				return err
			}
			keep += rest
		case 1:
			if err := os.Truncate(path, keep); err != nil {
				return err
			}
			keep += r.rng.Int64N(rest + 1) // zeros
		}
		if err := os.Truncate(path, keep); err != nil {
			return err
		}
	}
	// what is still there is on disk
	remembered, err := filepath.Glob(filepath.Join(r.shim.folder, "memory", "*"))
	if err != nil {
		return err
	}
	for _, file := range remembered {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for _, file := range r.ringFiles() {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// segmentsOf lists the segments of the trail, for messages.
func (r *round) segmentsOf() string {
	out, err := exec.Command("ls", "-lR", r.trail()).CombinedOutput()
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(out)
}
