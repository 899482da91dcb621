// Package acknowledge keeps the acknowledgments of problems of a trail: who has looked into which problem, when, and
// why it need not be reported as new.
//
// They are lines of JSON in a file beside the trail. Each names a problem by its server, its place and the bytes
// concerned, or, if the problem is that something is absent, by how far the streams went. It has the hash of the line
// before, and is signed, so that a line that was changed, forged or taken out of the middle is found. If the last
// lines are removed, their problems are only reported as new again.
package acknowledge

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/seal"
)

// Suffix is added to the name of the trail to make that of the file.
const Suffix = ".acknowledged"

// Path returns the file of a trail's acknowledgments. It is beside the directory itself, even if a symbolic link
// leads there.
func Path(trail string) (string, error) {
	path, err := filepath.Abs(trail)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return path + Suffix, err
}

// End is the end of a stream.
type End struct {
	Stream uint32 `json:"stream"`
	Block  uint64 `json:"block"` // the last one that is intact
	Hash   string `json:"hash"`  // its chain hash
}

// Entry is one acknowledgment.
type Entry struct {
	System  string `json:"system"`  // system identifier of the server of the trail
	Problem string `json:"problem"` // its ID
	File    string `json:"file,omitempty"`
	Offset  *int64 `json:"offset,omitempty"`
	What    string `json:"what"`
	Size    int64  `json:"size"`   // length of the part of the file that SHA256 covers
	SHA256  string `json:"sha256"` // of that part of the file
	// Ends are the ends of the trail's streams, if the problem has no bytes of a file.
	Ends   []End  `json:"ends,omitempty"`
	By     string `json:"by"`
	Time   string `json:"time"`
	Reason string `json:"reason"`
	// Previous is the SHA-256 of the line before, empty for the first one.
	Previous string `json:"previous,omitempty"`
	// Key is the ID of the key of the signature; empty: it is not signed.
	Key       string `json:"key,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// domain begins everything that is signed.
const domain = "pg_steno acknowledgment v1\n"

// signed returns the bytes that are signed.
func (e *Entry) signed() ([]byte, error) {
	bare := *e
	bare.Signature = ""
	b, err := json.Marshal(&bare)
	return append([]byte(domain), b...), err
}

// ID returns the ID of a problem: a hash of what it is, and where in the trail.
func ID(file string, offset *int64, what string) string {
	at := int64(-1)
	if offset != nil {
		at = *offset
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q", file, at, what))
	return hex.EncodeToString(sum[:6])
}

// Hash returns the SHA-256 of the first size bytes of a file, and their number; -1: all of it. Other kinds of files
// have none.
func Hash(path string, size int64) (sum string, n int64, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular():
		return "", 0, nil
	case err != nil:
		return "", 0, err
	case size < 0:
		size = info.Size()
	}
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, io.LimitReader(f, size))
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// Problem is a problem of the file of acknowledgments itself.
type Problem struct {
	Line int
	What string
}

// List is the content of a file of acknowledgments.
type List struct {
	Entries  []*Entry // the valid ones
	Problems []Problem
	last     string // hash of the last line
}

// unsigned is the problem of an entry without a signature.
const unsigned = "it is not signed, and keys were given"

// Load reads the file of a trail. Signatures must be by one of the keys. Without keys, signatures are not checked,
// and unsigned entries are valid, too. An unsigned entry is no problem if one of the keys has signed a later entry
// for the same problem. A trail without a file has no acknowledgments.
func Load(path string, keys seal.Keys) (*List, error) {
	l := &List{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return l, nil
	}
	data = bytes.TrimSuffix(data, []byte("\n"))
	n := 0
	open := map[int]string{} // problems of lines that only lack a signature
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		n++
		e := &Entry{}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		what := ""
		if d.Decode(e) != nil {
			what = "it is not an acknowledgment"
		} else {
			what = e.check(l.last, keys)
		}
		if what != "" {
			l.Problems = append(l.Problems, Problem{n, what})
			if what == unsigned {
				open[n] = e.Problem
			}
		} else {
			l.Entries = append(l.Entries, e)
			l.Problems = slices.DeleteFunc(l.Problems, func(p Problem) bool {
				return p.What == unsigned && open[p.Line] == e.Problem
			})
		}
		l.last = hashOf(line)
	}
	return l, nil
}

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// check returns what is wrong with an entry; empty if nothing is.
func (e *Entry) check(previous string, keys seal.Keys) string {
	switch key, known := keys[e.Key]; {
	case e.Previous != previous:
		return "it does not follow from the line before: lines were changed, or taken out"
	case e.Problem != ID(e.File, e.Offset, e.What):
		return "it was changed: it does not have the ID of its problem"
	case len(keys) == 0:
		return ""
	case e.Key == "":
		return unsigned
	case !known:
		return fmt.Sprintf("it is signed by key %s, which was not given", e.Key)
	default:
		signature, err := hex.DecodeString(e.Signature)
		signed, failed := e.signed()
		if err != nil || failed != nil || !ed25519.Verify(key, signed, signature) {
			return fmt.Sprintf("it was changed or forged: its signature is not that of key %s", e.Key)
		}
		return ""
	}
}

// Add appends an entry to a file, signed by a key, or without one.
func (l *List) Add(path string, e *Entry, key ed25519.PrivateKey) error {
	e.Previous = l.last
	if key != nil {
		e.Key = seal.KeyID(key.Public().(ed25519.PublicKey))
		signed, err := e.signed()
		if err != nil {
			return err
		}
		e.Signature = hex.EncodeToString(ed25519.Sign(key, signed))
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := openFile(path)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	l.last = hashOf(line)
	l.Entries = append(l.Entries, e)
	return err
}

// openFile opens a file of acknowledgments for appending. A file that root creates is given to the owner of the
// trail's directory, who verifies it.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(strings.TrimSuffix(path, Suffix))
	if err == nil {
		err = private.GiveToOwner(f, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}
