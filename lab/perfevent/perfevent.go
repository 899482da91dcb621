// Package perfevent counts events of processes with the kernel's perf events: system calls, and calls of a function of
// a program. Everything that it sets up in the kernel is removed with this process: unlike the program perf, a killed
// program leaves no probe behind. The system call is in golang.org/x/sys/unix; a library on top of it would only save
// reading a few files.
package perfevent

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Event is an event that can be counted.
type Event struct {
	kind, config uint64
	path         string // of the program, for a probe
	offset       uint64
}

// tracing lists the directories that may describe the kernel's tracepoints.
var tracing = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

const probes = "/sys/bus/event_source/devices/uprobe/type"

// SystemCalls counts system calls by name, such as epoll_ctl; an empty name means all.
func SystemCalls(name string) (Event, error) {
	tracepoint := "raw_syscalls/sys_enter"
	if name != "" {
		tracepoint = "syscalls/sys_enter_" + name
	}
	var failure error
	for _, dir := range tracing {
		id, err := readNumber(filepath.Join(dir, "events", tracepoint, "id"))
		if err == nil {
			return Event{kind: unix.PERF_TYPE_TRACEPOINT, config: id}, nil
		}
		failure = errors.Join(failure, err)
	}
	return Event{}, fmt.Errorf("cannot count system calls: %w", failure)
}

// Calls counts calls of an exported function of a program or library.
func Calls(path, function string) (Event, error) {
	kind, err := readNumber(probes)
	if err != nil {
		return Event{}, fmt.Errorf("cannot count calls of %s(): %w", function, err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return Event{}, err
	}
	offset, err := fileOffset(path, function)
	return Event{kind: kind, path: path, offset: offset}, err
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
}

// fileOffset returns the offset in the file at which an exported function begins.
func fileOffset(path, function string) (uint64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("cannot read the symbols of \"%s\": %w", path, err)
	}
	for _, symbol := range symbols {
		if symbol.Name != function || symbol.Section == elf.SHN_UNDEF || elf.ST_TYPE(symbol.Info) != elf.STT_FUNC {
			continue
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && symbol.Value >= p.Vaddr && symbol.Value < p.Vaddr+p.Filesz {
				start := symbol.Value - p.Vaddr
				return p.Off + start + barrier(p, int64(start)), nil
			}
		}
	}
	return 0, fmt.Errorf("\"%s\" exports no function %s()", path, function)
}

// barriers are memory barriers of x86-64, lock add or lock or of 0 to the top of the stack. The kernel rejects probes
// on instructions with a lock prefix.
var barriers = [][]byte{{0xf0, 0x83, 0x04, 0x24, 0}, {0xf0, 0x83, 0x0c, 0x24, 0}, {0xf0, 0x48, 0x83, 0x0c, 0x24, 0}}

// barrier returns the length of a memory barrier at the beginning of a function. The instruction after it is executed
// as often as the function is called.
func barrier(code io.ReaderAt, at int64) uint64 {
	var start [8]byte
	_, _ = code.ReadAt(start[:], at) // the rest are zeros
	for _, b := range barriers {
		if bytes.HasPrefix(start[:], b) {
			return uint64(len(b))
		}
	}
	return 0
}

// Counter counts one event in processes: system calls also in all processes that they start after that, calls of a
// function only in the processes themselves.
type Counter struct{ fds []int }

// Open starts counting in these processes. A process that has exited meanwhile is ignored.
func Open(e Event, pids []int) (*Counter, error) {
	c := &Counter{}
	for _, pid := range pids {
		fd, err := e.open(pid)
		switch {
		case err == nil:
			c.fds = append(c.fds, fd)
		case errors.Is(err, unix.ESRCH):
		default:
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func (e Event) open(pid int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: uint32(e.kind), Config: e.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
	}
	if e.path == "" {
		// Not for probes: when the process forks, the kernel would read the path again from that process's memory, and
		// make the fork fail.
		attr.Bits = unix.PerfBitInherit
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	if e.path != "" {
		path, err := unix.BytePtrFromString(e.path)
		if err != nil {
			return 0, err
		}
		// The kernel reads the path by its address, so it must not be moved.
		pin.Pin(path)
		attr.Ext1, attr.Ext2 = uint64(uintptr(unsafe.Pointer(path))), e.offset
	}
	fd, err := unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		return fd, nil
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return 0, fmt.Errorf("the kernel does not permit this user to count (kernel.perf_event_paranoid, "+
			"CAP_PERFMON): %w",
			err)
	}
	return 0, fmt.Errorf("cannot count in process %d: %w", pid, err)
}

// Read returns the count since Open.
func (c *Counter) Read() (uint64, error) {
	var sum uint64
	for _, fd := range c.fds {
		var value [8]byte
		if n, err := unix.Read(fd, value[:]); err != nil || n != len(value) {
			return 0, fmt.Errorf("cannot read a counter: %w", errors.Join(err, fmt.Errorf("%d bytes", n)))
		}
		sum += binary.NativeEndian.Uint64(value[:])
	}
	return sum, nil
}

// Close stops counting.
func (c *Counter) Close() {
	for _, fd := range c.fds {
		_ = unix.Close(fd)
	}
	c.fds = nil
}
