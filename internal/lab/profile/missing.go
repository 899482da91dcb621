package profile

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Shares of frames without a name that are worth a note, in per cent.
const (
	muchUnnamed  = 15
	muchOneFrame = 60
)

// missingSymbols says what to install where functions have no names, or no
// callers.
func missingSymbols(p *Profile, program string, userOnly bool) []string {
	var server, unnamed, kernel, unnamedKernel, samples, shallow int
	for _, s := range p.Stacks {
		if s.Process != backend || s.Waiting || len(s.Frames) == 0 {
			continue
		}
		inUser := 0
		for _, f := range s.Frames {
			unknown := f.Symbol == "[unknown]"
			switch {
			case strings.HasPrefix(f.Object, "[kernel") || f.Object == "[unknown]" && unknown && inUser == 0:
				kernel += s.Samples
				unnamedKernel += when(unknown, s.Samples)
			case isServerFile(f.Object):
				inUser++
				server += s.Samples
				unnamed += when(unknown, s.Samples)
			default:
				inUser++
			}
		}
		samples += s.Samples
		shallow += when(inUser <= 2, s.Samples)
	}
	var notes []string
	if percent(float64(unnamed), float64(server)) > muchUnnamed {
		notes = append(notes, fmt.Sprintf("%.0f %% of the server's functions in the stacks have no names: install "+
			"%s. Causes were determined from the names that are known.",
			percent(float64(unnamed), float64(server)), debugSymbols(program)))
	}
	if percent(float64(unnamedKernel), float64(kernel)) > muchUnnamed {
		notes = append(notes, "The kernel's functions have no names: run as root, or \"sysctl kernel.kptr_restrict=0\".")
	}
	if percent(float64(shallow), float64(samples)) > muchOneFrame {
		notes = append(notes, "Most stacks end after two functions: the server was built without frame pointers. Try "+
			"--unwind dwarf.")
	}
	if userOnly {
		notes = append(notes, "The kernel was not sampled: the cost of the log's pipe and its lock cannot be told from "+
			"that of write(). "+paranoidHint())
	}
	return notes
}

func when(condition bool, n int) int {
	if condition {
		return n
	}
	return 0
}

func isServerFile(object string) bool {
	base := path.Base(strings.TrimSuffix(object, " (deleted)"))
	return base == "postgres" || base == "postmaster"
}

var debianVersion = regexp.MustCompile(`/postgresql/(\d+)/`)
var redHatVersion = regexp.MustCompile(`/pgsql-(\d+)/`)

// debugSymbols is the package with the names of a server's functions.
func debugSymbols(program string) string {
	if m := debianVersion.FindStringSubmatch(program); m != nil {
		return "postgresql-" + m[1] + "-dbgsym"
	}
	if m := redHatVersion.FindStringSubmatch(program); m != nil {
		return "postgresql" + m[1] + "-debuginfo"
	}
	return "the server's debug symbols (its -dbgsym or -debuginfo package)"
}
