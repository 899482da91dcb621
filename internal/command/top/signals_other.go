//go:build !unix

// Systems without Ctrl-Z.

package top

import "os"

// There are none at which the terminal has to be restored.
var (
	fatalSignals, stopSignals []os.Signal
	closed                    os.Signal
)

func isStop(os.Signal) bool { return false }

func raiseStop() {}

func stop() {}

func pass(os.Signal) {}
