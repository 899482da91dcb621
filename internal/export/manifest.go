// The manifest of an export, its signature, and checks of files against it.

package export

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/seal"
)

// ManifestVersion is the version of the manifest's format.
const ManifestVersion = 1

// Manifest describes the contents of an export.
type Manifest struct {
	Version  int       `json:"format_version"`
	Schema   int       `json:"schema_version"`
	Program  string    `json:"program"`
	Created  string    `json:"created"`
	Export   Request   `json:"export"`
	Range    Range     `json:"range"`
	Rows     uint64    `json:"rows"`
	Verdict  string    `json:"verdict"` // VerdictComplete or VerdictDamaged
	Problems []Problem `json:"problems"`
	Gaps     Gaps      `json:"gaps"`
	Streams  []Stream  `json:"streams"`
	Files    []File    `json:"files"`
}

// Range has the bounds of the records' times that exist: Since <= time < Until.
type Range struct {
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`
}

// Verdicts of a manifest.
const (
	VerdictComplete = "complete"
	VerdictDamaged  = "damaged"
)

// Problem is something that was wrong in the trail.
type Problem struct {
	Kind    string `json:"kind"` // damaged, unfinished, incomplete or deleted
	Message string `json:"message"`
}

// Gaps counts the records that the server reports as lost within the range of the export, whatever its filters.
type Gaps struct {
	Records uint64 `json:"gap_records"`
	Lost    uint64 `json:"lost_records"`
}

// Stream is the part of a stream's chain that was read: all blocks with records of the range.
type Stream struct {
	Path     string `json:"path"`
	SystemID string `json:"system_identifier"`
	Number   uint32 `json:"stream"`
	Blocks   uint64 `json:"blocks"`
	First    Point  `json:"first"`
	Last     Point  `json:"last"`
	// Before is the hash to which the first block is chained.
	Before string `json:"hash_before"`
}

// Point is a block and its chain hash.
type Point struct {
	Segment uint64 `json:"segment"`
	Block   uint64 `json:"block"`
	Hash    string `json:"hash"`
}

// File is a file of an export.
type File struct {
	Name   string  `json:"file"` // relative to the manifest's directory, with slashes
	Day    string  `json:"day,omitempty"`
	Rows   uint64  `json:"rows"`
	Bytes  int64   `json:"bytes"`
	SHA256 string  `json:"sha256"`
	First  *Record `json:"first,omitempty"`
	Last   *Record `json:"last,omitempty"`
}

// Record identifies a record.
type Record struct {
	Time    string `json:"time"`
	Session string `json:"session"`
	Seq     uint64 `json:"seq"`
}

// signed is the content of a manifest file.
type signed struct {
	Manifest  json.RawMessage `json:"manifest"`
	Key       string          `json:"key,omitempty"`       // ID, as in seals
	Signature string          `json:"signature,omitempty"` // Ed25519, hexadecimal
}

// domain precedes the signed bytes, so that the signature cannot be used for anything else, such as a seal.
const domain = "pg_steno export manifest v1\n"

// message returns the bytes to sign: the manifest as it is in the file, without blanks between its parts.
func message(manifest []byte) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(domain)
	err := json.Compact(&b, manifest)
	return b.Bytes(), err
}

// encode returns the manifest file, signed if there is a key.
func (m *Manifest) encode(key ed25519.PrivateKey) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	s := signed{Manifest: text}
	if key != nil {
		b, err := message(text)
		if err != nil {
			return nil, err
		}
		s.Key, s.Signature = seal.KeyID(key.Public().(ed25519.PublicKey)), hex.EncodeToString(ed25519.Sign(key, b))
	}
	file, err := json.MarshalIndent(s, "", "  ")
	return append(file, '\n'), err
}

// ---- checking ----

// Check is the result of comparing files with their manifest.
type Check struct {
	Manifest *Manifest
	Signed   string // ID of the key whose signature is valid; empty: none was checked
	Problems []string
}

// ErrNoManifest says that a file is not the manifest of an export.
var ErrNoManifest = errors.New("not a manifest of an export")

// maxManifest bounds how much of an unknown file is read.
const maxManifest = 256 << 20

// ErrNotRegular says that a path is not that of a regular file.
var ErrNotRegular = errors.New("not a regular file")

// CheckManifest compares the files of an export with its manifest. With keys, one of them must have signed the
// manifest.
func CheckManifest(path string, keys seal.Keys) (*Check, error) {
	text, err := readRegular(path, maxManifest)
	if err != nil {
		return nil, err
	}
	var s signed
	if json.Unmarshal(text, &s) != nil || s.Manifest == nil {
		return nil, ErrNoManifest
	}
	var head struct {
		Version int `json:"format_version"`
	}
	if json.Unmarshal(s.Manifest, &head) != nil || head.Version == 0 {
		return nil, ErrNoManifest
	}
	if head.Version != ManifestVersion {
		return nil, fmt.Errorf("the manifest has version %d, but this program reads version %d",
			head.Version, ManifestVersion)
	}
	c := &Check{Manifest: &Manifest{}}
	d := json.NewDecoder(bytes.NewReader(s.Manifest))
	d.DisallowUnknownFields()
	if err := d.Decode(c.Manifest); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoManifest, err)
	}
	if !s.isAsWritten(text, c.Manifest) {
		c.problem("the manifest is not as it was written")
	}
	if keys != nil {
		c.signature(&s, keys)
	}
	dir := filepath.Dir(path)
	rows := uint64(0)
	names := map[string]bool{}
	for i := range c.Manifest.Files {
		f := &c.Manifest.Files[i]
		rows += f.Rows
		if names[f.Name] {
			c.problem("%s is named twice", f.Name)
		}
		names[f.Name] = true
		if err := f.check(dir); err != nil {
			c.problem("%s", err)
		}
	}
	if rows != c.Manifest.Rows {
		c.problem("the manifest counts %d records, its files %d", c.Manifest.Rows, rows)
	}
	if isDirectory(c.Manifest.Export.Format) {
		c.checkOthers(dir, filepath.Base(path), names)
	}
	return c, nil
}

// isAsWritten returns whether the file has exactly these members, each once and in order. Of two members with
// one name, some programs use the first, and some the last.
func (s *signed) isAsWritten(text []byte, m *Manifest) bool {
	var file bytes.Buffer
	manifest, err := json.Marshal(m)
	if err != nil || json.Compact(&file, text) != nil {
		return false
	}
	again, err := json.Marshal(signed{manifest, s.Key, s.Signature})
	return err == nil && bytes.Equal(file.Bytes(), again)
}

func (c *Check) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

func (c *Check) signature(s *signed, keys seal.Keys) {
	key, known := keys[s.Key]
	signature, err := hex.DecodeString(s.Signature)
	text, compacted := message(s.Manifest)
	switch {
	case s.Signature == "":
		c.problem("the manifest is not signed")
	case !known:
		c.problem("the manifest is signed with key %q, which is not one of those given", s.Key)
	case err != nil || compacted != nil || !ed25519.Verify(key, text, signature):
		c.problem("the signature of the manifest does not match: it was changed, or was not made with key %s", s.Key)
	default:
		c.Signed = s.Key
	}
}

// check compares a file with its entry.
func (f *File) check(dir string) error {
	if !filepath.IsLocal(filepath.FromSlash(f.Name)) || strings.Contains(f.Name, `\`) {
		return fmt.Errorf("%q is outside of the export", f.Name)
	}
	bytes, sum, err := digest(filepath.Join(dir, filepath.FromSlash(f.Name)))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is missing", f.Name)
	case err != nil:
		return fmt.Errorf("%s: %w", f.Name, unwrapped(err))
	case bytes != f.Bytes:
		return fmt.Errorf("%s has %d bytes instead of %d", f.Name, bytes, f.Bytes)
	case sum != f.SHA256:
		return fmt.Errorf("%s was changed: its SHA-256 is %s instead of %s", f.Name, sum, f.SHA256)
	}
	return nil
}

// checkOthers searches the directories of the export for files that no manifest lists, because programs that
// read the directory would read them, too.
func (c *Check) checkOthers(dir, manifest string, named map[string]bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.problem("%s", err)
		return
	}
	for _, e := range entries {
		if !manifestName.MatchString(e.Name()) || e.Name() == manifest {
			continue
		}
		var other struct {
			Manifest Manifest `json:"manifest"`
		}
		if text, err := readRegular(filepath.Join(dir, e.Name()), maxManifest); err == nil &&
			json.Unmarshal(text, &other) == nil {
			for _, f := range other.Manifest.Files {
				named[f.Name] = true
			}
		}
	}
	for _, e := range entries {
		if hidden := e.Name()[0] == '_' || e.Name()[0] == '.'; e.Name() == manifest ||
			hidden && e.Type().IsRegular() {
			continue
		}
		if !dayName.MatchString(e.Name()) || !e.IsDir() {
			c.problem("%s is in no manifest", e.Name())
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			c.problem("%s", err)
		}
		for _, f := range files {
			if name := e.Name() + "/" + f.Name(); !named[name] {
				c.problem("%s is in no manifest", name)
			}
		}
	}
}

// digest returns length and SHA-256 of a regular file.
func digest(path string) (n int64, sum string, err error) {
	f, err := openRegular(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// openRegular opens a file, but refuses devices, which may have no end.
func openRegular(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	return os.Open(path)
}

func readRegular(path string, most int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = ErrNoManifest
	}
	return text, err
}

// unwrapped returns an error without the path, which the caller adds.
func unwrapped(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// sortedFiles returns the files in the order of their names.
func sortedFiles(files []File) []File {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files
}
