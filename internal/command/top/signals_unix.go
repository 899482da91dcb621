//go:build unix

// Ctrl-Z and the signals that stop and continue a program.

package top

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SIGINT and SIGTERM are those of package program.
var (
	fatalSignals = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}
	stopSignals  = []os.Signal{syscall.SIGTSTP}

	// closed is sent when the terminal is gone
	closed os.Signal = syscall.SIGHUP
)

func isStop(s os.Signal) bool { return slices.Contains(stopSignals, s) }

// raiseStop sends the signal of Ctrl-Z, which the terminal does not send in raw mode.
func raiseStop() { _ = syscall.Kill(os.Getpid(), syscall.SIGTSTP) }

// stop stops the process and the others of its job until they are continued. It uses SIGSTOP,
// because Go cannot restore the default action of SIGTSTP. Unlike SIGTSTP, SIGSTOP also stops a job
// that no shell could continue, so stop first checks that there is one.
func stop() {
	parent := os.Getppid()
	session, err := unix.Getsid(0)
	of, err2 := unix.Getsid(parent)
	group, err3 := unix.Getpgid(parent)
	if err != nil || err2 != nil || err3 != nil || session != of || group == unix.Getpgrp() {
		return
	}
	_ = unix.Kill(0, unix.SIGSTOP)
	time.Sleep(50 * time.Millisecond) // until the signal arrives
}

// pass ends the process with the exit code by which shells report a signal.
func pass(s os.Signal) { os.Exit(128 + int(s.(syscall.Signal))) }
