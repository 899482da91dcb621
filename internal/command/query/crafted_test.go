package query

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/pierrec/lz4/v4"
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/export"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/command/top"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// craftedLimit is how long a command may take on a trail of some kilobytes, whatever is in it, on a busy machine.
const craftedLimit = 30 * time.Second

// edit is a change of the payload of a block.
type edit struct {
	at   uint32
	kind byte // what is done there
	with byte
}

// edits reads changes from the bytes of a fuzzer.
func edits(b []byte) (all []edit) {
	for ; len(b) >= 5 && len(all) < 8; b = b[5:] {
		all = append(all, edit{at: uint32(binary.LittleEndian.Uint16(b)) | uint32(b[2]&0x0f)<<16, kind: b[3], with: b[4]})
	}
	return all
}

// apply changes a payload.
func (e *edit) apply(payload []byte) []byte {
	if len(payload) == 0 {
		return append(payload, e.with)
	}
	at := int(e.at) % len(payload)
	switch e.kind % 6 {
	case 0:
		payload[at] ^= e.with
	case 1:
		payload[at] = e.with
	case 2:
		return slices.Insert(payload, at, e.with)
	case 3:
		return slices.Delete(payload, at, min(at+1+int(e.with%16), len(payload)))
	case 4: // a number that is far too large
		return slices.Replace(payload, at, at+1, 0xff, 0xff, 0xff, 0xff, e.with&0x7f)
	case 5: // again what is there
		return slices.Insert(payload, at, payload[at:min(at+1+int(e.with), len(payload))]...)
	}
	return payload
}

// rewriteTrail changes the payloads of blocks, and makes all checksums and the chain of each stream right again. Seals,
// which need a key, are as they were.
func rewriteTrail(t testing.TB, dir string, change func(block int, records uint32, payload []byte) []byte) {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	le, n := binary.LittleEndian, 0
	for _, stream := range opened.Streams {
		var last []byte // chain hash of the stream's last block; nil: none of it was rewritten
		for _, segment := range stream.Segments {
			image, err := os.ReadFile(segment.Path)
			if err != nil {
				t.Fatal(err)
			}
			refs, errs := segment.Index()
			if errs != nil {
				t.Fatal(errs)
			}
			out := slices.Clone(image[:le.Uint16(image[10:])])
			if last != nil {
				copy(out[64:], last) // where the header has it
			}
			trailtest.SealSegment(out)
			sum := sha256.Sum256(out)
			chain := sum[:]
			for i := range refs {
				block := image[refs[i].Offset : refs[i].Offset+refs[i].Length()]
				h := slices.Clone(block[:72])
				payload := slices.Clone(block[trail.BlockHeaderSize:])
				if h[7] == 0 { // not encrypted
					before := uncompressed(t, trail.Codec(h[6]), payload, int(le.Uint32(h[12:])))
					if after := change(n, le.Uint32(h[16:]), slices.Clone(before)); !bytes.Equal(before, after) {
						payload, h[6] = after, byte(trail.CodecNone)
						le.PutUint32(h[8:], uint32(len(payload)))
						le.PutUint32(h[12:], uint32(len(payload)))
					}
				}
				n++
				le.PutUint64(h[64:], xxhash.Sum64(payload))
				sum := sha256.Sum256(slices.Concat(chain, h, payload))
				chain, last = sum[:], sum[:]
				h = append(h, chain...)
				h = le.AppendUint64(h, xxhash.Sum64(h))
				out = slices.Concat(out, h, payload)
			}
			if err := os.WriteFile(segment.Path, out, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func uncompressed(t testing.TB, codec trail.Codec, payload []byte, size int) []byte {
	t.Helper()
	switch codec {
	case trail.CodecNone:
		return payload
	case trail.CodecLz4:
		out := make([]byte, size)
		n, err := lz4.UncompressBlock(payload, out)
		if err != nil || n != size {
			t.Fatal(n, err)
		}
		return out
	}
	t.Fatalf("codec %d", codec)
	return nil
}

// everything is all commands that read a trail.
func everything(dir, out, key string) [][]string {
	const since, until = "2026-11-21T20:46", "2026-11-21T20:56"
	all := [][]string{
		{"cat", "--format", "json"}, {"cat", "--user", "alice", "--format", "json"}, {"cat", "--object", "hr.staff"}, {"cat", "--grep", "4711"},
		{"cat", "--failed", "--format", "pgaudit"}, {"cat", "--format", "csvlog"}, {"verify"}, {"verify", "--key", key}, {"info", "--detail"}, {"tail", "-n", "5"},
		{"report", "--format", "json"}, {"report", "--format", "markdown", "--user", "alice"}, {"review", "person", "--user", "alice"},
		{"review", "subject", "--value", "4711"}, {"seal", "export"}, {"slot", "end"}, {"recover", "--out", filepath.Join(out, "recovered")},
		{"top", "--at", "2026-11-21 20:50", "--once", "--window", "1h"},
		{"query", "--format", "csv", "SELECT * FROM trail"}, {"query", "SELECT * FROM relations r JOIN sessions s USING (session) WHERE r.relation = 'hr.staff'"},
		{"query", "SELECT * FROM statements"}, {"query", "SELECT * FROM settings_changed"},
		{"export", "--format", "csv", "--out", filepath.Join(out, "exported")},
		{"prove", "--user", "alice", "--since", since, "--until", until, "--out", filepath.Join(out, "proof"), "--key", key},
		{"prove", "--object", "hr.staff", "--since", since, "--until", until, "--out", filepath.Join(out, "proof2"), "--key", key},
	}
	for i := range all {
		all[i] = append(all[i], dir)
	}
	return all
}

// execute runs a command line, and returns its output and its exit code.
func execute(t testing.TB, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), craftedLimit)
	defer cancel()
	streams, _, out, errOut := iostreams.Test()
	var root *cobra.Command
	switch f := (&cmdutil.Factory{IO: streams}); args[0] {
	case "top":
		root, args = top.NewCmdTop(f, nil), args[1:]
	case "query":
		root, args = NewCmdQuery(f, nil), args[1:]
	case "export":
		root, args = export.NewCmdExport(f, nil), args[1:]
	default:
		root = cli.New(streams)
	}
	root.SilenceUsage, root.SilenceErrors = true, true
	code = program.Run(ctx, root, args)
	if ctx.Err() != nil {
		t.Errorf("%q takes longer than %s", args, craftedLimit)
	}
	if code < 0 || code > 3 || strings.Contains(errOut.String(), "Usage") || strings.Contains(errOut.String(), "--help") {
		t.Errorf("%q ends with %d: %s", args, code, errOut)
	}
	return out.String(), code
}

// craftedBases are the trails that are changed: two that are sealed and have indexes, one of them of two streams, and the
// golden ones that are whole.
func craftedBases(t testing.TB) (dirs []string, key string) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public, err := seal.EncodePublic(private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	key = filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(key, public, 0o600); err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); len(dirs) < 2; seed++ {
		dir := filepath.Join(t.TempDir(), "trail")
		if x := writeTrail(t, rand.New(rand.NewPCG(seed, 27)), dir, true); x.copied != "" {
			continue
		}
		if said, code := execute(t, "verify", "--key", key, dir); code != 0 {
			t.Fatal(said)
		}
		dirs = append(dirs, dir)
	}
	golden := trailtest.Golden(t)
	for _, name := range []string{"columns", "endings", "fields", "index", "kinds", "lz4", "objects", "parts", "streams"} {
		dirs = append(dirs, filepath.Join(golden, name))
	}
	return dirs, key
}

// check changes a trail and runs everything on it. If verify finds nothing wrong with the trail, a search through its
// indexes must find what a plain reader does.
func check(t *testing.T, base, key string, block int, changes []edit) {
	t.Helper()
	work := t.TempDir()
	dir := filepath.Join(work, "trail")
	if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	blocks := 0
	rewriteTrail(t, dir, func(_ int, _ uint32, payload []byte) []byte { blocks++; return payload })
	rewriteTrail(t, dir, func(n int, _ uint32, payload []byte) []byte {
		for i := 0; n == block%blocks && i < len(changes); i++ {
			payload = changes[i].apply(payload)
		}
		return payload
	})
	codes, said := map[string]int{}, map[string]string{}
	for _, args := range everything(dir, work, key) {
		name := strings.Join(args[:min(len(args), 3)], " ")
		said[name], codes[name] = execute(t, args...)
	}
	if codes["verify "+dir] == 0 {
		agree(t, said["cat --format json"], said["cat --user alice"])
		if codes["cat --format json"] != 0 {
			t.Errorf("verify finds nothing, but cat ends with %d", codes["cat --format json"])
		}
	}
}

// agree compares what is found of a user through the indexes with what all records say.
func agree(t *testing.T, all, found string) {
	t.Helper()
	var of int
	for _, line := range splitLines(all) {
		var r struct{ User string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(line, err)
		}
		if r.User == "alice" {
			of++
		}
	}
	if n := len(splitLines(found)); n != of {
		t.Errorf("verify finds nothing, but %d records of the user are found, of %d", n, of)
	}
}

// TestIndexesThatHideSomebodyAreDamage: a user gets another name in one block, or in all indexes, which have no records.
// Then an index hides what is in a block, and verify must find it, or the search must find as much as a plain reader.
func TestIndexesThatHideSomebodyAreDamage(t *testing.T) {
	base := filepath.Join(trailtest.Golden(t), "index")
	rename := func(changed func(block int, records uint32) bool) (renamed, hidden bool) {
		dir := filepath.Join(t.TempDir(), "trail")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		rewriteTrail(t, dir, func(block int, records uint32, payload []byte) []byte {
			if !changed(block, records) || !bytes.Contains(payload, []byte("alice")) {
				return payload
			}
			renamed = true
			return bytes.ReplaceAll(payload, []byte("alice"), []byte("alicf"))
		})
		said, code := execute(t, "verify", dir)
		if code != 0 && !strings.Contains(said, "the index of its segment lacks 1 of its users") {
			t.Errorf("verify ends with %d: %s", code, said)
		}
		if code == 0 {
			all, _ := execute(t, "cat", "--format", "json", dir)
			some, _ := execute(t, "cat", "--user", "alice", "--format", "json", dir)
			agree(t, all, some)
		}
		return renamed, code != 0
	}
	if _, hidden := rename(func(_ int, records uint32) bool { return records == 0 }); !hidden {
		t.Error("all indexes hide a user, and verify does not say it")
	}
	const blocks = 10
	found := 0
	for n := range blocks {
		renamed, hidden := rename(func(block int, _ uint32) bool { return block == n })
		if renamed && !hidden {
			found++
		}
	}
	if found != 1 { // in the last segment, which has no index
		t.Errorf("in %d blocks, a user has another name and no index is wrong, want 1", found)
	}
}

// TestNothingIsChanged: with nothing changed, verify finds what it did, and of the sealed ones all commands succeed.
func TestNothingIsChanged(t *testing.T) {
	bases, key := craftedBases(t)
	for i, base := range bases {
		work := t.TempDir()
		dir := filepath.Join(work, "trail")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		rewriteTrail(t, dir, func(_ int, _ uint32, payload []byte) []byte { return payload })
		for _, args := range everything(dir, work, key) {
			want := 0
			if i >= 2 && args[0] == "verify" {
				_, want = execute(t, append(slices.Clone(args[:len(args)-1]), base)...)
			}
			if said, code := execute(t, args...); code != want && (i < 2 || args[0] == "verify") {
				t.Errorf("%s: %q ends with %d: %s", base, args, code, said)
			}
		}
	}
}

// FuzzCraftedTrail changes the payload of a block, makes checksums and chain right again, and has every command read
// the trail: none may panic, or take long.
func FuzzCraftedTrail(f *testing.F) {
	bases, key := craftedBases(f)
	for i := range bases {
		f.Add(uint8(i), uint8(0), []byte{9, 0, 0, 0, 1})
		f.Add(uint8(i), uint8(3), []byte{1, 0, 0, 4, 1})
	}
	f.Fuzz(func(t *testing.T, base, block uint8, changes []byte) {
		check(t, bases[int(base)%len(bases)], key, int(block), edits(changes))
	})
}

// TestCraftedTrailsStopNobody does the same with changes at random. STENO_CRAFTED is how many, STENO_SEED the first seed.
func TestCraftedTrailsStopNobody(t *testing.T) {
	bases, key := craftedBases(t)
	seed := uint64(fromEnvironment(t, "STENO_SEED", int(time.Now().Unix())))
	for i := range uint64(fromEnvironment(t, "STENO_CRAFTED", 15)) {
		r := rand.New(rand.NewPCG(seed+i, 15))
		changes := make([]edit, 1+r.IntN(3))
		for n := range changes {
			changes[n] = edit{at: r.Uint32(), kind: byte(r.Uint32()), with: byte(r.Uint32())}
		}
		ok := t.Run(fmt.Sprint(seed+i), func(t *testing.T) { check(t, pick(r, bases), key, r.IntN(1<<16), changes) })
		if !ok {
			t.Fatalf("STENO_SEED=%d: %v", seed+i, changes)
		}
	}
}
