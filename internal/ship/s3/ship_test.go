package s3_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/s3"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// agent ships a trail to a bucket.
type agent struct {
	server *server
	trail  string
	state  string
	to     string
	wait   string
	mu     sync.Mutex
	said   []string
}

func newAgent(t testing.TB, s *server, trail string) *agent {
	t.Helper()
	return &agent{server: s, trail: trail, state: t.TempDir(), to: s.Place(), wait: "20ms"}
}

func (a *agent) log(level ship.Level, sink, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, fmt.Sprintf("%s %s: %s", level, sink, message))
}

// text is the configuration of the sink.
func (a *agent) text() string {
	return fmt.Sprintf(`
trail: %q
state_directory: %q
sinks:
  s3:
    to: %q
    endpoint: %q
    access_key: admin
    secret_key: {env: TEST_S3_SECRET}
    batch: {wait: %s, bytes: 8MiB}
    retry: {first: 10ms, most: 200ms}
`, a.trail, a.state, a.to, a.server.Endpoint, a.wait)
}

// once ships everything that is there.
func (a *agent) once(t testing.TB) {
	t.Helper()
	t.Setenv("TEST_S3_SECRET", adminSecret)
	c, err := ship.Parse([]byte(a.text()), []*ship.Kind{s3.Kind})
	if err != nil {
		t.Fatal(err)
	}
	agent := &ship.Agent{Log: a.log, Once: true}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := agent.Run(ctx, c, nil); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err(), a.said)
	}
}

// fetch copies the trail back.
func (a *agent) fetch(t testing.TB, dir string) (*s3.Fetched, []string) {
	t.Helper()
	t.Setenv("TEST_S3_SECRET", adminSecret)
	var said []string
	say := func(text string) { said = append(said, text) }
	o := &s3.FetchOptions{From: a.to, Dir: dir, TLS: &ship.TLS{}, Warn: say, Note: say, Options: &s3.Options{
		Endpoint: a.server.Endpoint, AccessKey: admin, SecretKey: ship.Secret{Env: "TEST_S3_SECRET"}}}
	fetched, err := s3.Fetch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return fetched, said
}

// files returns the segments of a trail.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".steno") && !e.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			all[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// compare returns how two trails differ.
func compare(t testing.TB, from, to string) (differences []string) {
	t.Helper()
	a, b := files(t, from), files(t, to)
	for name, text := range a {
		other, ok := b[name]
		switch {
		case !ok:
			differences = append(differences, fmt.Sprintf("%s is missing: it has %d bytes", name, len(text)))
		case text != other:
			at := 0
			for at < min(len(text), len(other)) && text[at] == other[at] {
				at++
			}
			differences = append(differences, fmt.Sprintf("%s differs at byte %d; it has %d bytes, not %d", name, at, len(other),
				len(text)))
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			differences = append(differences, name+" is there, too")
		}
	}
	slices.Sort(differences)
	return differences
}

// verify returns what steno verify says, without the paths.
func verify(t testing.TB, dir string, keys ...string) string {
	t.Helper()
	streams, _, out, errOut := iostreams.Test()
	args := []string{"verify", dir}
	for _, k := range keys {
		args = append(args, "--encryption-key-file", k)
	}
	code := program.Run(t.Context(), cli.New(streams), args)
	text := out.String() + errOut.String()
	return strings.ReplaceAll(fmt.Sprintf("%s\nexit code %d", text, code), dir, "TRAIL")
}

// What no block follows yet is not shipped: it may be what the server is writing. So these trails come back without
// their unfinished or empty ends.
var unfinished = []string{"empty", "ranges", "empty_file", "foreign_file", "torn_header", "torn_payload",
	"torn_segment_header"}

// withoutEnd returns a copy of a trail without what is not shipped, as another trail says; more is an error.
func withoutEnd(t testing.TB, from, shipped string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "cut")
	a, b := files(t, from), files(t, shipped)
	for name, text := range a {
		_, further := a[fmt.Sprintf("%s/%010d.steno", filepath.Dir(name), number(name)+1)]
		got, ok := b[name]
		switch {
		case !ok && !further:
			continue
		case !further && strings.HasPrefix(text, got):
			text = got
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func number(name string) (n uint64) {
	_, _ = fmt.Sscanf(filepath.Base(name), "%d.steno", &n)
	return n
}

func TestGoldenTrailsComeBack(t *testing.T) {
	s := sharedServer(t)
	golden := trailtest.Golden(t)
	names, _ := filepath.Glob(filepath.Join(golden, "*", "0"))
	damaged, _ := filepath.Glob(filepath.Join(golden, "damaged", "*", "0"))
	for _, path := range append(names, damaged...) {
		dir := filepath.Dir(path)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			s.t = t
			a := newAgent(t, s, dir)
			var keys []string
			if _, err := os.Stat(dir + ".keys"); err == nil {
				keys = keyFiles(t, dir+".keys")
			}
			a.once(t)
			to := filepath.Join(t.TempDir(), "fetched")
			if _, said := a.fetch(t, to); len(said) > 0 {
				t.Error(said)
			}
			source := dir
			if slices.Contains(unfinished, name) {
				source = withoutEnd(t, dir, to)
			}
			if differences := compare(t, source, to); differences != nil {
				t.Error(differences)
			}
			if got, want := verify(t, to, keys...), verify(t, source, keys...); got != want {
				t.Errorf("steno verify says\n%s\nand at the source\n%s", got, want)
			}
			fetched, said := a.fetch(t, to)
			if fetched.New != 0 || fetched.Bytes != 0 || len(said) > 0 {
				t.Error("what was there was fetched again:", fetched, said)
			}
			for _, f := range a.objects(t) {
				if strings.Contains(f, ".check") {
					t.Error(f)
				}
			}
		})
	}
}

// keyFiles makes files of keys in hexadecimal digits, one a line.
func keyFiles(t testing.TB, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Fields(string(text)) {
		key := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(key, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, key)
	}
	return all
}

// objects returns the keys of the agent's objects.
func (a *agent) objects(t testing.TB) (all []string) {
	t.Helper()
	bucket, prefix, found := strings.Cut(strings.TrimPrefix(a.to, "s3://"), "/")
	if found {
		prefix += "/"
	}
	options := minio.ListObjectsOptions{Prefix: prefix, Recursive: true}
	for info := range a.server.Client.ListObjectsIter(t.Context(), bucket, options) {
		if info.Err != nil {
			t.Fatal(info.Err)
		}
		all = append(all, info.Key)
	}
	return all
}
