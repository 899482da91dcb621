// Public keys by their IDs, and both kinds of keys as PEM.

package seal

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pg-steno/pg_steno/internal/exit"
)

// Keys are public keys by their IDs.
type Keys map[string]ed25519.PublicKey

// PublicSuffix ends the names of files of public keys.
const PublicSuffix = ".pub"

// LoadTrust reads public keys, and files of anchors. An anchor file named - is in.
func LoadTrust(keyPaths, anchorFiles []string, in io.Reader) (keys Keys, anchors []*Anchor, err error) {
	if len(keyPaths) > 0 {
		if keys, err = LoadKeys(keyPaths); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range anchorFiles {
		from := in
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return nil, nil, exit.Usagef("anchor %w", err)
			}
			defer f.Close()
			from = f
		}
		some, err := ParseAnchors(from, name)
		if err != nil {
			return nil, nil, exit.Usagef("anchor %w", err)
		}
		anchors = append(anchors, some...)
	}
	return keys, anchors, nil
}

// LoadKeys reads public keys from files, and from directories all files whose
// names end with .pub.
func LoadKeys(paths []string) (Keys, error) {
	keys := Keys{}
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			entries, err := os.ReadDir(path)
			if err != nil {
				return nil, err
			}
			files = nil
			for _, e := range entries {
				name := filepath.Join(path, e.Name())
				if info, err := os.Stat(name); strings.HasSuffix(name, PublicSuffix) &&
					(err != nil || info.Mode().IsRegular()) {
					files = append(files, name)
				}
			}
			if len(files) == 0 {
				return nil, exit.Usagef("no public key in %s: there is no file whose name ends with %s", path,
					PublicSuffix)
			}
		}
		for _, file := range files {
			key, err := loadKey(file)
			if err != nil {
				return nil, err
			}
			keys[KeyID(key)] = key
		}
	}
	return keys, nil
}

func loadKey(path string) (ed25519.PublicKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		if p, ok := err.(*fs.PathError); ok {
			err = p.Err
		}
		return nil, exit.Usagef("key %s: %w", path, err)
	}
	block, _ := pem.Decode(data)
	switch {
	case block == nil:
		return nil, exit.Usagef("key %s: not a key in PEM format", path)
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return nil, exit.Usagef("key %s is a private key, which is not needed for verification: use the file with %s",
			path, PublicSuffix)
	case block.Type != "PUBLIC KEY":
		return nil, exit.Usagef("key %s: PEM of type %q instead of PUBLIC KEY", path, block.Type)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, exit.Usagef("key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, exit.Usagef("key %s: not an Ed25519 key", path)
	}
	return key, nil
}

// LoadPrivate reads a private key, which only its owner may be able to read.
func LoadPrivate(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		if p, ok := err.(*fs.PathError); ok {
			err = p.Err
		}
		return nil, exit.Usagef("key %s: %w", path, err)
	}
	// On Windows, modes say nothing.
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key %s is accessible by others than its owner: its mode is %04o, change it to 0600 "+
			"or less", path, info.Mode().Perm())
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, exit.Usagef("key %s: not a private key in PEM format", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, exit.Usagef("key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, exit.Usagef("key %s: not an Ed25519 key", path)
	}
	return key, nil
}

// EncodePublic returns a public key as a file has it.
func EncodePublic(key ed25519.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// EncodePrivate returns a private key as a file has it.
func EncodePrivate(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
