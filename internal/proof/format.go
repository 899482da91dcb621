// The file format: a header, sections with a kind and a length, and a checksum.

package proof

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
)

const (
	magic   = "STENOPRF"
	version = 1

	headerSize  = 16 // magic, version, zeros
	sectionSize = 8  // header of a section: kind, zeros, length
)

// kind is the kind of a section.
type kind uint8

const (
	kindQuestion kind = 1 // Question, as JSON
	kindStream   kind = 2 // a stream begins: system identifier, stream number, zeros
	kindSeal     kind = 3 // what is signed, key ID, signature
	kindSegment  kind = 4 // a segment begins here: its header
	kindContext  kind = 5 // header of the segment that contains the next block
	kindBlock    kind = 6 // a block as it is in the trail
	kindLeftOut  kind = 7 // blocks are left out: the last one's number, its last record's, and its chain hash
	kindEnd      kind = 8 // SHA-256 of everything before this section
)

const (
	maxQuestion  = 1 << 20
	streamSize   = 16
	signedSize   = 144
	sealSize     = signedSize + 8 + 64
	leftOutSize  = 48
	maxBlockSize = format.BlockHeaderSize + format.MaxRaw + format.MaxRaw/128 + 1024
)

// fits reports whether a section of this kind can have a length.
func (k kind) fits(n uint32) bool {
	switch k {
	case kindQuestion:
		return n <= maxQuestion
	case kindStream:
		return n == streamSize
	case kindSeal:
		return n == sealSize
	case kindSegment, kindContext:
		return n == format.SegmentHeaderSize || n == format.EncryptedHeaderSize
	case kindBlock:
		return n >= format.BlockHeaderSize && n <= maxBlockSize
	case kindLeftOut:
		return n == leftOutSize
	case kindEnd:
		return n == sha256.Size
	}
	return false
}

// FormatError is the error of a file that is not a readable proof: it is cut off, damaged, of a later version, or
// something else.
type FormatError struct {
	Offset int64
	Reason string
}

func (e *FormatError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.Reason) }

// ErrNoProof is the error of a file that does not begin like a proof.
var ErrNoProof = errors.New("not a proof: it does not begin with \"" + magic + "\"")

// section is a section of a file.
type section struct {
	kind   kind
	offset int64 // of its bytes in the file
	body   []byte
}

// sectionReader reads the sections of a file one after the other. It never allocates more memory than the file is
// long.
type sectionReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	offset int64
	buf    []byte
	ended  bool
}

func newSectionReader(in io.Reader) (*sectionReader, error) {
	r := &sectionReader{in: bufio.NewReaderSize(in, 256<<10), sum: sha256.New()}
	var h [headerSize]byte
	n, err := io.ReadFull(r.in, h[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if n < len(magic) || string(h[:len(magic)]) != magic {
		return nil, ErrNoProof
	}
	if n < headerSize {
		return nil, &FormatError{0, "the file was cut off"}
	}
	if v := binary.LittleEndian.Uint16(h[8:]); v != version {
		return nil, &FormatError{8, fmt.Sprintf("the proof has version %d, but this program reads version %d",
			v, version)}
	}
	if [6]byte(h[10:]) != [6]byte{} {
		return nil, &FormatError{10, "reserved bytes are not zero"}
	}
	r.sum.Write(h[:])
	r.offset = headerSize
	return r, nil
}

// next reads a section, which is valid until the next call. It returns io.EOF after the last section, if the checksum
// is right.
func (r *sectionReader) next() (s section, err error) {
	at := r.offset
	var h [sectionSize]byte
	if r.ended {
		if _, err := r.in.ReadByte(); err != io.EOF {
			return s, &FormatError{at, "bytes follow the end of the proof"}
		}
		return s, io.EOF
	}
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		return s, r.cutOff(at, err)
	}
	s.kind, s.offset = kind(h[0]), at+sectionSize
	n := binary.LittleEndian.Uint32(h[4:])
	if [3]byte(h[1:4]) != [3]byte{} || !s.kind.fits(n) {
		return s, &FormatError{at, fmt.Sprintf("section of kind %d with %d bytes: this is not what a proof contains",
			s.kind, n)}
	}
	// The buffer grows with the bytes read, because the length may be forged.
	r.buf = r.buf[:0]
	for left := int(n); left > 0; {
		step := min(left, 1<<20)
		old := len(r.buf)
		if cap(r.buf) < old+step {
			grown := make([]byte, old, min(int(n), 2*(old+step)))
			copy(grown, r.buf)
			r.buf = grown
		}
		r.buf = r.buf[:old+step]
		if _, err := io.ReadFull(r.in, r.buf[old:]); err != nil {
			return s, r.cutOff(at, err)
		}
		left -= step
	}
	s.body = r.buf
	r.offset = s.offset + int64(n)
	if s.kind == kindEnd {
		if [sha256.Size]byte(s.body) != [sha256.Size]byte(r.sum.Sum(nil)) {
			return s, &FormatError{at, "checksum of the file does not match: it was damaged"}
		}
		r.ended = true
		return r.next()
	}
	r.sum.Write(h[:])
	r.sum.Write(s.body)
	return s, nil
}

func (r *sectionReader) cutOff(at int64, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &FormatError{at, "the file was cut off"}
	}
	return err
}

// sectionWriter writes a file.
type sectionWriter struct {
	out io.Writer
	sum hash.Hash
	err error
}

func newSectionWriter(out io.Writer) *sectionWriter {
	w := &sectionWriter{out: out, sum: sha256.New()}
	h := binary.LittleEndian.AppendUint16([]byte(magic), version)
	w.write(append(h, make([]byte, headerSize-len(h))...))
	return w
}

func (w *sectionWriter) write(b []byte) {
	if w.err == nil {
		w.sum.Write(b)
		_, w.err = w.out.Write(b)
	}
}

func (w *sectionWriter) section(k kind, body []byte) {
	h := binary.LittleEndian.AppendUint32([]byte{byte(k), 0, 0, 0}, uint32(len(body)))
	w.write(h)
	w.write(body)
}

func (w *sectionWriter) stream(system uint64, number uint32) {
	b := binary.LittleEndian.AppendUint64(nil, system)
	b = binary.LittleEndian.AppendUint32(b, number)
	w.section(kindStream, append(b, 0, 0, 0, 0))
}

func (w *sectionWriter) seal(s *seal.Seal) {
	id, _ := hex.DecodeString(s.Key) // Parse has checked the number of digits
	w.section(kindSeal, append(append(s.Bytes(), id...), s.Signature...))
}

func (w *sectionWriter) leftOut(block, record uint64, chain [32]byte) {
	b := binary.LittleEndian.AppendUint64(nil, block)
	b = binary.LittleEndian.AppendUint64(b, record)
	w.section(kindLeftOut, append(b, chain[:]...))
}

// end writes the checksum.
func (w *sectionWriter) end() error {
	w.section(kindEnd, w.sum.Sum(nil))
	return w.err
}
