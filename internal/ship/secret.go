// Passwords and tokens, which are never in a configuration file, a command line, a log line or an error.

package ship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pg-steno/pg_steno/internal/query"
)

// Secret says where a secret is. It is read each time it is needed, so that a new one takes effect without a restart.
type Secret struct {
	File    string `yaml:"file"`    // a file that only its owner can read
	Env     string `yaml:"env"`     // an environment variable
	Command string `yaml:"command"` // a shell command that prints it
}

// UnmarshalYAML refuses a secret that is written out, and a place that is not one of the three.
func (s *Secret) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return errors.New("a secret is not written into the configuration: name its file, env or command")
	}
	type plain Secret
	if err := node.Decode((*plain)(s)); err != nil {
		return err
	}
	set := 0
	for _, place := range []string{s.File, s.Env, s.Command} {
		if place != "" {
			set++
		}
	}
	if set != 1 {
		return errors.New("name one place of the secret: file, env or command")
	}
	return nil
}

// IsSet returns whether there is one.
func (s *Secret) IsSet() bool { return s != nil && *s != Secret{} }

// commandTime bounds how long a command may take to print a secret.
const commandTime = 30 * time.Second

// Read returns the secret, without line breaks at its end. An error names its place, never its contents.
func (s *Secret) Read(ctx context.Context) (string, error) {
	value := ""
	switch {
	case !s.IsSet():
		return "", nil
	case s.File != "":
		info, err := os.Stat(s.File)
		if err != nil {
			return "", err
		}
		if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o027 != 0 {
			return "", fmt.Errorf("%s: the file of a secret is writable by its group or accessible by others: its mode "+
				"is %04o, change it to 0600 or 0640", s.File, info.Mode().Perm())
		}
		text, err := os.ReadFile(s.File)
		if err != nil {
			return "", err
		}
		value = string(text)
	case s.Env != "":
		value = os.Getenv(s.Env)
	default:
		ctx, cancel := context.WithTimeout(ctx, commandTime)
		defer cancel()
		out, err := query.ShellCommand(ctx, s.Command).Output()
		if err != nil {
			return "", fmt.Errorf("the command that prints the secret: %w", err) // its text may contain one
		}
		value = string(out)
	}
	if value = strings.TrimRight(value, "\r\n"); value == "" {
		return "", fmt.Errorf("%s: the secret is empty", s.place())
	}
	return value, nil
}

func (s *Secret) place() string {
	switch {
	case s.File != "":
		return s.File
	case s.Env != "":
		return "environment variable " + s.Env
	}
	return "the command that prints the secret"
}
