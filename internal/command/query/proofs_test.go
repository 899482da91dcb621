package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// section is a part of a proof: the four bytes of its kind, and what it has.
type section struct {
	kind [4]byte
	body []byte
}

const (
	proofHeader     = 16
	sectionQuestion = 1
	sectionSegment  = 4
	sectionContext  = 5
	sectionBlock    = 6
	sectionEnd      = 8
)

func readProof(t testing.TB, path string) (header []byte, all []section) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header, b = b[:proofHeader], b[proofHeader:]
	for len(b) > 0 {
		n := binary.LittleEndian.Uint32(b[4:])
		all = append(all, section{[4]byte(b), b[8 : 8+n]})
		b = b[8+n:]
	}
	return header, all
}

// writeProof writes sections with a checksum that is right.
func writeProof(t testing.TB, path string, header []byte, all []section) {
	t.Helper()
	b := slices.Clone(header)
	for _, s := range all {
		if s.kind[0] == sectionEnd {
			sum := sha256.Sum256(b)
			s.body = sum[:]
		}
		b = append(binary.LittleEndian.AppendUint32(append(b, s.kind[:]...), uint32(len(s.body))), s.body...)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// forge changes a section, and makes the checksums inside it right. It says whether the question is another one.
func forge(r *rand.Rand, all []section) (forged []section, asks bool) {
	i := r.IntN(len(all) - 1)
	switch r.IntN(8) {
	case 0:
		return slices.Delete(all, i, i+1), all[i].kind[0] == sectionQuestion
	case 1:
		return slices.Insert(all, r.IntN(len(all)), all[i]), all[i].kind[0] == sectionQuestion
	case 2:
		k := r.IntN(len(all) - 1)
		all[i], all[k] = all[k], all[i]
		return all, false
	}
	s := &all[i]
	for range 1 + r.IntN(2) {
		one := edit{at: r.Uint32(), kind: byte(r.Uint32()), with: byte(r.Uint32())}
		if s.kind[0] != sectionQuestion && s.kind[0] != sectionBlock {
			one.kind %= 2 // the length is known
		}
		s.body = one.apply(slices.Clone(s.body))
	}
	le := binary.LittleEndian
	switch {
	case (s.kind[0] == sectionSegment || s.kind[0] == sectionContext) && len(s.body) >= format.SegmentHeaderSize:
		trailtest.SealSegment(s.body)
	case s.kind[0] == sectionBlock && len(s.body) > format.BlockHeaderSize:
		payload := s.body[format.BlockHeaderSize:]
		le.PutUint32(s.body[8:], uint32(len(payload)))
		le.PutUint64(s.body[64:], xxhash.Sum64(payload))
		trailtest.SealHeader(s.body)
	}
	return all, s.kind[0] == sectionQuestion
}

var segmentShown = regexp.MustCompile(`"segment":\d+`)

// provedOf is what is shown of records that is proved: not in which segment they are, as docs/proof.md says.
func provedOf(shown string) string { return segmentShown.ReplaceAllString(shown, "") }

// TestCraftedProofsProveNothingElse changes proofs, whose checksums are right again: what is proved must be what was
// proved before, unless the question is another one. STENO_CRAFTED is how many, STENO_SEED the first seed.
func TestCraftedProofsProveNothingElse(t *testing.T) {
	_, key := craftedBases(t)
	base := encryptedBases(t)[0]
	type proof struct {
		path, shown string
		access      []string
	}
	var proofs []proof
	access := []string{"--encryption-key-file", keyFile(t, base.keys...)}
	for i, asked := range [][]string{
		{"--user", "alice", "--since", "2026-11-21T20:46", "--until", "2026-11-21T20:56"}, {"--object", "hr.staff", "--since", "2026-11-21T20:46", "--until", "2026-11-21T20:50", "--full"},
		{"--record", "6b0202d9.fa0/1"},
	} {
		for _, dir := range []string{base.plain, base.dir} {
			p := proof{path: filepath.Join(t.TempDir(), fmt.Sprint("proof", i))}
			if dir == base.dir {
				p.access = access
			}
			if said, code := execute(t, slices.Concat([]string{"prove", "--out", p.path, "--key", key, dir}, asked, p.access)...); code != 0 {
				t.Fatal(said)
			}
			var code int
			if p.shown, code = execute(t, slices.Concat([]string{"prove", "--check", p.path, "--key", key, "--show", "--format", "json"}, p.access)...); code != 0 || p.shown == "" {
				t.Fatalf("%d: %q", code, p.shown)
			}
			proofs = append(proofs, p)
		}
	}
	seed, proved := uint64(fromEnvironment(t, "STENO_SEED", int(time.Now().Unix()))), 0
	for i := range uint64(fromEnvironment(t, "STENO_CRAFTED", 200)) {
		r := rand.New(rand.NewPCG(seed+i, 18))
		p := pick(r, proofs)
		header, all := readProof(t, p.path)
		forged, asks := forge(r, all)
		path := filepath.Join(t.TempDir(), "forged")
		writeProof(t, path, header, forged)
		args := slices.Concat([]string{"prove", "--check", path, "--key", key, "--show", "--format", "json"}, p.access)
		shown, _, code := executed(t, args...)
		if code == 0 {
			proved++
			if !asks && provedOf(shown) != provedOf(p.shown) {
				t.Errorf("it proves\n%s\ninstead of\n%s", shown, p.shown)
			}
		}
		if len(p.access) > 0 { // without keys
			if shown, _, code := executed(t, args[:len(args)-2]...); code == 0 && !asks && provedOf(shown) != provedOf(p.shown) {
				t.Errorf("without keys, it proves\n%s\ninstead of\n%s", shown, p.shown)
			}
		}
		if t.Failed() {
			t.Fatalf("STENO_SEED=%d", seed+i)
		}
	}
	t.Logf("%d are proved", proved)
}

// TestProofsAreReadAndWritten: with nothing changed, a proof is what it was.
func TestProofsAreReadAndWritten(t *testing.T) {
	_, key := craftedBases(t)
	base := encryptedBases(t)[0]
	path, again := filepath.Join(t.TempDir(), "proof"), filepath.Join(t.TempDir(), "again")
	if said, code := execute(t, "prove", "--record", "6b0202d9.fa0/1", "--out", path, "--key", key, base.plain); code != 0 {
		t.Fatal(said)
	}
	header, all := readProof(t, path)
	writeProof(t, again, header, all)
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(again)
	if !bytes.Equal(a, b) {
		t.Error("it is another one")
	}
}
