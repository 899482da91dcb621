//go:build unix

package ship

import (
	"os"
	"syscall"
)

// hangup has the signal that reads the configuration again.
var hangup = []os.Signal{syscall.SIGHUP}
