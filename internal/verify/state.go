// The file with the state of successive verifications, and its signature.

package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/statefile"
)

// The file has two lines of JSON: the state, and the SHA-256 of that line with a signature over it. So a file
// that was cut off or altered is an error also without a key.
//
// Whoever can write the file can make runs skip blocks. With a key, only its owner can: runs with a key accept
// only states signed with it, and runs without a key only unsigned states, so that neither kind can replace the
// other. States without a key are allowed, because a file that audited accounts cannot write needs none, and
// each verdict says so. A signature cannot prevent that the file is removed: then the next run reads everything,
// and says that it is the first one. Nor can it prevent that an older state is restored, which the number of the
// run reveals.

const (
	stateVersion = 1
	stateDomain  = "pg_steno verification state v1\n"
	mostState    = 1 << 30
)

// runs is the content of the file.
type runs struct {
	Version int       `json:"version"`
	System  uint64    `json:"system_id,string"`
	Run     int       `json:"run"`
	First   time.Time `json:"first_run"`
	Last    time.Time `json:"last_run"`
	// Keys are the IDs of the public keys that were given.
	Keys []string `json:"keys,omitempty"`
	// Ends are the last blocks that were read. They must be there.
	Ends []endMemory `json:"ends"`
	// Found are the problems that the last run reported.
	Found []foundProblem `json:"found,omitempty"`
	Full  fullPass       `json:"full_pass"`
	// Groups has hashes of segment headers.
	Groups groups `json:"groups,omitempty"`
	// Tail is the Memory for all segments that were read, and Pass that for the segments that the current full
	// pass has read.
	Tail json.RawMessage `json:"tail,omitempty"`
	Pass json.RawMessage `json:"pass,omitempty"`
}

// fullPass describes the last complete pass.
type fullPass struct {
	Began     time.Time `json:"began"`
	Completed time.Time `json:"completed"`
}

// endMemory is a block that must still be in the trail.
type endMemory struct {
	System  uint64    `json:"system_id,string"`
	Stream  uint32    `json:"stream"`
	Segment uint64    `json:"segment"`
	Block   uint64    `json:"block"`
	Record  uint64    `json:"record"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"` // of the run that has read it
	// Failed is when the block was found missing. It is remembered, because what is there now was not verified.
	Failed time.Time `json:"failed,omitzero"`
	// Replaced says that the segments after the ones that were read do not continue from these. None of them
	// counts.
	Replaced bool `json:"replaced,omitempty"`
}

// stateAnchors is the origin of anchors that come from a state.
const stateAnchors = "of the state"

// anchor returns the block as an anchor.
func (e *endMemory) anchor() *seal.Anchor {
	a := &seal.Anchor{From: stateAnchors, Seal: seal.Seal{
		SystemID: e.System, Stream: e.Stream, Segment: e.Segment, Block: e.Block, Record: e.Record,
		Time: query.Micros(e.Time),
	}}
	hash, _ := hex.DecodeString(e.Hash)
	copy(a.Hash[:], hash)
	return a
}

// foundProblem is a problem, and when it was first found.
type foundProblem struct {
	File   string    `json:"file,omitempty"` // name within the trail
	Offset *int64    `json:"offset,omitempty"`
	What   string    `json:"what"`
	Time   time.Time `json:"time"`
}

func (f *foundProblem) isSame(o *foundProblem) bool {
	return f.File == o.File && f.What == o.What && (f.Offset == nil) == (o.Offset == nil) &&
		(f.Offset == nil || *f.Offset == *o.Offset)
}

// signature is the second line of the file.
type signature struct {
	SHA256    string `json:"sha256"`
	Key       string `json:"key,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// StateError says why a state is refused.
type StateError struct {
	Path, Reason string
	Advice       StateAdvice
}

// StateAdvice says what the user can do about it.
type StateAdvice int

// Values of StateAdvice.
const (
	NoAdvice   StateAdvice = iota
	BeginState             // begin a state
	GiveKey                // give the key with which the state is signed
)

func (e *StateError) Error() string { return "state " + e.Path + ": " + e.Reason }

// loadState reads a state; nil: there is none. check checks its signature.
func loadState(path string, check func(path string, line []byte, signed *signature) error) (*runs, error) {
	refuse := func(format string, args ...any) (*runs, error) {
		return nil, &StateError{Path: path, Reason: fmt.Sprintf(format, args...)}
	}
	text, exists, err := statefile.Read(path, mostState)
	if err != nil || !exists {
		return nil, err
	}
	line, second, _ := bytes.Cut(text, []byte("\n"))
	var signed signature
	if !bytes.HasSuffix(second, []byte("\n")) || bytes.Count(second, []byte("\n")) != 1 ||
		json.Unmarshal(second, &signed) != nil {
		return refuse("it is not a state of steno verify, or was cut off")
	}
	if sum := sha256.Sum256(line); signed.SHA256 != hex.EncodeToString(sum[:]) {
		return refuse("it was altered: it does not have its own checksum")
	}
	if err := check(path, line, &signed); err != nil {
		return nil, err
	}
	s := &runs{}
	if err := json.Unmarshal(line, s); err != nil {
		return refuse("%s", err)
	}
	if s.Version != stateVersion {
		return refuse("it has version %d, and this program reads version %d; remove it, and the next run reads "+
			"everything", s.Version, stateVersion)
	}
	for _, one := range []json.RawMessage{s.Tail, s.Pass} {
		if _, err := decodeMemory(one); err != nil {
			return refuse("%s", err)
		}
	}
	return s, nil
}

// isBy returns whether a key has signed the state.
func (s *signature) isBy(key ed25519.PublicKey, line []byte) bool {
	given, err := hex.DecodeString(s.Signature)
	return err == nil && ed25519.Verify(key, append([]byte(stateDomain), line...), given)
}

// checkOwnSignature checks the signature for a run that continues. With a key, the state must be signed with
// it; without one, it must not be signed.
func (o *Incremental) checkOwnSignature(path string, line []byte, signed *signature) error {
	refuse := func(format string, args ...any) error {
		return &StateError{Path: path, Reason: fmt.Sprintf(format, args...)}
	}
	if o.Sign == nil {
		if signed.Key != "" {
			return &StateError{path, "it is signed by key " + signed.Key, GiveKey}
		}
		return nil
	}
	switch public := o.Sign.Public().(ed25519.PublicKey); {
	case signed.Key == "":
		return refuse("it is not signed, and a key to sign with was given: somebody else wrote it, or the runs " +
			"before had no key; remove it, and the next run reads everything")
	case signed.Key != seal.KeyID(public):
		return refuse("it is signed by key %s, and not by the one that was given", signed.Key)
	case !signed.isBy(public, line):
		return refuse("it was altered or forged: its signature is not that of key %s", signed.Key)
	}
	o.signer = signed.Key
	return nil
}

// checkForeignSignature checks the signature for a run that only looks. With keys, one of them must have signed
// the state.
func (o *Incremental) checkForeignSignature(path string, line []byte, signed *signature) error {
	if o.By == nil {
		o.unchecked = signed.Key
		return nil
	}
	switch key := o.By[signed.Key]; {
	case signed.Key == "":
		return &StateError{Path: path, Reason: "it is not signed, and the key of its signature was given"}
	case key == nil:
		return &StateError{Path: path,
			Reason: fmt.Sprintf("it is signed by key %s, and not by the one that was given", signed.Key)}
	case !signed.isBy(key, line):
		return &StateError{Path: path,
			Reason: fmt.Sprintf("it was altered or forged: its signature is not that of key %s", signed.Key)}
	}
	o.signer = signed.Key
	return nil
}

// write writes the state, signed if there is a key.
func (s *runs) write(file *statefile.File, key ed25519.PrivateKey) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(line)
	signed := signature{SHA256: hex.EncodeToString(sum[:])}
	if key != nil {
		signed.Key = seal.KeyID(key.Public().(ed25519.PublicKey))
		signed.Signature = hex.EncodeToString(ed25519.Sign(key, append([]byte(stateDomain), line...)))
	}
	second, err := json.Marshal(&signed)
	if err != nil {
		return err
	}
	if err := file.Write(slices.Concat(line, []byte("\n"), second, []byte("\n"))); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// decodeMemory reads a memory; nil: there is none.
func decodeMemory(raw json.RawMessage) (*Memory, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	m := &Memory{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

var errSeveral = errors.New("a state is that of one trail: name its directory, and only one")
