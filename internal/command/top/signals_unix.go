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

	// closed stands for a terminal that is gone
	closed os.Signal = syscall.SIGHUP
)

func isStop(s os.Signal) bool { return slices.Contains(stopSignals, s) }

// raiseStop asks for what Ctrl-Z does, which the terminal does not while it is ours.
func raiseStop() { _ = syscall.Kill(os.Getpid(), syscall.SIGTSTP) }

// stop stops the process, with the others of its job, until it is continued. Go does not give
// the handler of SIGTSTP back, and nothing ignores SIGSTOP: so it is asked first whether there is
// a shell that could continue the job, as the system does for SIGTSTP.
func stop() {
	parent := os.Getppid()
	session, err := unix.Getsid(0)
	of, err2 := unix.Getsid(parent)
	group, err3 := unix.Getpgid(parent)
	if err != nil || err2 != nil || err3 != nil || session != of || group == unix.Getpgrp() {
		return
	}
	_ = unix.Kill(0, unix.SIGSTOP)
	time.Sleep(50 * time.Millisecond) // in which the signal arrives
}

// pass ends the process as a shell says that a signal has ended one.
func pass(s os.Signal) { os.Exit(128 + int(s.(syscall.Signal))) }
