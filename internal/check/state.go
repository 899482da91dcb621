// The state that is kept from one check to the next.

package check

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/statefile"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// stateVersion is the version of the state file.
const stateVersion = 1

// state is the contents of the state file.
type state struct {
	Version   int        `json:"version"`
	System    uint64     `json:"system_id,string"`
	Trail     string     `json:"trail"`
	Time      time.Time  `json:"time"` // of the last check
	Positions []position `json:"positions"`
	// Settings of pg_steno in the server's configuration; nil: not known.
	Settings map[string]string `json:"settings,omitempty"`
	// Run is the state of the server after its last start or stop: see events.findRuns.
	Run    string  `json:"run,omitempty"`
	Alarms []alarm `json:"alarms,omitempty"`
	// since the first check
	Dropped uint64 `json:"dropped"`
	Refused uint64 `json:"refused"`
	Lost    uint64 `json:"lost"`
	// Trusted are the keys that seals have named for later seals.
	Trusted map[string]string `json:"trusted,omitempty"`
}

// position is the end of what was read of a stream.
type position struct {
	Stream  uint32 `json:"stream"`
	Segment uint64 `json:"segment"`
	Block   uint64 `json:"block"`
	Record  uint64 `json:"record"`
	Hash    string `json:"hash"`
	Sealed  int64  `json:"sealed,omitempty"` // time of the last seal; 0: there was none
	// end of the first block after it that has more than seals; 0: there is none
	Open int64 `json:"open,omitempty"`
}

// alarm is a problem that later checks report again.
type alarm struct {
	Item  string    `json:"item"`
	Level Level     `json:"level"`
	What  string    `json:"what"`
	File  string    `json:"file,omitempty"` // that is damaged
	Seen  time.Time `json:"seen"`           // first
	// Problem is a problem that verify found; it can be acknowledged.
	Problem *verify.Problem `json:"problem,omitempty"`
}

// isOf reports whether the alarm is about a problem. States of versions up to 0.9.0 have only its text.
func (a *alarm) isOf(p verify.Problem) bool {
	if a.Problem == nil {
		return a.Item == "intact" && a.File == p.File && a.What == p.String()
	}
	return a.Problem.File == p.File && a.Problem.What == p.What
}

// isGone reports whether the damaged file no longer exists.
func (a *alarm) isGone() bool {
	if a.File == "" {
		return false
	}
	_, err := os.Lstat(a.File)
	return errors.Is(err, os.ErrNotExist)
}

// mostAlarms limits the kept alarms. Further ones are kept as one for each item and level.
const mostAlarms = 100

var moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// addAlarm adds an alarm, unless the state has it. Damage whose texts differ only in times is the same.
func (s *state) addAlarm(a *alarm, now time.Time) {
	same := func(b alarm) bool {
		return a.Item == b.Item && (a.What == b.What ||
			a.File == "" && a.Item == "intact" &&
				moments.ReplaceAllString(a.What, "") == moments.ReplaceAllString(b.What, ""))
	}
	if a.Problem != nil {
		if i := slices.IndexFunc(s.Alarms, func(b alarm) bool { return b.isOf(*a.Problem) }); i >= 0 {
			// the same problem with another note
			s.Alarms[i].What, s.Alarms[i].Problem = a.What, a.Problem
			return
		}
	}
	one := *a
	if len(s.Alarms) >= mostAlarms && !slices.ContainsFunc(s.Alarms, same) {
		one = alarm{Item: a.Item, Level: a.Level, What: "and more"}
		same = func(b alarm) bool { return b.Item == one.Item && b.Level == one.Level && b.What == one.What }
	}
	if slices.ContainsFunc(s.Alarms, same) {
		return
	}
	one.Seen = now
	s.Alarms = append(s.Alarms, one)
}

func (s *state) position(stream uint32) *position {
	for i := range s.Positions {
		if s.Positions[i].Stream == stream {
			return &s.Positions[i]
		}
	}
	return nil
}

// setPosition notes how far a stream was read.
func (s *state) setPosition(last *verify.LastBlock, sealed, open int64, forget bool) {
	p := s.position(last.Stream)
	if p == nil {
		s.Positions = append(s.Positions, position{Stream: last.Stream})
		p = &s.Positions[len(s.Positions)-1]
	}
	if last.Block < p.Block && !forget {
		return // the end of the stream is missing: the next check must find this damage again
	}
	p.Segment, p.Block, p.Record, p.Hash = last.Segment, last.Block, last.Record, hex.EncodeToString(last.Hash[:])
	p.Sealed, p.Open = sealed, open
	for id, key := range last.Trusted {
		if s.Trusted == nil {
			s.Trusted = map[string]string{}
		}
		s.Trusted[id] = hex.EncodeToString(key)
	}
}

// addTrusted adds the keys that seals by trusted keys have named.
func (s *state) addTrusted(keys seal.Keys) {
	for id, digits := range s.Trusted {
		if key, err := hex.DecodeString(digits); err == nil && len(key) == ed25519.PublicKeySize {
			keys[id] = key
		}
	}
}

// anchors returns the last blocks that were read, which must still exist.
func (s *state) anchors() (all []*seal.Anchor) {
	for _, p := range s.Positions {
		a := &seal.Anchor{Seal: seal.Seal{SystemID: s.System, Stream: p.Stream, Segment: p.Segment, Block: p.Block,
			Record: p.Record, Time: query.Micros(s.Time)}, From: "of the last check"}
		hash, _ := hex.DecodeString(p.Hash)
		copy(a.Hash[:], hash)
		all = append(all, a)
	}
	return all
}

// stateFile is the file while it is locked.
type stateFile struct {
	*statefile.File
	trail string // of the trail
}

// stateName returns the name of the state file, different for each trail.
func stateName(t *trail.Trail) string {
	path := t.Path
	if p, err := filepath.Abs(path); err == nil {
		path = p
	}
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	sum := sha256.Sum256([]byte(path))
	return "check-" + hex.EncodeToString(sum[:8]) + ".json"
}

// openState locks the state of a trail's checks; its directory is created if the path is not given.
func openState(path string, t *trail.Trail) (*stateFile, error) {
	if path == "" {
		var err error
		if path, err = StatePath(t); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("no directory for the state of checks, and no file was named: %w", err)
		}
	}
	file, err := statefile.Open(path)
	if errors.Is(err, statefile.ErrLocked) {
		return nil, errors.New("another check of this trail is running")
	} else if err != nil {
		return nil, fmt.Errorf("state of checks: %w", err)
	}
	return &stateFile{file, t.Path}, nil
}

// mostState limits the size of the file.
const mostState = 4 << 20

func (f *stateFile) read() (*state, error) {
	s := &state{Version: stateVersion, Trail: f.trail}
	text, exists, err := f.Read(mostState)
	if err == nil && !exists {
		return s, nil
	}
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return nil, fmt.Errorf("state of checks: %w", err)
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err == nil && s.Version != stateVersion {
		err = fmt.Errorf("it has version %d, and this program reads version %d", s.Version, stateVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("state of checks: %s: %w; remove the file, and the next check is the first one",
			f.Path, err)
	}
	return s, nil
}

// write replaces the file atomically: if this process dies meanwhile, the old one remains.
func (f *stateFile) write(s *state) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = f.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state of checks: %w", err)
	}
	return nil
}
