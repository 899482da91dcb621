package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessTime is the time that a process of one thread has had on a processor,
// to the nanosecond. Not every kernel keeps it. proc is /proc.
func ProcessTime(proc string, pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "schedstat"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	return time.Duration(n), err
}
