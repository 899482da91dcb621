//go:build unix

package top

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// SIGINT and SIGTERM are those of package program.
var (
	fatalSignals = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}
	stopSignals  = []os.Signal{syscall.SIGTSTP}
)

func isStop(s os.Signal) bool { return slices.Contains(stopSignals, s) }

// pass ends the process by a signal, so that whoever waits for it knows by which.
func pass(s os.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
	time.Sleep(time.Second)
}
