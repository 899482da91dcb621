//go:build !unix

package ship

import "os"

// hangup is empty: there is no such signal.
var hangup = []os.Signal{}
