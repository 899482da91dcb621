package query

import (
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

// rewriteTrail changes the payloads of blocks, and makes all checksums and the chain of each stream right again.
func rewriteTrail(t testing.TB, dir string, change func(block int, payload []byte) []byte) {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	le, n := binary.LittleEndian, 0
	for _, stream := range opened.Streams {
		var chain []byte
		for _, segment := range stream.Segments {
			image, err := os.ReadFile(segment.Path)
			if err != nil {
				t.Fatal(err)
			}
			refs, errs := segment.Index()
			if errs != nil {
				t.Fatal(errs)
			}
			length := int(le.Uint16(image[10:]))
			header, err := trail.ParseSegmentHeader(image[:length])
			if err != nil {
				t.Fatal(err)
			}
			out := slices.Clone(image[:length])
			if chain == nil {
				chain = header.PreviousHash[:]
			}
			copy(out[64:], chain) // PreviousHash
			trailtest.SealSegment(out)
			for i := range refs {
				block := image[refs[i].Offset : refs[i].Offset+refs[i].Length()]
				h := slices.Clone(block[:72])
				payload := slices.Clone(block[trail.BlockHeaderSize:])
				if h[7] == 0 {
					payload = change(n, uncompressed(t, trail.Codec(h[6]), payload, int(le.Uint32(h[12:]))))
					h[6] = byte(trail.CodecNone)
				}
				n++
				le.PutUint32(h[8:], uint32(len(payload)))
				if h[7] == 0 {
					le.PutUint32(h[12:], uint32(len(payload)))
				}
				le.PutUint64(h[64:], xxhash.Sum64(payload))
				sum := sha256.Sum256(slices.Concat(chain, h, payload))
				chain = sum[:]
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
	rewriteTrail(t, dir, func(_ int, payload []byte) []byte { blocks++; return payload })
	rewriteTrail(t, dir, func(n int, payload []byte) []byte {
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
	if len(changes) == 0 {
		for name, code := range codes {
			if of := codes["verify --key "+key]; of == 0 && code != 0 {
				t.Errorf("nothing was changed, but %s ends with %d: %s", name, code, said[name])
			}
		}
	}
	if codes["verify "+dir] != 0 {
		return
	}
	var of int
	for _, line := range splitLines(said["cat --format json"]) {
		var r struct{ User string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(line, err)
		}
		if r.User == "alice" {
			of++
		}
	}
	if found := len(splitLines(said["cat --user alice"])); found != of || codes["cat --format json"] != 0 {
		t.Errorf("verify finds nothing, but the user has %d of %d records, and cat ends with %d", found, of, codes["cat --format json"])
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
		changes := make([]edit, r.IntN(4)) // 0: nothing but checksums and codec is made anew
		for n := range changes {
			changes[n] = edit{at: r.Uint32(), kind: byte(r.Uint32()), with: byte(r.Uint32())}
		}
		ok := t.Run(fmt.Sprint(seed+i), func(t *testing.T) { check(t, pick(r, bases), key, r.IntN(1<<16), changes) })
		if !ok {
			t.Fatalf("STENO_SEED=%d: %v", seed+i, changes)
		}
	}
}
