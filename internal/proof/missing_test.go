package proof

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// A proof of a trail that lacks a block, whichever, or has its header or payload damaged,
// is refused where a seal covers the block, and says where; nothing else is different.
func TestMissingBlocksAreRefusedWhereSealsCoverThem(t *testing.T) {
	whole := small{}.write(t)
	tr, err := trail.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	refs := tr.Index().Streams[0].Refs()
	refused, made := 0, 0
	for i := range refs {
		ref := &refs[i]
		name, err := filepath.Rel(whole, ref.Segment.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"header", "payload", "gone"} {
			dir := filepath.Join(t.TempDir(), "trail")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			end := ref.Offset + ref.Length()
			switch how {
			case "header":
				b[ref.Offset+4] ^= 1
			case "payload":
				b[end-1] ^= 1
			case "gone":
				b = append(b[:ref.Offset], b[end:]...)
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, full := range []bool{false, true} {
				proof, err := makeProof(t, dir, question(t, 5, 85, full, ofSalary), nil)
				if r := (*RefusedError)(nil); errors.As(err, &r) {
					refused++
					if !regexp.MustCompile(`block|segment|steno: offset \d+|seal`).MatchString(r.Reason) {
						t.Errorf("block %d, %s: it is not said where: %s", ref.Number, how, r.Reason)
					}
				} else if err != nil {
					t.Fatal(err)
				} else {
					made++
					if r := checked(t, proof, Checks{}); !r.Proved { // what is made of a damaged trail is whole
						t.Errorf("block %d, %s: a proof was made that is none: %v", ref.Number, how, r.Problems)
					}
				}
			}
		}
	}
	if refused == 0 || made == 0 {
		t.Errorf("%d are refused, %d are made", refused, made)
	}
}
