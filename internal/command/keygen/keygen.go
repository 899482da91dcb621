// Package keygen is the command that makes a key for seals.
package keygen

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/seal"
)

// Options are the options of keygen.
type Options struct {
	IO  *iostreams.IOStreams
	Out string
}

// NewCmdKeygen returns the command. Tests give a run function of their own.
func NewCmdKeygen(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "keygen --out FILE",
		Short: "Create a key for sealing a trail",
		Long: `Create a pair of Ed25519 keys: the private key, for steno.signing_key_file, in
FILE, which only its owner can read; and the public key, for steno verify --key,
in FILE.pub. Existing files are never overwritten. The command prints the key
ID, which is part of each seal made with the key.

Run it as the server's user, or give the file to that user. Keep the public key
on another machine, too: anybody who can replace it can forge.`,
		Example: `  steno keygen --out /etc/pg_steno/15-main/2026.key
  steno verify --key /etc/pg_steno/15-main/2026.key.pub`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("unexpected argument %q: name the file with --out", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return keygenRun(opts)
		},
	}
	cmd.Flags().StringVar(&opts.Out, "out", "", "`file` of the private key")
	return cmd
}

func keygenRun(opts *Options) error {
	if opts.Out == "" {
		return exit.Usagef("name the file of the private key with --out")
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := seal.EncodePrivate(private)
	if err != nil {
		return err
	}
	open, err := seal.EncodePublic(public)
	if err != nil {
		return err
	}
	// The public key is written first, so that no private key is left if that fails.
	path := opts.Out + seal.PublicSuffix
	if err := write(path, open, 0o644); err != nil {
		return err
	}
	if err := write(opts.Out, secret, 0o600); err != nil {
		os.Remove(path)
		return err
	}
	_, err = fmt.Fprintf(opts.IO.Out, "key id       %s\nprivate key  %s, for steno.signing_key_file\npublic key   "+
		"%s, for steno verify --key\n", seal.KeyID(public), opts.Out, path)
	return err
}

// write creates a file that must not exist yet.
func write(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; a key is never overwritten", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode) // the umask must not narrow it
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
