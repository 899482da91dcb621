// From a bucket to a directory.

package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// FetchOptions say what is fetched, and where to.
type FetchOptions struct {
	From    string // s3://bucket/prefix
	Options *Options
	TLS     *ship.TLS
	Dir     string
	// Server is the system identifier of the server whose trail is wanted; 0: the only one.
	Server uint64
	// Warn receives what is not as it was left: objects that were deleted, replaced, or are missing; and Note what
	// else is worth knowing.
	Warn, Note func(text string)
}

// Fetched is what was fetched.
type Fetched struct {
	Server   uint64
	Dirs     []string // the second one and further ones have what streams were before they went back, or after
	Segments int      // of all directories
	New      int      // of them, those that were not there as they are
	Bytes    int64    // downloaded
}

// ServersError says that a prefix has the trails of several servers.
type ServersError struct{ Servers []uint64 }

func (e *ServersError) Error() string {
	var all []string
	for _, s := range e.Servers {
		all = append(all, strconv.FormatUint(s, 10))
	}
	return "there are the trails of several servers, with system identifiers " + strings.Join(all, ", ")
}

// fetcher is one fetch.
type fetcher struct {
	*store
	o      *FetchOptions
	temp   string
	temps  int
	result Fetched
}

// Fetch copies the trail of a server from a bucket into a directory. Files that are there, and are as they should be,
// are not downloaded again. Of a stream that went back, as after a restore from a backup, each way on is a trail of
// its own: the one that was shipped first is in Dir, the others are in Dir.2 and so on.
func Fetch(ctx context.Context, o *FetchOptions) (*Fetched, error) {
	s, err := open(o.From, o.Options, o.TLS)
	if err != nil {
		return nil, err
	}
	defer s.transport.CloseIdleConnections()
	f := &fetcher{store: s, o: o}
	if f.result.Server, err = f.server(ctx); err != nil {
		return nil, err
	}
	if err := f.mark(o.Dir); err != nil {
		return nil, err
	}
	f.temp = filepath.Join(o.Dir, trail.FetchingFolder)
	if err := os.RemoveAll(f.temp); err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.temp, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(f.temp)
	if err := f.streams(ctx); err != nil {
		return nil, err
	}
	return &f.result, nil
}

// mark makes a directory one that fetch may write to, or refuses it: it could be the trail of a running server.
func (f *fetcher) mark(dir string) error {
	path, text := filepath.Join(dir, trail.FetchedFile), fmt.Sprintf("system_id %d\n", f.result.Server)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	was, err := os.ReadFile(path)
	switch {
	case err == nil && string(was) == text:
		return nil
	case err == nil:
		return fmt.Errorf("%s: it has the trail of another server, %s", dir, strings.TrimSpace(string(was)))
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s: it is not empty, and not what was fetched before: name another directory", dir)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// numbers returns the folders below a prefix that are named by numbers.
func (f *fetcher) numbers(ctx context.Context, prefix string) (all []uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for info := range f.client.ListObjectsIter(ctx, f.bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if info.Err != nil {
			return nil, f.explain(info.Err)
		}
		name, folder := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix), "/")
		n, err := strconv.ParseUint(name, 10, 64)
		if folder && err == nil && strconv.FormatUint(n, 10) == name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// server returns whose trail is fetched.
func (f *fetcher) server(ctx context.Context) (uint64, error) {
	all, err := f.numbers(ctx, f.prefix)
	where := fmt.Sprintf("s3://%s/%s", f.bucket, strings.TrimSuffix(f.prefix, "/"))
	switch {
	case err != nil:
		return 0, err
	case len(all) == 0:
		return 0, fmt.Errorf("%s: there is no trail", where)
	case f.o.Server != 0 && !slices.Contains(all, f.o.Server):
		return 0, fmt.Errorf("%s: there is no trail of server %d; %w", where, f.o.Server, &ServersError{all})
	case f.o.Server != 0:
		return f.o.Server, nil
	case len(all) > 1:
		return 0, fmt.Errorf("%s: %w", where, &ServersError{all})
	}
	return all[0], nil
}

// dir returns the directory of the n-th way on, counted from 0.
func (f *fetcher) dir(n int) string {
	if n == 0 {
		return f.o.Dir
	}
	return fmt.Sprintf("%s.%d", filepath.Clean(f.o.Dir), n+1)
}

func segmentPath(dir string, stream uint32, segment uint64) string {
	return filepath.Join(dir, strconv.FormatUint(uint64(stream), 10), fmt.Sprintf("%010d.steno", segment))
}

func (f *fetcher) streams(ctx context.Context) error {
	prefix := fmt.Sprintf("%s%d/", f.prefix, f.result.Server)
	numbers, err := f.numbers(ctx, prefix)
	if err != nil {
		return err
	}
	ways := map[uint32]int{}
	most := 1
	for _, n := range numbers {
		if n > 1<<32-1 {
			continue
		}
		w, err := f.stream(ctx, uint32(n))
		if err != nil {
			return fmt.Errorf("stream %d: %w", n, err)
		}
		ways[uint32(n)] = w
		most = max(most, w)
	}
	for i := range most {
		f.result.Dirs = append(f.result.Dirs, f.dir(i))
		for stream, w := range ways { // a stream that did not go back is in all directories
			if w > 0 && i >= w {
				if err := f.linkBefore(f.dir(w-1), f.dir(i), stream, 1<<63); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stored is an object that is in the bucket, with its versions, the newest one first.
type stored struct {
	object
	key      string
	size     int64
	since    time.Time // when it was written first
	versions []string
	ahead    chan []byte // the content, once it was read ahead, or nil if that failed; nil: it is not
	release  func()      // ends reading ahead of it
}

func (o *stored) end() int64 { return o.from + o.size }

// segments returns the objects of a stream, segment by segment.
func (f *fetcher) segments(ctx context.Context, stream uint32) iter.Seq2[[]*stored, error] {
	return func(yield func([]*stored, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var group []*stored
		manifests := map[string]*stored{}
		give := func() bool {
			for _, o := range group {
				if o.whole {
					f.expect(ctx, o, manifests[o.base()])
				}
			}
			for _, name := range slices.Sorted(maps.Keys(manifests)) {
				if !slices.ContainsFunc(group, func(o *stored) bool { return o.whole && o.base() == name }) {
					f.o.Warn(fmt.Sprintf("%s: the segment that it describes is not in the bucket", manifests[name].key))
				}
			}
			more := len(group) == 0 || yield(group, nil)
			group, manifests = nil, map[string]*stored{}
			return more
		}
		for o, err := range f.list(ctx, f.streamPrefix(f.result.Server, stream)) {
			if err != nil {
				yield(nil, err)
				return
			}
			name, isManifest := strings.CutSuffix(base(o.key), manifestSuffix)
			var ok bool
			if isManifest {
				name += wholeSuffix
			}
			if o.object, ok = parseObject(base(name)); !ok {
				f.o.Note(fmt.Sprintf("%s: it is not an object of a trail", o.key))
				continue
			}
			if len(group) > 0 && group[0].segment != o.segment && !give() {
				return
			}
			if isManifest {
				manifests[o.base()] = o
			} else {
				group = append(group, o)
			}
		}
		give()
	}
}

// list returns the objects below a prefix, with their versions where they can be listed. An object that was deleted
// in a bucket with versions is read nevertheless.
func (f *fetcher) list(ctx context.Context, prefix string) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		options := minio.ListObjectsOptions{Prefix: prefix, Recursive: true, WithVersions: true}
		var one *stored
		var deleted time.Time
		give := func() bool {
			if one == nil || len(one.versions) == 0 {
				return true
			}
			if !deleted.IsZero() {
				f.o.Warn(fmt.Sprintf("%s: it was deleted at %s; its version before that is read", one.key,
					deleted.UTC().Format(time.RFC3339)))
			}
			return yield(one, nil)
		}
		began := false
		for info := range f.client.ListObjectsIter(ctx, f.bucket, options) {
			if info.Err != nil && !began && ctx.Err() == nil { // this service, or this login, has no versions
				f.listCurrent(ctx, prefix)(yield)
				return
			}
			if info.Err != nil {
				yield(nil, f.explain(info.Err))
				return
			}
			began = true
			if one == nil || one.key != info.Key {
				if !give() {
					return
				}
				one, deleted = &stored{key: info.Key, since: info.LastModified}, time.Time{}
			}
			if info.IsDeleteMarker {
				if info.IsLatest {
					deleted = info.LastModified
				}
				continue
			}
			one.versions, one.since = append(one.versions, info.VersionID), info.LastModified
			one.size = info.Size // that of the first version, which comes last
		}
		give()
	}
}

func (f *fetcher) listCurrent(ctx context.Context, prefix string) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		options := minio.ListObjectsOptions{Prefix: prefix, Recursive: true}
		for info := range f.client.ListObjectsIter(ctx, f.bucket, options) {
			if info.Err != nil {
				yield(nil, f.explain(info.Err))
				return
			}
			if !yield(&stored{key: info.Key, size: info.Size, since: info.LastModified, versions: []string{""}}, nil) {
				return
			}
		}
	}
}

// maxManifest bounds what is read of a manifest.
const maxManifest = 64 << 10

// expect compares a whole segment with its manifest, as far as names tell.
func (f *fetcher) expect(ctx context.Context, o, manifest *stored) {
	if manifest == nil {
		return // the agent was ended between the two
	}
	var m Manifest
	text, err := f.read(ctx, manifest)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	switch {
	case err != nil:
		f.o.Warn(fmt.Sprintf("%s: %v", manifest.key, err))
	case m.SystemID != f.result.Server || m.Segment != o.segment || m.Bytes != o.size ||
		!strings.HasPrefix(m.SHA256, o.content.String()):
		f.o.Warn(fmt.Sprintf("%s: it is not the manifest of %s", manifest.key, o.key))
	}
}

func (f *fetcher) read(ctx context.Context, o *stored) ([]byte, error) {
	options := minio.GetObjectOptions{VersionID: o.versions[len(o.versions)-1]}
	object, err := f.client.GetObject(ctx, f.bucket, o.key, options)
	if err != nil {
		return nil, f.explain(err)
	}
	defer object.Close()
	text, err := io.ReadAll(io.LimitReader(object, maxManifest))
	return text, f.explain(err)
}

// errContent says that no version of an object has the content that its name says.
var errContent = errors.New("its content is not what its name says")

// download writes an object into a file at an offset. Of several versions, that one counts whose content is right.
func (f *fetcher) download(ctx context.Context, o *stored, to *os.File, at int64) error {
	if o.ahead != nil {
		select {
		case text := <-o.ahead:
			if text != nil {
				f.result.Bytes += o.size
				_, err := to.WriteAt(text, at)
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i := range o.versions {
		err := f.downloadVersion(ctx, o, o.versions[len(o.versions)-1-i], to, at)
		if err == nil {
			if i > 0 || len(o.versions) > 1 {
				f.o.Warn(fmt.Sprintf("%s: it was replaced; the version whose content is right is read", o.key))
			}
			return nil
		}
		if !errors.Is(err, errContent) {
			return fmt.Errorf("%s: %w", o.key, f.explain(err))
		}
	}
	return fmt.Errorf("%s: %w", o.key, errContent)
}

// What is read ahead: how many objects at a time, and of what size at most.
const (
	aheadObjects = 16
	aheadSize    = 512 << 10
)

// readAhead begins to read small objects, because a segment of a quiet server has thousands. The content of those that
// have one version, and the right content, is taken by download; release must be called for each of them in order.
func (f *fetcher) readAhead(ctx context.Context, parts []*stored) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	slots := make(chan struct{}, aheadObjects)
	for _, p := range parts {
		if p.size <= aheadSize && len(p.versions) == 1 {
			p.ahead = make(chan []byte, 1)
			p.release = sync.OnceFunc(func() {
				select {
				case <-slots:
				case <-ctx.Done():
				}
			})
		}
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for _, p := range parts {
			if p.ahead == nil {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			wait.Go(func() { p.ahead <- f.small(ctx, p) })
		}
	})
	return func() {
		cancel()
		wait.Wait()
	}
}

// small reads a small object; nil: that has failed, or its content is not right.
func (f *fetcher) small(ctx context.Context, o *stored) []byte {
	object, err := f.client.GetObject(ctx, f.bucket, o.key, minio.GetObjectOptions{VersionID: o.versions[0]})
	if err != nil {
		return nil
	}
	defer object.Close()
	text, err := io.ReadAll(io.LimitReader(object, o.size+1))
	if err != nil || int64(len(text)) != o.size || idOf(sha256.Sum256(text)) != o.content {
		return nil
	}
	return text
}

func (f *fetcher) downloadVersion(ctx context.Context, o *stored, version string, to *os.File, at int64) error {
	object, err := f.client.GetObject(ctx, f.bucket, o.key, minio.GetObjectOptions{VersionID: version})
	if err != nil {
		return err
	}
	defer object.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(io.NewOffsetWriter(to, at), h), io.LimitReader(object, o.size+1))
	f.result.Bytes += n
	if err != nil {
		return err
	}
	if sum := [32]byte(h.Sum(nil)); n != o.size || idOf(sum) != o.content {
		return errContent
	}
	return nil
}

// hasContent returns whether a file is what an object is.
func hasContent(path string, o *stored) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != o.size {
		return false
	}
	h := sha256.New()
	_, err = io.Copy(h, file)
	return err == nil && hex.EncodeToString(h.Sum(nil))[:2*len(o.content)] == o.content.String()
}

// tempFile makes a new file.
func (f *fetcher) tempFile() (*os.File, error) {
	f.temps++
	path := filepath.Join(f.temp, strconv.Itoa(f.temps))
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// linkBefore makes the segments of a stream in one directory, up to a number, appear in another one.
func (f *fetcher) linkBefore(from, to string, stream uint32, end uint64) error {
	entries, err := os.ReadDir(filepath.Dir(segmentPath(from, stream, 1)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), ".steno"), 10, 64)
		if err != nil || n >= end || e.Name() != filepath.Base(segmentPath(from, stream, n)) {
			continue
		}
		if err := f.link(segmentPath(from, stream, n), segmentPath(to, stream, n)); err != nil {
			return err
		}
		f.result.Segments++
	}
	return nil
}

// link makes a file appear under another name. Files are never changed in place, so two names may have one file.
func (f *fetcher) link(from, to string) error {
	if a, err := os.Stat(from); err == nil {
		if b, err := os.Stat(to); err == nil && os.SameFile(a, b) {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	temp := filepath.Join(f.temp, "link")
	_ = os.Remove(temp)
	if os.Link(from, temp) != nil {
		copied, err := f.copyOf(from, 1<<62)
		if err != nil {
			return err
		}
		if err := copied.Close(); err != nil {
			return err
		}
		temp = copied.Name()
	}
	return os.Rename(temp, to)
}

// copyOf returns a new file with the first bytes of another one.
func (f *fetcher) copyOf(path string, most int64) (*os.File, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := f.tempFile()
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(to, io.LimitReader(from, most)); err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}
