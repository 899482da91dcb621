// Package cluster makes throw-away PostgreSQL servers for measurements, demonstrations and tests.
//
// An Installation is where PostgreSQL's programs are, and as whom they run. A Lab is a temporary folder with a
// template cluster and any number of servers that start as copies of it, identical except for their settings. The
// servers listen on Unix sockets inside the folder and nowhere else. Closing the lab stops them and removes the
// folder; when this process dies first, the kernel tells each server to shut down.
package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/postgres"
)

// Installation is an installed version of PostgreSQL.
type Installation struct {
	postgres.Installation
	LibraryDir string // modules
	ShareDir   string
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
	if program := i.Missing("postgres", "initdb", "pgbench", "psql"); program != "" {
		return nil, fmt.Errorf("no %s in \"%s\": is the PostgreSQL server installed?", program, i.BinDir)
	}
	accounts := []string{"postgres", "nobody"}
	if name := os.Getenv("STENO_USER"); name != "" {
		accounts = []string{name}
	}
	return &i, i.ChooseAccount(accounts...)
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

// HasLibrary reports whether a module that can be preloaded is installed.
func (i *Installation) HasLibrary(name string) bool {
	_, err := os.Stat(filepath.Join(i.LibraryDir, name+".so"))
	return err == nil
}
