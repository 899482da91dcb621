package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Room at the end of a segment is no part of what was recorded; zeros elsewhere are.
func TestTrailSizeLeavesOutRoom(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"0/1.steno": "abc" + strings.Repeat("\x00", 10) + "def" + strings.Repeat("\x00", 200<<10),
		"0/2.steno": strings.Repeat("x", 64<<10) + strings.Repeat("\x00", 64<<10),
		"1/1.steno": strings.Repeat("\x00", 100),
		"1/2.steno": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := TrailSize(dir); n != 16+64<<10 || err != nil {
		t.Errorf("the trail has %d bytes, %v", n, err)
	}
	if n, err := TreeSize(dir); n != 16+200<<10+128<<10+100 || err != nil {
		t.Errorf("the files have %d bytes, %v", n, err)
	}
}
