package program

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// What an auditor's program may not link: databases, servers, profiles, and all that is
// of the laboratory.
var notInSteno = []string{
	"net/http", "os/user", "github.com/jackc/", "github.com/google/pprof", "github.com/HdrHistogram/",
	"debug/elf", module + "lab", module + "internal/sql", "github.com/duckdb/",
	module + "internal/top", "charm.land/", "github.com/charmbracelet/",
}

const module = "github.com/pg-steno/pg_steno/"

func run(t *testing.T, env []string, command ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(append(env, command...), " "), err, out)
	}
	return string(out)
}

func TestStenoLinksNothingOfTheLab(t *testing.T) {
	deps := strings.Fields(run(t, []string{"CGO_ENABLED=0"}, "go", "list", "-deps", module+"cmd/steno"))
	if len(deps) < 50 {
		t.Fatalf("only %d packages", len(deps))
	}
	for _, p := range deps {
		for _, no := range notInSteno {
			if strings.HasPrefix(p, no) {
				t.Errorf("steno links %s", p)
			}
		}
	}
}

// maxOutside is how many packages of other modules steno may link: each is code that
// auditors have to trust.
const maxOutside = 25

func TestStenoLinksLittleFromOutside(t *testing.T) {
	const outside = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	var found []string
	for _, p := range strings.Fields(run(t, []string{"CGO_ENABLED=0"}, "go", "list", "-deps", "-f", outside, module+"cmd/steno")) {
		if !strings.HasPrefix(p, module) {
			found = append(found, p)
		}
	}
	if len(found) == 0 || len(found) > maxOutside {
		t.Errorf("steno links %d packages from outside, want at most %d:\n%s", len(found), maxOutside, strings.Join(found, "\n"))
	}
}

// TestStenoBuildsForEverySystem compiles steno, steno-top and steno-ship without C for all systems that it reads and
// verifies trails on.
func TestStenoBuildsForEverySystem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute when nothing is in the cache")
	}
	for _, system := range []string{"linux/" + runtime.GOARCH, "darwin/arm64", "windows/amd64"} {
		goos, arch, _ := strings.Cut(system, "/")
		run(t, []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + arch}, "go", "build", module+"internal/command/cli", module+"internal/command/top",
			module+"internal/command/ship")
	}
}
