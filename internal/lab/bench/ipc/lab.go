package ipc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const programName = "steno-ipc"

// findProgram looks for steno-ipc: where steno is installed, where it was built, and
// on the path.
func findProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", err
	}
	return findBeside(filepath.Dir(self))
}

func findBeside(dir string) (string, error) {
	for _, place := range []string{dir, filepath.Join(dir, "..", "core", "build")} {
		path := filepath.Join(place, programName)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	if path, err := exec.LookPath(programName); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no program \"%s\" in \"%s\", in \"../core/build\" beside it, or in PATH; "+
		"\"make build\" builds it, and \"make install\" installs it beside steno", programName, dir)
}

// lab runs cases.
type lab struct {
	program string
}

// usage is what processes have used together. Ticks are samples that tell how
// processor time divides into user and system time.
type usage struct {
	CPU         uint64 `json:"cpu_ns"`
	UserTicks   uint64 `json:"user_ticks_ns"`
	AllTicks    uint64 `json:"all_ticks_ns"`
	Voluntary   uint64 `json:"voluntary"`
	Involuntary uint64 `json:"involuntary"`
}

// user is the share of the processor time that was spent in user mode; false when
// the time is too short to tell.
func (u usage) user() (float64, bool) {
	return float64(u.UserTicks) / float64(max(u.AllTicks, 1)), u.AllTicks > 0
}

func (u usage) plus(v usage) usage {
	return usage{
		u.CPU + v.CPU, u.UserTicks + v.UserTicks, u.AllTicks + v.AllTicks,
		u.Voluntary + v.Voluntary, u.Involuntary + v.Involuntary,
	}
}

// sent is what steno-ipc says about a case of sending.
type sent struct {
	Skipped         string  `json:"skipped"`
	Messages        uint64  `json:"messages"`
	Bytes           uint64  `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	Senders         usage   `json:"senders"`
	Readers         usage   `json:"readers"`
	Looks           uint64  `json:"looks"`
	Uninterruptible uint64  `json:"uninterruptible"`
	Delay50         float64 `json:"delay_50_ns"`
	Delay99         float64 `json:"delay_99_ns"`
	Own             float64 `json:"own_ns"`
}

// woken is what steno-ipc says about a case of waking.
type woken struct {
	Skipped       string  `json:"skipped"`
	Rounds        uint64  `json:"rounds"`
	WakerCalls    uint64  `json:"waker_calls"`
	SleeperCalls  uint64  `json:"sleeper_calls"`
	Counted       bool    `json:"counted"`
	WakingSeconds float64 `json:"waking_seconds"`
	WakerCPU      float64 `json:"waker_cpu_ns"`
	First50       float64 `json:"first_50_ns"`
	Middle50      float64 `json:"middle_50_ns"`
	Last50        float64 `json:"last_50_ns"`
	Last99        float64 `json:"last_99_ns"`
	Sleepers      usage   `json:"sleepers"`
}

func (l *lab) send(ctx context.Context, channel string, g group, slice time.Duration, folder string) (*sent, error) {
	args := []string{
		"send", "--channel=" + channel, "--processes=" + strconv.Itoa(g.processes), "--size=" + strconv.Itoa(g.size),
		"--readers=" + strconv.Itoa(g.readers), "--batch=" + strconv.Itoa(g.batch), "--clock=" + g.clock,
		milliseconds(slice),
	}
	if folder != "" {
		args = append(args, "--folder="+folder)
	}
	var s sent
	err := l.run(ctx, &s, args...)
	if err == nil && s.Skipped == "" && (s.Messages == 0 || s.Seconds <= 0) {
		err = fmt.Errorf("%s: no message in %v", strings.Join(args, " "), slice)
	}
	return &s, err
}

func (l *lab) wake(ctx context.Context, waker string, sleepers int, slice time.Duration) (*woken, error) {
	name, recreate := strings.CutSuffix(waker, "_recreate")
	epoll := "keep"
	if recreate {
		epoll = "recreate"
	}
	args := []string{
		"wake", "--waker=" + name, "--sleepers=" + strconv.Itoa(sleepers), "--epoll=" + epoll, milliseconds(slice),
	}
	var w woken
	err := l.run(ctx, &w, args...)
	if err == nil && w.Skipped == "" && (w.Rounds == 0 || w.WakingSeconds <= 0) {
		err = fmt.Errorf("%s: no process was woken in %v", strings.Join(args, " "), slice)
	}
	return &w, err
}

func milliseconds(d time.Duration) string {
	return "--milliseconds=" + strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

// run starts the program and reads its line. The kernel kills the program, and it
// its processes, when the thread that has started it ends; so that thread waits.
func (l *lab) run(ctx context.Context, into any, args ...string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, l.program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(strings.TrimPrefix(text, programName+": "))
		}
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		return fmt.Errorf("%s: cannot read the output of \"%s\": %w", strings.Join(args, " "), programName, err)
	}
	return nil
}
