package measure

import (
	"os"
	"strings"
)

// CommandLine is how the program was called, as reports and archives quote it.
func CommandLine() string { return commandLine(os.Args[1:]) }

// commandLine leaves connection strings out: there may be a password in them.
func commandLine(args []string) string {
	const flag = "--dsn"
	command := "steno"
	for i, arg := range args {
		if strings.HasPrefix(arg, flag+"=") {
			arg = flag + "=..."
		} else if i > 0 && args[i-1] == flag {
			arg = "..."
		}
		command += " " + arg
	}
	return command
}
