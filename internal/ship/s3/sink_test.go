package s3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/s3"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// openSink returns the sink of a configuration.
func openSink(t testing.TB, text string) (ship.Sink, error) {
	t.Helper()
	c, err := ship.Parse([]byte("state_directory: /nowhere\nsinks:\n  s3:\n"+text), []*ship.Kind{s3.Kind})
	if err != nil {
		return nil, err
	}
	sink, err := s3.Kind.Open(c.Sinks["s3"])
	if err == nil {
		t.Cleanup(func() { sink.Close() })
	}
	return sink, err
}

func lines(all ...string) string { return "    " + strings.Join(all, "\n    ") + "\n" }

// oneBlock is a block that can be sent.
func oneBlock(t testing.TB) ship.Block {
	t.Helper()
	s := trailtest.NewStream(t, t.TempDir(), 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	header, err := os.ReadFile(s.SegmentPath(1))
	if err != nil {
		t.Fatal(err)
	}
	image := s.Finish(b)
	s.Raw(t, image)
	block := ship.Block{System: trailtest.SystemID, Image: image, Offset: int64(len(header)), Chain: [32]byte(image[72:104]),
		Segment: &ship.Segment{Path: s.SegmentPath(1), Number: 1, FirstBlock: 1, Header: header}}
	block.Place.Segment, block.Place.Block = 1, 1
	return block
}

func TestRefusalsNameWhatIsWrong(t *testing.T) {
	s := sharedServer(t)
	bucket := s.Bucket(minio.MakeBucketOptions{})
	t.Setenv("TEST_S3_SECRET", adminSecret)
	t.Setenv("TEST_S3_WRONG", "wrong-secret-0815")
	t.Setenv("TEST_S3_WRITER", writerSecret)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	t.Setenv("TEST_S3_USER", userSecret)
	login := []string{"access_key: admin", "secret_key: {env: TEST_S3_SECRET}"}
	user := []string{"access_key: user", "secret_key: {env: TEST_S3_USER}"}
	for _, test := range []struct {
		name      string
		what      string // of a PermanentError; empty: an error that may pass by itself
		options   []string
		endpoint  string
		bucket    string
		permanent bool
	}{
		{"rights in a bucket that is not there", "rights in bucket", user, s.Endpoint, "no-such-bucket", true},
		{"access key", "access key", []string{"access_key: nobody", "secret_key: {env: TEST_S3_SECRET}"}, s.Endpoint, bucket, true},
		{"secret key", "secret key", []string{"access_key: admin", "secret_key: {env: TEST_S3_WRONG}"}, s.Endpoint, bucket, true},
		{"rights", "rights in bucket", []string{"access_key: writer", "secret_key: {env: TEST_S3_WRITER}"}, s.Endpoint, bucket, true},
		{"certificate", "TLS with 127.0.0.1", login, s.TLS, bucket, true},
		{"no TLS there", "TLS with 127.0.0.1", login, strings.Replace(s.Endpoint, "http:", "https:", 1), bucket, true},
		{"secret is not there", "login", []string{"access_key: admin", "secret_key: {env: TEST_S3_NOT_SET}"}, s.Endpoint, bucket, true},
		{"nobody listens", "", login, "http://" + closed.Addr().String(), bucket, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			sink, err := openSink(t, lines(append(test.options, "to: s3://"+test.bucket, "endpoint: "+test.endpoint)...))
			if err != nil {
				t.Fatal(err)
			}
			block := oneBlock(t)
			err = sink.(ship.BlockSink).SendBlocks(t.Context(), []ship.Block{block})
			permanent := (*ship.PermanentError)(nil)
			if got := errors.As(err, &permanent); err == nil || got != test.permanent {
				t.Fatalf("%v (%T)", err, err)
			}
			if test.permanent && !strings.HasPrefix(permanent.What, test.what) {
				t.Errorf("%q does not begin with %q", permanent.Error(), test.what)
			}
			for _, secret := range []string{adminSecret, writerSecret, "wrong-secret-0815"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error contains a secret: %v", err)
				}
			}
			findings := sink.Check(t.Context())
			if last := findings[len(findings)-1]; last.Err == nil {
				t.Errorf("the check has no error: %v", findings)
			}
			for _, f := range findings {
				t.Log(f.What, f.Err, f.Note, f.Warning)
			}
		})
	}
}

// check returns the findings of a check as lines.
func check(t testing.TB, options ...string) (all []string) {
	t.Helper()
	sink, err := openSink(t, lines(options...))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range sink.Check(t.Context()) {
		word := "ok"
		if f.Err != nil {
			word = "FAILED"
		} else if f.Warning {
			word = "warning"
		}
		all = append(all, fmt.Sprintf("%s: %s: %v (%s)", word, f.What, f.Err, f.Note))
	}
	return all
}

func has(all []string, begin string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, begin) })
}

func TestCheckTellsWhatALoginMayDo(t *testing.T) {
	s := sharedServer(t)
	t.Setenv("TEST_S3_SECRET", adminSecret)
	t.Setenv("TEST_S3_WRITER", writerSecret)
	login := []string{"access_key: admin", "secret_key: {env: TEST_S3_SECRET}"}
	plain := s.Bucket(minio.MakeBucketOptions{})
	all := check(t, append(login, "to: s3://"+plain+"/p", "endpoint: "+s.TLS, "tls: {ca: "+s.CA+"}")...)
	t.Log(strings.Join(all, "\n"))
	for _, begin := range []string{"ok: resolve 127.0.0.1", "ok: connect to 127.0.0.1:", "ok: compare the clocks",
		"ok: find bucket", "warning: object lock", "ok: write object \"p/.check/", "ok: write it again",
		"warning: replace it", "warning: delete it"} {
		if !has(all, begin) {
			t.Errorf("no %q", begin)
		}
	}
	locked := s.Bucket(minio.MakeBucketOptions{ObjectLocking: true})
	all = check(t, append(login, "to: s3://"+locked+"/p", "endpoint: "+s.Endpoint,
		"object_lock: {mode: compliance, days: 1}")...)
	t.Log(strings.Join(all, "\n"))
	for _, begin := range []string{"ok: object lock", "ok: write it again", "ok: replace it", "ok: delete it"} {
		if !has(all, begin) {
			t.Errorf("no %q", begin)
		}
	}
	all = check(t, append(login, "to: s3://"+plain+"/p", "endpoint: "+s.Endpoint, "object_lock: {mode: governance, days: 1}")...)
	if !has(all, "FAILED: object lock") {
		t.Error(all)
	}
	all = check(t, append(login, "to: s3://no-such-bucket", "endpoint: "+s.Endpoint)...)
	if !has(all, `FAILED: find bucket "no-such-bucket": bucket "no-such-bucket" at 127.0.0.1`) {
		t.Error(all)
	}
	_ = s.Client.MakeBucket(t.Context(), "writeonly", minio.MakeBucketOptions{})
	all = check(t, "access_key: writer", "secret_key: {env: TEST_S3_WRITER}", "to: s3://writeonly", "endpoint: "+s.Endpoint)
	t.Log(strings.Join(all, "\n"))
	if !has(all, "ok: write object") || has(all, "FAILED") {
		t.Error(all)
	}
}

// A login that may only write is sufficient, also when an object is there already.
func TestAWriterNeedNotRead(t *testing.T) {
	s := sharedServer(t)
	t.Setenv("TEST_S3_WRITER", writerSecret)
	_ = s.Client.MakeBucket(t.Context(), "writeonly", minio.MakeBucketOptions{})
	block := oneBlock(t)
	for range 2 { // a sink that does not know what the first one has sent
		sink, err := openSink(t, lines("access_key: writer", "secret_key: {env: TEST_S3_WRITER}", "to: s3://writeonly/w",
			"endpoint: "+s.Endpoint))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := sink.(ship.BlockSink).SendBlocks(t.Context(), []ship.Block{block}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestObjectsThatAreThereWithOtherContentAreNotAccepted(t *testing.T) {
	s := sharedServer(t)
	t.Setenv("TEST_S3_SECRET", adminSecret)
	bucket := s.Bucket(minio.MakeBucketOptions{})
	options := lines("access_key: admin", "secret_key: {env: TEST_S3_SECRET}", "to: s3://"+bucket, "endpoint: "+s.Endpoint)
	send := func(block ship.Block) error {
		sink, err := openSink(t, options)
		if err != nil {
			t.Fatal(err)
		}
		return sink.(ship.BlockSink).SendBlocks(t.Context(), []ship.Block{block})
	}
	block := oneBlock(t)
	if err := send(block); err != nil {
		t.Fatal(err)
	}
	var key string
	for info := range s.Client.ListObjectsIter(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		key = info.Key
	}
	other := bytes.Repeat([]byte("x"), len(block.Image)+int(block.Offset))
	if _, err := s.Client.PutObject(t.Context(), bucket, key, bytes.NewReader(other), int64(len(other)),
		minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	permanent := (*ship.PermanentError)(nil)
	if err := send(block); !errors.As(err, &permanent) || !strings.Contains(permanent.What, key) {
		t.Error(err)
	}
}

// A stream that goes back, and goes on otherwise, is kept apart; nothing that was shipped is replaced.
func TestARestoredTrailIsKeptApart(t *testing.T) {
	s := sharedServer(t)
	build := func(parts ...string) string {
		dir := t.TempDir()
		streams := []*trailtest.Stream{trailtest.NewStream(t, dir, 0), trailtest.NewStream(t, dir, 1)}
		session := trailtest.NewSession(trailtest.Epoch, 7)
		for i, part := range parts {
			if part == "next segment" {
				streams[0].Rotate(t, trailtest.Epoch+int64(i))
				continue
			}
			for k := range 3 {
				at := trailtest.Epoch + int64(10*i+k)
				b := trailtest.NewBuilder(at)
				b.Add(trailtest.Note(session, at, part))
				streams[min(1, i)^1].Write(t, b)
			}
		}
		return dir
	}
	common := []string{"in stream 1", "a", "next segment", "b"}
	before := build(common...)
	was := build(append(common, "lost by the restore", "next segment", "lost, too", "next segment", "and this")...)
	now := build(append(common, "after the restore", "next segment", "and so on")...)
	live := t.TempDir()
	a := newAgent(t, s, live)
	for _, state := range []string{before, was, now} {
		time.Sleep(1100 * time.Millisecond) // the service tells whole seconds
		for _, stream := range []string{"0", "1"} {
			if err := os.RemoveAll(filepath.Join(live, stream)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS(live, os.DirFS(state)); err != nil {
			t.Fatal(err)
		}
		a.once(t)
	}
	to := filepath.Join(t.TempDir(), "fetched")
	fetched, said := a.fetch(t, to)
	if len(fetched.Dirs) != 2 || len(said) == 0 {
		t.Fatal(fetched, said, strings.Join(a.objects(t), "\n"), a.said)
	}
	if differences := compare(t, was, to); differences != nil {
		t.Error("before the restore:", differences, strings.Join(a.objects(t), "\n"))
	}
	if differences := compare(t, now, to+".2"); differences != nil {
		t.Error("after the restore:", differences)
	}
	if fetched, _ = a.fetch(t, to); fetched.New != 0 {
		t.Error(fetched)
	}
}

// Who changes a segment at the source after its blocks were shipped, and before it is stored as a whole, is convicted
// by its parts.
func TestAFileThatIsChangedLaterIsKeptApart(t *testing.T) {
	s := sharedServer(t)
	live := t.TempDir()
	a := newAgent(t, s, live)
	stream := trailtest.NewStream(t, live, 0)
	session := trailtest.NewSession(trailtest.Epoch, 7)
	write := func(n int) {
		for i := range n {
			b := trailtest.NewBuilder(trailtest.Epoch)
			b.Add(trailtest.Note(session, trailtest.Epoch+int64(i), "this is about the administrator"))
			stream.Write(t, b)
		}
	}
	for range 4 {
		write(2)
		a.once(t)
	}
	was := filepath.Join(t.TempDir(), "was")
	if err := os.CopyFS(was, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(stream.SegmentPath(1))
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2+40] ^= 1
	if err := os.WriteFile(stream.SegmentPath(1), text, 0o600); err != nil {
		t.Fatal(err)
	}
	stream.Rotate(t, trailtest.Epoch+100)
	write(1)
	a.once(t)
	to := filepath.Join(t.TempDir(), "fetched")
	fetched, said := a.fetch(t, to)
	if len(fetched.Dirs) != 2 || !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s, "it is not what the whole segment")
	}) {
		t.Fatal(fetched, said)
	}
	found := false
	for _, dir := range fetched.Dirs {
		found = found || files(t, dir)["0/0000000001.steno"] == files(t, was)["0/0000000001.steno"]
	}
	if !found {
		t.Error("what was shipped first is not there")
	}
}

// In a bucket with versions, objects that were deleted or replaced are read as they were written.
func TestDeletedAndReplacedObjectsAreReadFromTheirVersions(t *testing.T) {
	s := sharedServer(t)
	live := t.TempDir()
	randomTrail(t, seed(t), live, 40, 8)
	a := newAgent(t, s, live)
	bucket := s.Bucket(minio.MakeBucketOptions{ObjectLocking: true})
	a.to = "s3://" + bucket
	a.once(t)
	deleted, replaced := "", ""
	for i, key := range a.objects(t) {
		switch {
		case strings.HasSuffix(key, ".json"):
		case i%5 == 0:
			deleted = key
			if err := s.Client.RemoveObject(t.Context(), bucket, key, minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		case i%5 == 1:
			replaced = key
			if _, err := s.Client.PutObject(t.Context(), bucket, key, strings.NewReader("forged"), 6,
				minio.PutObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	to := filepath.Join(t.TempDir(), "fetched")
	_, said := a.fetch(t, to)
	if differences := compare(t, live, to); differences != nil {
		t.Error(differences)
	}
	if !has(said, deleted+": it was deleted") || !has(said, replaced+": it was replaced") {
		t.Error(said, deleted, replaced)
	}
}

// Without versions, what is not what its name says is not taken, and what is missing is named.
func TestForgedAndMissingObjectsAreNamed(t *testing.T) {
	s := sharedServer(t)
	live := t.TempDir()
	stream := trailtest.NewStream(t, live, 0)
	a := newAgent(t, s, live)
	for i := range 6 {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 7), trailtest.Epoch+int64(i), "text"))
		stream.Write(t, b)
		a.once(t)
	}
	all := a.objects(t)
	bucket, _, _ := strings.Cut(strings.TrimPrefix(a.to, "s3://"), "/")
	slices.SortFunc(all, func(x, y string) int { return len(x) - len(y) })
	if _, err := s.Client.PutObject(t.Context(), bucket, all[2], strings.NewReader("forged"), 6,
		minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "fetched")
	_, said := a.fetch(t, to)
	if !has(said, all[2]+": its content is not what its name says") || !has(said, "segment 1: bytes ") {
		t.Error(said)
	}
	if text := verify(t, to); !strings.Contains(text, "exit code 1") {
		t.Error(text)
	}
}

func TestServersAreKeptApart(t *testing.T) {
	s := sharedServer(t)
	a := newAgent(t, s, filepath.Join(trailtest.Golden(t), "kinds"))
	a.once(t)
	b := newAgent(t, s, t.TempDir())
	b.to = a.to
	trailtest.Minutes(t, b.trail, 2, 2, 2)
	b.once(t)
	t.Setenv("TEST_S3_SECRET", adminSecret)
	o := &s3.FetchOptions{From: a.to, Dir: filepath.Join(t.TempDir(), "fetched"), TLS: &ship.TLS{}, Options: &s3.Options{
		Endpoint: s.Endpoint, AccessKey: admin, SecretKey: ship.Secret{Env: "TEST_S3_SECRET"}}}
	o.Warn, o.Note = func(s string) { t.Error(s) }, func(s string) { t.Error(s) }
	_, err := s3.Fetch(t.Context(), o)
	if several := (*s3.ServersError)(nil); !errors.As(err, &several) || len(several.Servers) != 2 {
		t.Fatal(err)
	}
	o.Server = trailtest.SystemID
	if _, err := s3.Fetch(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if differences := compare(t, b.trail, o.Dir); differences != nil {
		t.Error(differences)
	}
	if o.Server = 4711; true { // the directory is that of the other one
		if _, err := s3.Fetch(t.Context(), o); err == nil {
			t.Error("one trail was fetched over another one")
		}
	}
	if o.Dir = b.trail; true { // the directory of a server
		if _, err := s3.Fetch(t.Context(), o); err == nil {
			t.Error("a trail was fetched over that of a server")
		}
	}
}

func TestManifests(t *testing.T) {
	s := sharedServer(t)
	a := newAgent(t, s, t.TempDir())
	trailtest.Minutes(t, a.trail, 3, 4, 5)
	a.once(t)
	bucket, _, _ := strings.Cut(strings.TrimPrefix(a.to, "s3://"), "/")
	n := 0
	for _, key := range a.objects(t) {
		if !strings.HasSuffix(key, ".json") {
			continue
		}
		o, err := s.Client.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var m s3.Manifest
		if err := json.NewDecoder(o).Decode(&m); err != nil {
			t.Fatal(err)
		}
		n++
		if m.SystemID != trailtest.SystemID || m.Segment != uint64(n) || m.FirstBlock != uint64(4*n-3) ||
			m.LastBlock != uint64(4*n) || m.Blocks != 4 || m.Records < 20 || m.FirstTime == nil || len(m.SHA256) != 64 {
			t.Errorf("%+v", m)
		}
	}
	if n != 2 {
		t.Error(n, a.objects(t))
	}
	// whoever removes a segment must remove its manifest, too
	gone := ""
	for _, key := range a.objects(t) {
		if strings.Contains(key, "/0000000002-") && strings.HasSuffix(key, ".steno") {
			gone = strings.TrimSuffix(key, ".steno")
			if err := s.Client.RemoveObject(t.Context(), bucket, key, minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, said := a.fetch(t, filepath.Join(t.TempDir(), "fetched")); gone == "" ||
		!has(said, gone+".json: the segment that it describes is not in the bucket") {
		t.Error(gone, said)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	for _, test := range [][2]string{
		{"to: s3://", "bucket"},
		{"to: s3://b", "bucket"},
		{"to: s3://bucket?colour=red", "colour: the URL has no such parameter: use endpoint"},
		{"to: s3://bucket?path_style=perhaps", "neither true nor false"},
		{"to: s3://me@bucket", "login"},
		{"to: s3://bucket\n    endpoint: http://s3.example.com", "must have TLS"},
		{"to: s3://bucket\n    endpoint: https://s3.example.com/path", "without a path"},
		{"to: s3://bucket\n    endpoint: ftp://s3.example.com", "is not a URL"},
		{"to: s3://bucket\n    access_key: a", "belong together"},
		{"to: s3://bucket\n    secret_key: secret", "is not written into the configuration"},
		{"to: s3://bucket\n    object_lock: {mode: forever, days: 1}", "neither governance nor compliance"},
		{"to: s3://bucket\n    object_lock: {mode: governance}", "days must be"},
		{"to: s3://bucket\n    sse: rot13", "sse"},
		{"to: s3://bucket\n    format: json", "S3 takes blocks"},
		{"to: s3://bucket\n    bucket: b", "no such key"},
		{"to: s3://bucket?endpoint=http://127.0.0.1:1&region=r&path_style=true", ""},
		{"to: s3://bucket/a/b\n    endpoint: https://s3.example.com\n    sse: aws:kms:key\n    profile: p", ""},
		{"to: s3://bucket\n    endpoint: http://s3.example.com\n    insecure: true", ""},
	} {
		_, err := openSink(t, lines(test[0]))
		if test[1] == "" && err != nil || test[1] != "" && (err == nil || !strings.Contains(err.Error(), test[1])) {
			t.Errorf("%s: %v", test[0], err)
		}
	}
}

// Logins of the environment and of profiles.
func TestUsualLogins(t *testing.T) {
	s := sharedServer(t)
	bucket := s.Bucket(minio.MakeBucketOptions{})
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY",
		"AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_ENDPOINT_URL_S3", s.Endpoint)
	send := func(options ...string) error {
		sink, err := openSink(t, lines(append(options, "to: s3://"+bucket)...))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return sink.(ship.BlockSink).SendBlocks(ctx, []ship.Block{oneBlock(t)})
	}
	if err := send(); err == nil || !strings.Contains(err.Error(), "there are no keys") {
		t.Error(err)
	}
	text := fmt.Sprintf("[other]\naws_access_key_id = %s\naws_secret_access_key = %s\n", admin, adminSecret)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := send("profile: other"); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_PROFILE", "other")
	if err := send(); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_ACCESS_KEY_ID", admin)
	t.Setenv("AWS_SECRET_ACCESS_KEY", adminSecret)
	if err := send(); err != nil {
		t.Error(err)
	}
}

// blocksOf returns the blocks of a segment, as they are sent.
func blocksOf(t testing.TB, path string) (all []ship.Block) {
	t.Helper()
	opened, err := trail.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	seg := opened.Streams[0].Segments[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refs, _ := seg.Index()
	segment := &ship.Segment{Path: path, Number: seg.Number, Stream: seg.Header.Stream, FirstBlock: seg.Header.FirstBlock,
		Header: text[:seg.Header.Length()]}
	for _, ref := range refs {
		all = append(all, ship.Block{
			Place:  trail.Place{Stream: segment.Stream, Segment: seg.Number, Block: ref.Number},
			System: seg.Header.SystemID, Records: ref.Records, Chain: ref.Chain, Offset: ref.Offset,
			Image: text[ref.Offset : ref.Offset+ref.Length()], Segment: segment,
		})
	}
	return all
}

// A finished segment that is replaced by another one with the same beginning, while the agent runs, is stored, too.
func TestAReplacedSegmentIsStoredAgain(t *testing.T) {
	s := sharedServer(t)
	t.Setenv("TEST_S3_SECRET", adminSecret)
	build := func(texts ...string) string {
		dir := t.TempDir()
		stream := trailtest.NewStream(t, dir, 0)
		for i, text := range texts {
			at := trailtest.Epoch + int64(i)
			b := trailtest.NewBuilder(at)
			b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 7), at, text))
			stream.Write(t, b)
		}
		stream.Rotate(t, trailtest.Epoch)
		stream.Rotate(t, trailtest.Epoch)
		return dir
	}
	was, now := build("a", "b", "c"), build("a", "b", "d")
	a := newAgent(t, s, t.TempDir())
	sink, err := openSink(t, lines("access_key: admin", "secret_key: {env: TEST_S3_SECRET}", "to: "+a.to,
		"endpoint: "+s.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(a.trail, "0", "0000000001.steno")
	for _, state := range []string{was, now} {
		if err := os.RemoveAll(filepath.Join(a.trail, "0")); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(a.trail, os.DirFS(state)); err != nil {
			t.Fatal(err)
		}
		blocks := blocksOf(t, path)
		for _, some := range [][]ship.Block{blocks[:1], blocks[1:], blocks[1:]} {
			if err := sink.(ship.BlockSink).SendBlocks(t.Context(), some); err != nil {
				t.Fatal(err)
			}
		}
		last := blocks[len(blocks)-1]
		if err := sink.(ship.SegmentSink).FinishSegment(t.Context(), last.Segment, &last); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
	}
	to := filepath.Join(t.TempDir(), "fetched")
	fetched, said := a.fetch(t, to)
	if len(fetched.Dirs) != 2 {
		t.Fatal(fetched, said, a.objects(t))
	}
	for i, state := range []string{was, now} {
		name := "0/0000000001.steno"
		if files(t, fetched.Dirs[i])[name] != files(t, state)[name] {
			t.Errorf("%s is not %s", fetched.Dirs[i], state)
		}
	}
}

// A damaged file does not end the agent, nor one that is gone.
func TestSegmentsThatAreGoneStayInParts(t *testing.T) {
	s := sharedServer(t)
	t.Setenv("TEST_S3_SECRET", adminSecret)
	dir := t.TempDir()
	stream := trailtest.NewStream(t, dir, 0)
	for i := range 6 {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Add(trailtest.Note(trailtest.NewSession(trailtest.Epoch, 7), trailtest.Epoch, fmt.Sprint(i)))
		stream.Write(t, b)
	}
	blocks := blocksOf(t, stream.SegmentPath(1))
	was := files(t, dir)
	a := newAgent(t, s, dir)
	sink, err := openSink(t, lines("access_key: admin", "secret_key: {env: TEST_S3_SECRET}", "to: "+a.to,
		"endpoint: "+s.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	send := func(some []ship.Block) {
		if err := sink.(ship.BlockSink).SendBlocks(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	send(blocks[:2])
	if err := os.Remove(stream.SegmentPath(1)); err != nil {
		t.Fatal(err)
	}
	send(blocks[2:4])
	send(blocks[4:])
	last := blocks[len(blocks)-1]
	if err := sink.(ship.SegmentSink).FinishSegment(t.Context(), last.Segment, &last); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "fetched")
	if _, said := a.fetch(t, to); len(said) > 0 {
		t.Error(said)
	}
	if got := files(t, to); len(got) != 1 || got["0/0000000001.steno"] != was["0/0000000001.steno"] {
		t.Error(a.objects(t))
	}
}
