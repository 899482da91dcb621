package perf

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Try records nothing with the arguments of "perf record", to find out whether perf may
// sample so. What perf says when it may not comes with the error.
func Try(ctx context.Context, args []string) (said []byte, err error) {
	args = append(slices.Clone(args), "-o", os.DevNull, "--", "true")
	return exec.CommandContext(ctx, "perf", args...).CombinedOutput()
}

// Record samples into a file for that long, with the arguments of "perf record".
func Record(ctx context.Context, args []string, data string, seconds int) error {
	args = append(slices.Clone(args), "-o", data, "--", "sleep", strconv.Itoa(seconds))
	cmd := exec.CommandContext(ctx, "perf", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // perf ends sleep, too
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("perf record: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}
