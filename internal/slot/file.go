// Package slot creates, moves, lists and drops slots: named positions of readers. The server may delete what is
// before a slot, and must keep what is after it. So a slot is only moved while the server deletes nothing.
package slot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// A Slot is the content of a slot's file.
type Slot struct {
	Name      string
	Created   int64      // microseconds since 2000-01-01 UTC
	Positions []Position // by stream
	// Err is why the file cannot be read; such a slot keeps everything.
	Err error
}

// Position is the first block of a stream that a slot needs; it also needs all later ones.
type Position struct {
	Stream  uint32
	Segment uint64
	Block   uint64
}

const (
	firstLine = "pg_steno slot 1\n"
	// maxFile and maxStreams are limits of the format.
	maxFile    = 64 << 10
	maxStreams = 256
)

var nameFormat = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// positionIn returns the slot's position in a stream. It needs all of a stream that it does not name.
func (s *Slot) positionIn(stream uint32) Position {
	for _, p := range s.Positions {
		if p.Stream == stream {
			return p
		}
	}
	return Position{stream, 1, 1}
}

// set changes one position.
func (s *Slot) set(p Position) {
	i, there := slices.BinarySearchFunc(s.Positions, p, func(a, b Position) int {
		return cmp.Compare(a.Stream, b.Stream)
	})
	if there {
		s.Positions[i] = p
	} else {
		s.Positions = slices.Insert(s.Positions, i, p)
	}
}

func (s *Slot) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%screated %d\n", firstLine, s.Created)
	for _, p := range s.Positions {
		fmt.Fprintf(&b, "stream %d segment %d block %d\n", p.Stream, p.Segment, p.Block)
	}
	return b.Bytes()
}

var errFormat = errors.New("not a slot, or one of a newer version")

// parse reads a slot's file.
func parse(text []byte) (created int64, positions []Position, err error) {
	rest, ok := strings.CutPrefix(string(text), firstLine)
	if !ok || len(text) > maxFile {
		return 0, nil, errFormat
	}
	line, rest, ok := strings.Cut(rest, "\n")
	digits, named := strings.CutPrefix(line, "created ")
	when, good := parseNumber(digits, 63)
	if !ok || !named || !good {
		return 0, nil, errFormat
	}
	for rest != "" {
		line, rest, ok = strings.Cut(rest, "\n")
		words := strings.Split(line, " ")
		if !ok || len(words) != 6 || words[0] != "stream" || words[2] != "segment" || words[4] != "block" {
			return 0, nil, errFormat
		}
		stream, a := parseNumber(words[1], 32)
		segment, b := parseNumber(words[3], 63)
		block, c := parseNumber(words[5], 63)
		n := len(positions)
		if !a || !b || !c || segment == 0 || block == 0 || n == maxStreams ||
			n > 0 && uint32(stream) <= positions[n-1].Stream {
			return 0, nil, errFormat
		}
		positions = append(positions, Position{uint32(stream), segment, block})
	}
	return int64(when), positions, nil
}

// parseNumber reads a number without sign and leading zeros, as encode writes it.
func parseNumber(s string, bits int) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// readAll reads the slots of a trail, by name.
func readAll(path string) ([]Slot, error) {
	dir, err := private.OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	folder, err := dir.Dir(trail.SlotsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	entries, err := folder.Entries()
	if err != nil {
		return nil, err
	}
	var all []Slot
	for _, e := range entries {
		if !nameFormat.MatchString(e.Name()) {
			continue
		}
		s, err := read(folder, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

func read(folder *private.Dir, name string) (Slot, error) {
	s := Slot{Name: name}
	f, err := folder.Open(name)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
		f.Close()
	}
	if err == nil {
		if s.Created, s.Positions, err = parse(text); err != nil {
			err = &fs.PathError{Op: "read", Path: filepath.Join(folder.Path(), name), Err: err}
		}
	}
	s.Err = err
	return s, err
}

// withLock calls f while the server deletes nothing, and no other process changes a slot. It creates the folder of
// the slots if it does not exist.
//
// The trail belongs to the server's account, and this may run as root. So new files are given to the owner of the
// trail, and links that the server's account may have created are not followed.
func withLock(path string, f func(folder *private.Dir) error) error {
	dir, err := private.OpenDir(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	folder, err := dir.Mkdir(trail.SlotsFolder, 0o700)
	switch {
	case err == nil:
		err = giveToOwner(folder, dir)
	case errors.Is(err, fs.ErrExist):
		folder, err = dir.Dir(trail.SlotsFolder)
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Lock(); err != nil {
		return err
	}
	return f(folder)
}

// giveToOwner gives what root has created to the owner of the directory: the server's account.
func giveToOwner(made interface{ Chown(uid, gid int) error }, of *private.Dir) error {
	info, err := of.Info()
	if err != nil {
		return err
	}
	return private.GiveToOwner(made, info)
}

// write creates or replaces a slot's file atomically.
func write(folder *private.Dir, s *Slot) error {
	temporary := "." + s.Name + ".new"
	// never write to an existing file: it may be a link to another one
	if err := folder.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := folder.Create(temporary, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(s.encode())
	if err == nil {
		err = giveToOwner(f, folder)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = folder.Rename(temporary, s.Name)
	}
	if err != nil {
		folder.Remove(temporary)
		return err
	}
	return folder.Sync()
}

func remove(folder *private.Dir, name string) error {
	if err := folder.Remove(name); err != nil {
		return err
	}
	return folder.Sync()
}
