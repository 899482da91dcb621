// Package cluster makes throw-away PostgreSQL servers in a temporary folder,
// for measurements, demonstrations and tests.
//
// An Installation is where PostgreSQL's programs are, and as whom they run. A
// Lab is a temporary folder with a template cluster and any number of servers
// that start as copies of it, identical but for their settings. The servers
// listen on Unix sockets inside the folder and nowhere else. Closing the lab
// stops them and removes the folder; when this process dies first, the kernel
// tells each server to shut down.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// Installation is an installed version of PostgreSQL.
type Installation struct {
	BinDir     string // programs
	LibraryDir string // modules
	ShareDir   string
	Version    string // as in "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)"

	credential *syscall.Credential // of the account that runs servers; nil: that of this process
	userName   string
}

// Find locates PostgreSQL by pgConfig. An empty pgConfig means $PG_CONFIG, else PostgreSQL 15 or the newest one in
// Debian's location, else the one on the PATH.
func Find(pgConfig string) (*Installation, error) {
	if pgConfig == "" {
		pgConfig = defaultConfig()
	}
	ask := func(option string) (string, error) {
		out, err := exec.Command(pgConfig, option).Output()
		if err != nil {
			return "", fmt.Errorf("cannot run \"%s %s\": %w", pgConfig, option, err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	var i Installation
	for option, field := range map[string]*string{
		"--bindir":    &i.BinDir,
		"--pkglibdir": &i.LibraryDir,
		"--sharedir":  &i.ShareDir,
		"--version":   &i.Version,
	} {
		var err error
		if *field, err = ask(option); err != nil {
			return nil, err
		}
	}
	for _, program := range []string{"postgres", "initdb", "pgbench", "psql"} {
		if _, err := os.Stat(i.Program(program)); err != nil {
			return nil, fmt.Errorf("no %s in \"%s\": is the PostgreSQL server installed?", program, i.BinDir)
		}
	}
	return &i, i.chooseUser()
}

func defaultConfig() string {
	if config := os.Getenv("PG_CONFIG"); config != "" {
		return config
	}
	const debian = "/usr/lib/postgresql/"
	found, _ := filepath.Glob(debian + "*/bin/pg_config")
	rank := func(config string) int {
		major, _, _ := strings.Cut(strings.TrimPrefix(config, debian), "/")
		n, _ := strconv.Atoi(major)
		if n == 15 {
			return 1 << 20
		}
		return n
	}
	sort.Slice(found, func(a, b int) bool { return rank(found[a]) > rank(found[b]) })
	if len(found) > 0 {
		return found[0]
	}
	return "pg_config"
}

// chooseUser finds an account to run servers, which refuse to run as root.
func (i *Installation) chooseUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	names := []string{"postgres", "nobody"}
	if name := os.Getenv("STENO_USER"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("user \"%s\" has no numeric ID: %w", name, err)
		}
		i.userName = name
		i.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return nil
	}
	return fmt.Errorf("a PostgreSQL server does not run as root, and there is no user %s to run it", strings.Join(names, " or "))
}

// Program returns the path of one of PostgreSQL's programs.
func (i *Installation) Program(name string) string { return filepath.Join(i.BinDir, name) }

// HasLibrary reports whether a module that can be preloaded is installed.
func (i *Installation) HasLibrary(name string) bool {
	_, err := os.Stat(filepath.Join(i.LibraryDir, name+".so"))
	return err == nil
}

// Client prepares one of PostgreSQL's client programs, run as this process's
// user; cancelling ctx interrupts it.
func (i *Installation) Client(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, i.Program(program), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = cleanEnvironment()
	return cmd
}

// server prepares a program that must not run as root.
func (i *Installation) server(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Env = cleanEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: i.credential}
	return cmd
}

// cleanEnvironment returns the environment without variables that would direct PostgreSQL's programs to another server
// or translate their messages.
func cleanEnvironment() []string {
	env := []string{"LC_ALL=C", "PGTZ=UTC"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			env = append(env, v)
		}
	}
	return env
}

// own makes the account that runs servers the owner of a file.
func (i *Installation) own(path string) error {
	if i.credential == nil {
		return nil
	}
	return os.Chown(path, int(i.credential.Uid), int(i.credential.Gid))
}
