package postgres

import (
	"os"
	"testing"
)

func TestReachable(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if reachable(dir) {
		t.Error("a folder that others may not pass through counts as reachable")
	}
	if !reachable("/") {
		t.Error("the root folder does not count as reachable")
	}
}
