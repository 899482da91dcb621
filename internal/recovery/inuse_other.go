//go:build !linux

// Stubs for systems on which pg_steno does not run.

package recovery

import "os"

// Servers with pg_steno run only on Linux. Files on other systems are copies, which no server uses.

func serverOf(string, os.FileInfo, uint32) int { return 0 }

// InUse is false here, too.
func InUse(string, os.FileInfo, uint32) bool { return false }

func writerOf(string) int { return 0 }
