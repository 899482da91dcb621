// Inputs of fuzz targets and golden trails, from the archives in the sources.

package trailtest

import (
	"archive/tar"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// AddCorpus adds the inputs of a fuzz target in testdata/fuzz.txtar to it: the
// files of the archive that are named TARGET/NAME, in the form in which go test
// writes them. Inputs that have failed are files of testdata/fuzz/TARGET, which
// go test runs by itself.
func AddCorpus(f *testing.F) {
	f.Helper()
	path := filepath.Join("testdata", "fuzz.txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		f.Fatal(err)
	}
	inputs := 0
	for _, file := range archive.Files {
		if !strings.HasPrefix(file.Name, f.Name()+"/") {
			continue
		}
		inputs++
		values, err := parseInput(string(file.Data))
		if err != nil {
			f.Fatalf("%s, %s: %v", path, file.Name, err)
		}
		f.Add(values...)
	}
	if inputs == 0 {
		f.Fatalf("%s has no inputs of %s", path, f.Name())
	}
}

// parseInput reads the values of an input: a line with the version, and one line,
// such as []byte("text"), for each value. It knows the types that our targets
// have.
func parseInput(input string) ([]any, error) {
	header, text, _ := strings.Cut(strings.TrimSpace(input), "\n")
	if header != "go test fuzz v1" {
		return nil, fmt.Errorf("unknown version %q", header)
	}
	var values []any
	for line := range strings.SplitSeq(text, "\n") {
		kind, literal, _ := strings.Cut(strings.TrimSuffix(line, ")"), "(")
		var value any
		var err error
		switch kind {
		case "[]byte":
			var s string
			s, err = strconv.Unquote(literal)
			value = []byte(s)
		case "byte":
			var r rune
			r, _, _, err = strconv.UnquoteChar(strings.Trim(literal, "'"), '\'')
			value = byte(r)
		case "uint32":
			var n uint64
			n, err = strconv.ParseUint(literal, 10, 32)
			value = uint32(n)
		default:
			err = fmt.Errorf("unknown type %q", kind)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		values = append(values, value)
	}
	return values, nil
}

// Golden unpacks the golden trails, which core/ writes, into a folder of the test.
func Golden(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		archive := filepath.Join(dir, "format", "golden", "trails.tar.gz")
		if _, err := os.Stat(archive); err == nil {
			return Unpack(t, archive)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("format/golden/trails.tar.gz is in no folder above")
		}
		dir = parent
	}
}

// OpenGolden opens a trail with the keys that stand beside it, if it has any.
func OpenGolden(t testing.TB, dir string) *trail.Trail {
	t.Helper()
	opened, err := trail.OpenEncrypted(dir, GoldenKeys(t, dir, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// GoldenKeys are those of the keys beside a trail that are wanted.
func GoldenKeys(t testing.TB, dir string, wanted ...int) *format.Keys {
	t.Helper()
	text, err := os.ReadFile(dir + ".keys")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lines := strings.Fields(string(text))
	if err != nil || len(lines) != 2 {
		t.Fatal(err, len(lines))
	}
	var keys [][format.KeySize]byte
	for _, i := range wanted {
		key, err := hex.DecodeString(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, [format.KeySize]byte(key))
	}
	return format.NewKeys(func() ([][format.KeySize]byte, error) { return keys, nil })
}

// Unpack unpacks a tar.gz archive of regular files into a folder of the test.
func Unpack(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unpack(dir, archive); err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	return dir
}

func unpack(dir, archive string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	plain, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
}
