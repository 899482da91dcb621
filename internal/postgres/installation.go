// Package postgres runs throw-away PostgreSQL servers: in a temporary folder of mode 0700, where their sockets are,
// too. They listen nowhere else.
//
// An Installation is where PostgreSQL's programs are, and as whom they run. A Folder is removed when it is closed, or
// by a process of its own if this one dies first. A Server runs on a data folder in it.
package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Installation is an installed version of PostgreSQL.
type Installation struct {
	BinDir  string // programs
	Version string // as in "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)"

	account *account // that runs servers; nil: that of this process
}

// places are where systems have PostgreSQL's programs.
var places = []string{
	"/usr/lib/postgresql/*/bin",                                  // Debian
	"/usr/pgsql-*/bin",                                           // packages of postgresql.org for RHEL
	"/usr/lib/postgresql[0-9]*/bin",                              // SUSE
	"/usr/libexec/postgresql[0-9]*",                              // Alpine
	"/usr/local/pgsql/bin",                                       // built from source
	"/opt/homebrew/opt/postgresql@*/bin",                         // macOS
	"/usr/local/opt/postgresql@*/bin",                            //
	"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin",    //
	"/usr/local/lib/postgresql/bin", "/usr/local/postgresql/bin", // images, ports
}

// Installed returns the PostgreSQL servers of this machine, the newest first: that of $PG_CONFIG if it is set,
// otherwise those where systems have them, and the one on the PATH. They have the programs that a throw-away server
// needs.
func Installed() (found []*Installation) {
	if runtime.GOOS == "windows" {
		return nil
	}
	var dirs []string
	if config := os.Getenv("PG_CONFIG"); config != "" {
		out, err := exec.Command(config, "--bindir").Output()
		if err != nil {
			return nil
		}
		dirs = []string{strings.TrimSpace(string(out))}
	} else {
		for _, place := range places {
			more, _ := filepath.Glob(place)
			dirs = append(dirs, more...)
		}
		if path, err := exec.LookPath("initdb"); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil {
				dirs = append(dirs, filepath.Dir(path))
			}
		}
	}
	for _, dir := range dirs {
		i := &Installation{BinDir: dir}
		if i.Missing("postgres", "initdb", "psql") != "" || slices.ContainsFunc(found, func(o *Installation) bool {
			return o.BinDir == dir
		}) {
			continue
		}
		out, err := exec.Command(i.Program("postgres"), "--version").Output()
		if err != nil {
			continue
		}
		i.Version = strings.Replace(strings.TrimPrefix(strings.TrimSpace(string(out)), "postgres "), "(PostgreSQL)",
			"PostgreSQL", 1)
		if i.Major() > 0 {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b *Installation) int { return b.Major() - a.Major() })
	return found
}

// Major is the number of the major version.
func (i *Installation) Major() int {
	for _, word := range strings.Fields(i.Version) {
		if n := strings.IndexFunc(word+".", func(c rune) bool { return c < '0' || c > '9' }); n > 0 {
			major, _ := strconv.Atoi(word[:n])
			return major
		}
	}
	return 0
}

// Program returns the path of one of PostgreSQL's programs.
func (i *Installation) Program(name string) string { return filepath.Join(i.BinDir, name) }

// Missing returns the first of some programs that the installation does not have.
func (i *Installation) Missing(programs ...string) string {
	for _, name := range programs {
		if _, err := os.Stat(i.Program(name)); err != nil {
			return name
		}
	}
	return ""
}

// ChooseAccount chooses who runs servers, which refuse to run as root: the first of these accounts that there is. If
// this process is not root's, it is its own account.
func (i *Installation) ChooseAccount(names ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range names {
		a, err := findAccount(name)
		if err != nil {
			return err
		}
		if a != nil {
			i.account = a
			return nil
		}
	}
	return fmt.Errorf("a PostgreSQL server does not run as root, and there is no user %s to run it",
		strings.Join(names, " or "))
}

// Client prepares one of PostgreSQL's client programs, run as this process's
// user; cancelling ctx interrupts it.
func (i *Installation) Client(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, i.Program(program), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = cleanEnvironment()
	return cmd
}

// Command prepares a program that runs with the account of the servers.
func (i *Installation) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Env = cleanEnvironment()
	i.setAccount(cmd)
	return cmd
}

// cleanEnvironment returns the environment without variables that would direct PostgreSQL's programs to another
// server or translate their messages.
func cleanEnvironment() []string {
	env := []string{"LC_ALL=C", "PGTZ=UTC"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			env = append(env, v)
		}
	}
	return env
}
