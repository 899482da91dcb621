package bench

import (
	"strings"
	"testing"
)

func TestDiskThatIsTooSmallIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := CheckDisk(dir, 1<<62); err == nil || !strings.Contains(err.Error(), "the disk is too small") {
		t.Errorf("got error %v", err)
	}
	if err := CheckDisk(dir, 1); err != nil {
		t.Error(err)
	}
	if err := CheckDisk("/nowhere", 1); err == nil {
		t.Error("no error for a folder that is not there")
	}
}
