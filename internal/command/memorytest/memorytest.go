// Package memorytest measures how much memory a command takes. It runs the command in a process of its own: the test
// program itself, started for the test TestMemoryChild.
package memorytest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
)

// variable has the arguments for the process that is measured.
const variable = "STENO_MEMORY_ARGS"

// Child is all of a package's TestMemoryChild: in a process that Peak has started, it runs the command.
func Child(t *testing.T, newRoot func(*iostreams.IOStreams) *cobra.Command) {
	args := os.Getenv(variable)
	if args == "" {
		t.Skip("run by tests that measure memory")
	}
	root := newRoot(&iostreams.IOStreams{In: os.Stdin, Out: io.Discard, ErrOut: io.Discard})
	code := program.Run(context.Background(), root, strings.Split(args, "\n"))
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("code %d %s\n", code, regexp.MustCompile(`VmHWM:.*`).Find(status))
}

// Peak runs a command line in a process of its own, with so many processors, and returns its exit code and the most
// memory that it had, in MB. The package must have a TestMemoryChild.
func Peak(t *testing.T, processors int, args ...string) (code, mb int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs /proc")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestMemoryChild$", "-test.v")
	c.Env = append(os.Environ(), variable+"="+strings.Join(args, "\n"),
		fmt.Sprintf("GOMAXPROCS=%d", processors), "GORACE=")
	out, err := c.CombinedOutput()
	m := regexp.MustCompile(`code (\d+) VmHWM:\s*(\d+) kB`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%s: %v: %s", args, err, out)
	}
	code, _ = strconv.Atoi(string(m[1]))
	kb, _ := strconv.Atoi(string(m[2]))
	return code, kb / 1024
}

// Processors is how many a command uses at most, unless it is asked to use more.
const Processors = 8

// Documented is the table of the page docs/steno.md: the most memory that a command takes, in MB, of a trail with so
// many of what it keeps.
func Documented(t *testing.T, page, command string, kept int) int {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n## Memory\n")
	if !ok {
		t.Fatalf("%s has no section on memory", page)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range regexp.MustCompile(
		`(?m)^\| (.*) \| (\d+) MB(?:, and (\d+) MB for each ([\d,]+) [^|]*)? \|$`).FindAllStringSubmatch(table, -1) {
		if !strings.Contains(row[1], "`"+command+"`") {
			continue
		}
		most, _ := strconv.Atoi(row[2])
		if each, _ := strconv.Atoi(strings.ReplaceAll(row[4], ",", "")); each > 0 {
			more, _ := strconv.Atoi(row[3])
			most += kept / each * more
		}
		return most
	}
	t.Fatalf("%s does not say how much memory steno %s takes", page, command)
	return 0
}

// Check fails the test if a command took more memory than the docs state, or failed.
func Check(t *testing.T, what, page, command string, kept int, args ...string) {
	t.Helper()
	code, mb := Peak(t, Processors, args...)
	line := fmt.Sprintf("%s: %v takes %d MB (code %d)", what, args[:len(args)-1], mb, code)
	if t.Log(line); mb > Documented(t, page, command, kept) || code != 0 {
		t.Error(line)
	}
}
