//go:build unix

// The signal that reads a configuration again.

package ship

import (
	"os"
	"syscall"
)

// hangup has the signal that reads the configuration again.
var hangup = []os.Signal{syscall.SIGHUP}
