package query

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// keyFile writes a file with keys.
func keyFile(t testing.TB, keys ...[format.KeySize]byte) string {
	t.Helper()
	var text strings.Builder
	for _, k := range keys {
		fmt.Fprintln(&text, hex.EncodeToString(k[:]))
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// encryptedBase is a trail that is encrypted as a whole, and what is the same in it.
type encryptedBase struct {
	dir   string
	plain string // the same trail, not encrypted
	keys  [][format.KeySize]byte
}

// encryptedBases are two trails of random records, each encrypted and not, and the golden one, which has segments that
// are not encrypted between others.
func encryptedBases(t testing.TB) (bases []encryptedBase) {
	t.Helper()
	secret := [format.KeySize]byte{1, 2, 3}
	for seed := uint64(1); len(bases) < 2; seed++ {
		one := encryptedBase{filepath.Join(t.TempDir(), "trail"), filepath.Join(t.TempDir(), "trail"), [][format.KeySize]byte{secret}}
		if x := writeTrail(t, rand.New(rand.NewPCG(seed, 27)), one.dir, true, &secret); x.copied != "" {
			continue
		}
		writeTrail(t, rand.New(rand.NewPCG(seed, 27)), one.plain, true, nil)
		bases = append(bases, one)
	}
	golden := trailtest.Golden(t)
	text, err := os.ReadFile(filepath.Join(golden, "encrypted.keys"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := parseGoldenKeys(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return append(bases, encryptedBase{dir: filepath.Join(golden, "encrypted"), keys: keys})
}

func parseGoldenKeys(text string) (keys [][format.KeySize]byte, err error) {
	for _, line := range splitLines(text) {
		b, err := hex.DecodeString(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, [format.KeySize]byte(b))
	}
	return keys, nil
}

// forgery is a change of an encrypted trail that needs more than its payloads.
type forgery struct {
	name string
	// key says that it is in the header of a segment. detected: verify with the keys finds it, whatever else is right.
	key, detected bool
	change        func(r *rand.Rand, c *crafting, place int)
}

// extremes are the numbers at which something may overflow.
var extremes = []uint64{0, 1, 2, 127, 128, 1<<16 - 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 53, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1}

// ofSegment changes the header of a segment; ofBlock the header of a block, ofStored its payload as it is stored.
func ofSegment(f func(r *rand.Rand, c *crafting, h []byte) []byte) func(r *rand.Rand, c *crafting, place int) {
	return func(r *rand.Rand, c *crafting, place int) {
		c.segment = func(n int, h []byte) []byte {
			if n == place && len(h) == format.EncryptedHeaderSize {
				return f(r, c, h)
			}
			return h
		}
	}
}

func ofBlock(f func(r *rand.Rand, h []byte)) func(r *rand.Rand, c *crafting, place int) {
	return func(r *rand.Rand, c *crafting, place int) {
		c.header = func(n int, h []byte) {
			if n == place {
				f(r, h)
			}
		}
	}
}

func ofStored(f func(r *rand.Rand, stored []byte) []byte) func(r *rand.Rand, c *crafting, place int) {
	return func(r *rand.Rand, c *crafting, place int) {
		c.stored = func(n int, stored []byte) []byte {
			if n == place {
				return f(r, stored)
			}
			return stored
		}
	}
}

// flip changes one byte from a position on.
func flip(r *rand.Rand, b []byte, from, length int) {
	if length = min(length, len(b)-from); length > 0 {
		b[from+r.IntN(length)] ^= 1 << r.IntN(8)
	}
}

func put64(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }

func put32(b []byte, at int, v uint64) { binary.LittleEndian.PutUint32(b[at:], uint32(v)) }

var forgeries = []forgery{
	{"key id", true, false, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 128, 8); return h })},
	{"nonce of the data key", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 136, 12); return h })},
	{"data key", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 148, 32); return h })},
	{"tag of the data key", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 180, 16); return h })},
	{"another data key", true, true, ofSegment(func(r *rand.Rand, c *crafting, h []byte) []byte {
		data := make([]byte, 32)
		flip(r, data, 0, 32)
		trailtest.PutDataKey(h, c.keys[0], data)
		return h
	})},
	{"key part of zeros", true, false, ofSegment(func(_ *rand.Rand, _ *crafting, h []byte) []byte { clear(h[128:]); return h })},
	{"what the data key is bound to", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 28, 4); return h })},
	{"system", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { put64(h, 16, 4712+pick(r, extremes)); return h })},
	{"stream", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { put32(h, 24, 100+pick(r, extremes)); return h })},
	{"segment", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { put64(h, 32, 1000+pick(r, extremes)); return h })},
	{"reserved bytes", true, false, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 196, 4); return h })},
	{"created", true, false, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { put64(h, 40, pick(r, extremes)); return h })},
	{"first block of the segment", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { put64(h, 48, 1000+pick(r, extremes)); return h })},
	{"first record of the segment", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { put64(h, 56, 10_000+pick(r, extremes)); return h })},
	{"not encrypted", true, true, ofSegment(func(_ *rand.Rand, _ *crafting, h []byte) []byte { put32(h, 12, 0); h[10] = 128; return h[:128] })},
	{"length of a header that is not encrypted", true, true, ofSegment(func(_ *rand.Rand, _ *crafting, h []byte) []byte { h[10] = 128; return h })},
	{"flags", true, true, ofSegment(func(r *rand.Rand, _ *crafting, h []byte) []byte { flip(r, h, 12, 4); return h })},

	{"nonce of a payload", false, true, ofStored(func(r *rand.Rand, b []byte) []byte { flip(r, b, 0, 12); return b })},
	{"payload", false, true, ofStored(func(r *rand.Rand, b []byte) []byte { flip(r, b, 12, len(b)-12); return b })},
	{"payload without its end", false, true, ofStored(func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(max(len(b), 1))] })},
	{"payload with more", false, true, ofStored(func(r *rand.Rand, b []byte) []byte { return append(b, make([]byte, 1+r.IntN(900))...) })},
	{"block not encrypted", false, true, ofBlock(func(_ *rand.Rand, h []byte) { h[7] = 0 })},
	{"codec", false, true, ofBlock(func(r *rand.Rand, h []byte) { h[6] ^= 1 << r.IntN(8) })},
	{"length before compression", false, true, ofBlock(func(r *rand.Rand, h []byte) {
		n := binary.LittleEndian.Uint32(h[12:])
		for binary.LittleEndian.Uint32(h[12:]) == n {
			put32(h, 12, pick(r, []uint64{0, 1, uint64(n) - 1, uint64(n) + 1, 1 << 20, format.MaxRaw}))
		}
	})},
	{"records", false, true, ofBlock(func(r *rand.Rand, h []byte) { put32(h, 16, 17+pick(r, extremes)) })},
	{"block number", false, true, ofBlock(func(r *rand.Rand, h []byte) { put64(h, 24, 1000+pick(r, extremes)) })},
	{"first record", false, true, ofBlock(func(r *rand.Rand, h []byte) { put64(h, 32, 10_000+pick(r, extremes)) })},
	{"times", false, false, ofBlock(func(r *rand.Rand, h []byte) { put64(h, 40+8*r.IntN(3), pick(r, extremes)) })},
}

// keysNeeded says whether a command shows, or goes by, what is encrypted, and names no time, so that it must not
// succeed without the keys.
func keysNeeded(args []string) bool {
	switch args[0] {
	case "verify", "info", "slot", "recover", "seal", "acknowledge", "check", "top":
		return false
	}
	return !slices.Contains(args, "--since") && !slices.Contains(args, "--check") && !slices.Contains(args, "--slot")
}

// comparable is what is shown of records that two trails have, which differ in what seals say and where the trails are.
func comparable(out, dir string) string {
	lines := splitLines(strings.ReplaceAll(out, dir, "TRAIL"))
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, `"kind":"seal"`) }), "\n")
}

// checkEncrypted runs everything on a trail that was changed: with its keys, with another one and with none. With the
// keys, the answers are those of the trail that is not encrypted and was changed in the same way, if there is one.
func checkEncrypted(t *testing.T, r *rand.Rand, base encryptedBase, key string) {
	changed := func(from string) (work, dir string) {
		work = t.TempDir()
		dir = filepath.Join(work, "trail")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return work, dir
	}
	work, dir := changed(base.dir)
	system := systemOf(dir)
	c := &crafting{keys: base.keys}
	segments, blocks := c.rewrite(t, dir)
	var f forgery
	var changes []edit
	block := r.IntN(blocks)
	if oneIn(r, 2) {
		f = pick(r, forgeries)
		place := block
		if f.key {
			place = r.IntN(segments)
		}
		f.change(r, c, place)
	}
	if f.name == "" || oneIn(r, 4) {
		for range 1 + r.IntN(3) {
			changes = append(changes, edit{at: r.Uint32(), kind: byte(r.Uint32()), with: byte(r.Uint32())})
		}
	}
	c.payload = func(n int, _ uint32, payload []byte) []byte {
		for i := 0; n == block && i < len(changes); i++ {
			payload = changes[i].apply(payload)
		}
		return payload
	}
	c.rewrite(t, dir)
	prepare(t, work, system)
	t.Logf("%s: %q, block %d, %v", base.dir, f.name, block, changes)

	var access []string
	if oneIn(r, 2) {
		access = []string{"--encryption-key-file", keyFile(t, [format.KeySize]byte{9})} // another one
	}
	for _, args := range everything(dir, t.TempDir(), key, access...) {
		if args[0] == "slot" || args[0] == "recover" || slices.Contains(args, "--grants") || slices.Contains(args, "--changes") {
			continue // they change the trail, or need files
		}
		said, warned, code := executed(t, args...)
		if code == 0 && keysNeeded(args) && base.plain != "" {
			t.Errorf("%q succeeds without the key", args)
		}
		if code == 3 && said+warned == "" {
			t.Errorf("%q ends with 3 and does not say why", args)
		}
	}
	run := func(work, dir string, access ...string) (answers []answer) {
		for _, args := range everything(dir, work, key, access...) {
			out, warned, code := executed(t, args...)
			answers = append(answers, answer{args, comparable(out, dir), comparable(warned, dir), code})
		}
		return answers
	}
	answers := run(work, dir, "--encryption-key-file", keyFile(t, base.keys...))
	all, some, verified := answers[0], answers[1], answers[6]
	if verified.code == 0 {
		agree(t, all.said, some.said)
		if f.detected && (!f.key || base.plain != "") {
			t.Errorf("verify finds nothing: %s", verified.said)
		}
	}
	if base.plain == "" || f.name != "" {
		return
	}
	work, dir = changed(base.plain)
	(&crafting{payload: c.payload}).rewrite(t, dir)
	prepare(t, work, system)
	for i, plain := range run(work, dir)[:len(answers)-1] { // the last one is about what recovery has made
		one := answers[i]
		if one.args[0] == "recover" {
			continue // it has no keys, so it looks at no records
		}
		if one.code != plain.code {
			t.Errorf("%q ends with %d, and %d if the trail is not encrypted\n%s%s\n%s%s", one.args, one.code, plain.code, one.said, one.warned, plain.said, plain.warned)
		}
		if i < 4 && one.said != plain.said {
			t.Errorf("%q shows\n%s\nand if the trail is not encrypted\n%s", one.args, one.said, plain.said)
		}
	}
}

// answer is what a command says.
type answer struct {
	args         []string
	said, warned string
	code         int
}

// TestCraftedEncryptedTrailsStopNobody changes trails by those who have their keys, and by those who have not, at
// random: payloads before they are encrypted, or headers of segments and blocks. STENO_CRAFTED is how many, STENO_SEED
// the first seed.
func TestCraftedEncryptedTrailsStopNobody(t *testing.T) {
	_, key := craftedBases(t)
	bases := encryptedBases(t)
	seed := uint64(fromEnvironment(t, "STENO_SEED", int(time.Now().Unix())))
	for i := range uint64(fromEnvironment(t, "STENO_CRAFTED", 3)) {
		r := rand.New(rand.NewPCG(seed+i, 16))
		if !t.Run(fmt.Sprint(seed+i), func(t *testing.T) { checkEncrypted(t, r, pick(r, bases), key) }) {
			t.Fatalf("STENO_SEED=%d", seed+i)
		}
	}
}
