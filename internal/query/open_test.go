package query

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheOnlyTrailIsTheDefault(t *testing.T) {
	root := t.TempDir()
	defer func(usual []string) { usualTrails = usual }(usualTrails)
	usualTrails = []string{filepath.Join(root, "*", "*", "pg_steno")}
	t.Setenv("STENO_DIRECTORY", "")
	t.Setenv("PGDATA", "")
	if _, err := DefaultTrail(); err == nil || !strings.Contains(err.Error(), "neither STENO_DIRECTORY nor PGDATA is set") {
		t.Errorf("without any: %v", err)
	}
	one, other := filepath.Join(root, "15", "main", "pg_steno"), filepath.Join(root, "16", "main", "pg_steno")
	if err := os.MkdirAll(one, 0o700); err != nil {
		t.Fatal(err)
	}
	if dir, err := DefaultTrail(); dir != one || err != nil {
		t.Errorf("with one: %q, %v", dir, err)
	}
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := DefaultTrail(); err == nil || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), other) {
		t.Errorf("with two: %v", err)
	}
	t.Setenv("PGDATA", filepath.Dir(other))
	if dir, err := DefaultTrail(); dir != other || err != nil {
		t.Errorf("with PGDATA: %q, %v", dir, err)
	}
}

func TestKeysAreParsed(t *testing.T) {
	key := strings.Repeat("0a", 31)
	for _, c := range []struct {
		text, wrong string
		keys        int
	}{
		{key + "ff", "", 1},
		{key + "FF\n", "", 1},
		{"\n" + key + "ff \r\n\n" + key + "00\t\n", "", 2},
		{"", "no key", 0},
		{"\n", "no key", 0},
		{key, "line 1 has 62 characters", 0},
		{key + "ff0", "line 1 has 65 characters", 0},
		{key + "ff\n" + key + "ffff", "line 2 has 66 characters", 0},
		{key + "0x", "line 1: a key is 64 hexadecimal digits", 0},
		{" " + key + "ff", "line 1 has 65 characters", 0},
	} {
		keys, err := parseKeys([]byte(c.text))
		if len(keys) != c.keys || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %d keys, %v", c.text, len(keys), err)
		}
		if err != nil && strings.Contains(err.Error(), "0a0a") {
			t.Errorf("the message has the key: %v", err)
		}
	}
}

func TestKeyCommandSaysWhyItFails(t *testing.T) {
	key := strings.Repeat("0a", 32)
	if keys, err := runKeyCommand("echo hint >&2; echo " + key); err != nil || len(keys) != 1 || keys[0][31] != 10 {
		t.Errorf("got %v, %v", keys, err)
	}
	for command, want := range map[string]string{
		"echo closed >&2; exit 3":    `"echo": exit status 3: closed`,
		"echo " + key + "0":          `"echo": line 1 has 65 characters`,
		"echo " + key + "; exit 1":   `"echo": exit status 1`,
		"/no/such/command with args": `"/no/such/command": exit status 127`,
	} {
		keys, err := runKeyCommand(command)
		if err == nil || keys != nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0a0a") {
			t.Errorf("%s: %v, %v", command, keys, err)
		}
	}
}

func TestKeyFileIsForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Repeat("0a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o666: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readKeyFile(path); (err == nil) != ok {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if _, err := readKeyFile(path + ".none"); err == nil {
		t.Error("a file that is not there")
	}
}
