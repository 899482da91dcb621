// The keys of encrypted segments: from a file, or from a command, when they are needed.

package query

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// KeyOptions say where the keys of encrypted segments come from.
type KeyOptions struct {
	Commands []string
	Files    []string
}

// keys are asked for when they are needed.
func (o *KeyOptions) keys() *trail.Keys {
	commands := o.Commands
	if env := os.Getenv("STENO_ENCRYPTION_KEY_COMMAND"); env != "" && len(commands)+len(o.Files) == 0 {
		commands = []string{env}
	}
	if len(commands)+len(o.Files) == 0 {
		return nil
	}
	return trail.NewKeys(func() (keys [][trail.KeySize]byte, err error) {
		for _, file := range o.Files {
			found, err := readKeyFile(file)
			if err != nil {
				return nil, err
			}
			keys = append(keys, found...)
		}
		for _, command := range commands {
			found, err := runKeyCommand(command)
			if err != nil {
				return nil, err
			}
			keys = append(keys, found...)
		}
		return keys, nil
	})
}

func readKeyFile(path string) ([][trail.KeySize]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, OpenError(err)
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 { // modes say nothing there
		return nil, fmt.Errorf("%s: this key file is accessible by others than its owner: its mode is %04o, change it to 0600 or less", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, OpenError(err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// runKeyCommand runs a command as the server does. What it says on standard
// error is for the user.
func runKeyCommand(command string) ([][trail.KeySize]byte, error) {
	var out, said bytes.Buffer
	c := shell(command)
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if err == nil {
		var keys [][trail.KeySize]byte
		if keys, err = parseKeys(out.Bytes()); err == nil {
			return keys, nil
		}
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		err = fmt.Errorf("%w: %s", err, render.Safe(text))
	}
	// Only its name: a key may stand in the rest.
	name, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return nil, fmt.Errorf("encryption key command \"%s\": %w", render.Safe(name), err)
}

// parseKeys reads keys, one a line. It never repeats what it was given.
func parseKeys(text []byte) (keys [][trail.KeySize]byte, err error) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimRight(line, " \t\r")
		if len(line) == 0 {
			continue
		}
		var key [trail.KeySize]byte
		if n := hex.DecodedLen(len(line)); n != len(key) || len(line)%2 != 0 {
			return nil, fmt.Errorf("line %d has %d characters: a key is 64 hexadecimal digits", i+1, len(line))
		}
		if _, err := hex.Decode(key[:], line); err != nil {
			return nil, fmt.Errorf("line %d: a key is 64 hexadecimal digits", i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("it contains no key")
	}
	return keys, nil
}

// OpenEncrypted opens trails and segments as OpenTrails does, with the keys of
// the options.
func (o *KeyOptions) OpenEncrypted(args []string) (*trail.Trail, error) {
	keys := o.keys()
	t, err := openTrails(args, keys)
	if err == nil {
		err = keys.Err()
	}
	return t, err
}

// shell is a command that the system's shell runs.
func shell(command string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		return exec.Command("cmd", "/C", command)
	}
	return exec.Command("/bin/sh", "-c", command)
}
