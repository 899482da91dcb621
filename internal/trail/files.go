// Opening the files of a trail, and reading blocks from them.

package trail

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/pg-steno/pg_steno/internal/format"
)

// OpenFile opens a file of a trail for reading. It refuses devices, and FIFOs, for whose writers it does not
// wait.
func OpenFile(path string) (*os.File, error) {
	f, _, err := openSized(path)
	return f, err
}

func openSized(path string) (f *os.File, size int64, err error) {
	if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

var errNotRegular = errors.New("not a regular file")

// Files keeps the most recently read segments open. Several goroutines may use it.
type Files struct {
	// NoFallback says that a damaged block is not read from another trail that has it.
	NoFallback bool

	mu   sync.Mutex
	open []*openFile // most recently used last
}

type openFile struct {
	path string
	f    *os.File
	refs int
}

const maxOpenFiles = 64

func (fs *Files) acquire(path string) (*openFile, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, o := range fs.open {
		if o.path == path {
			fs.open = append(slices.Delete(fs.open, i, i+1), o)
			o.refs++
			return o, nil
		}
	}
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	o := &openFile{path, f, 1}
	fs.open = append(fs.open, o)
	for i := 0; len(fs.open) > maxOpenFiles && i < len(fs.open); {
		if old := fs.open[i]; old.refs == 0 {
			old.f.Close()
			fs.open = slices.Delete(fs.open, i, i+1)
		} else {
			i++
		}
	}
	return o, nil
}

func (fs *Files) release(o *openFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	o.refs--
}

// Close closes all files.
func (fs *Files) Close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, o := range fs.open {
		o.f.Close()
	}
	fs.open = nil
}

// Read reads a block into b and loads it. If it is damaged and another trail has it, too, it is read from
// there.
func (fs *Files) Read(ref *BlockRef, b *format.Block) error {
	err := fs.read(ref, b)
	if err == nil || fs.NoFallback || len(ref.Segment.twins) == 0 || err == ref.Segment.KeyErr {
		return err
	}
	if fs.readTwin(ref, b) {
		return nil
	}
	return fs.read(ref, b)
}

// readStored reads a block as it is stored. Its checksums are right, but whether its payload can be decrypted,
// decompressed and decoded is not known.
func (fs *Files) readStored(ref *BlockRef, b *format.Block) error {
	return fs.readWith(ref, b, (*format.Block).CheckStored)
}

// source returns the origin of a block of the segment, for format.Block.
func (seg *Segment) source(offset int64) format.Source {
	s := format.Source{
		File:      seg.Path,
		Stream:    seg.stream(),
		Segment:   seg.Number,
		Offset:    offset,
		Encrypted: seg.Header.Encrypted,
		Key:       seg.key,
		KeyErr:    seg.KeyErr,
	}
	if seg.Err == nil {
		s.FirstBlock = seg.Header.FirstBlock
	}
	return s
}

func (fs *Files) read(ref *BlockRef, b *format.Block) error {
	return fs.readWith(ref, b, (*format.Block).Load)
}

func (fs *Files) readWith(ref *BlockRef, b *format.Block, load func(*format.Block) error) error {
	o, err := fs.acquire(ref.Segment.Path)
	if err != nil {
		return ref.Segment.openProblem(err)
	}
	defer fs.release(o)
	b.Source = ref.Segment.source(ref.Offset)
	n := int(ref.Length())
	if cap(b.Image) < n {
		b.Image = make([]byte, n+n/8)
	}
	b.Image = b.Image[:n]
	if got, err := o.f.ReadAt(b.Image, ref.Offset); got < n {
		if err == io.EOF {
			return ref.Segment.problem(format.ProblemDamaged, ref.Offset,
				"block %d has disappeared: the file became shorter", ref.Number)
		}
		p := ref.Segment.unreadable(err)
		p.Offset, p.Start = ref.Offset, ref.Offset
		return p
	}
	if err := load(b); err != nil {
		var after [format.MinZeros]byte
		if _, err := o.f.ReadAt(after[:], ref.Offset+int64(n)); err == nil && format.OnlyZeros(after[:]) {
			b.ZerosAfter = format.MinZeros
		}
		return err
	}
	return nil
}
