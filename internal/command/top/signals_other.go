//go:build !unix

// Systems without Ctrl-Z.

package top

import "os"

// There are none that a terminal has to be saved from.
var (
	fatalSignals, stopSignals []os.Signal
	closed                    os.Signal
)

func isStop(os.Signal) bool { return false }

func raiseStop() {}

func stop() {}

func pass(os.Signal) {}
