//go:build !unix

// Systems without a signal that reads a configuration again.

package ship

import "os"

// hangup is empty: there is no such signal.
var hangup = []os.Signal{}
