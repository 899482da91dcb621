// Writes a stream: segments of blocks, in a directory of its own.

package write

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/private"
)

// blockSize is the payload length at which a block is written, segmentSize the length at which a segment ends.
const (
	blockSize   = 1 << 20
	segmentSize = 64 << 20
)

// Stream writes a new stream of a trail.
type Stream struct {
	Number        uint32
	SystemID      uint64
	ServerVersion uint32
	Now           func() int64

	dir     *private.Dir
	file    *os.File
	block   *Block
	segment uint64
	size    int64
	next    uint64 // number of the next block
	record  uint64 // number of the next block's first record
	start   [32]byte
	last    [32]byte // chain hash of the last block
	times   format.TimeRange
}

// NewStream makes the stream's folder in a trail, which must not have it.
func NewStream(
	dir *private.Dir, number uint32, systemID uint64, serverVersion uint32, now func() int64,
) (*Stream, error) {
	s := &Stream{
		Number: number, SystemID: systemID, ServerVersion: serverVersion, Now: now,
		block: NewBlock(), next: 1, record: 1,
	}
	var err error
	if s.dir, err = dir.Mkdir(fmt.Sprint(number), 0o700); err != nil {
		return nil, err
	}
	return s, s.begin()
}

// SegmentHeader encodes the header of a segment. It ignores Hash.
func SegmentHeader(h format.SegmentHeader) []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, format.SegmentHeaderSize), "STENOSEG"...)
	b = le.AppendUint16(b, format.FormatVersion)
	b = le.AppendUint16(b, format.SegmentHeaderSize)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, h.SystemID)
	b = le.AppendUint32(b, h.Stream)
	b = le.AppendUint32(b, h.ServerVersion)
	for _, v := range []uint64{h.Number, uint64(h.Created), h.FirstBlock, h.FirstRecord} {
		b = le.AppendUint64(b, v)
	}
	b = append(b, h.PreviousHash[:]...)
	for _, v := range []uint64{uint64(h.Before.First), uint64(h.Before.LastEnd), h.LastStart} {
		b = le.AppendUint64(b, v)
	}
	return le.AppendUint64(b, xxhash.Sum64(b))
}

// begin begins the next segment.
func (s *Stream) begin() error {
	if s.file != nil {
		if err := s.end(); err != nil {
			return err
		}
	}
	s.segment++
	header := SegmentHeader(format.SegmentHeader{
		SystemID: s.SystemID, Stream: s.Number, ServerVersion: s.ServerVersion, Number: s.segment,
		Created: s.Now(), FirstBlock: s.next, FirstRecord: s.record, PreviousHash: s.last,
		Before: s.times,
	})
	s.times = format.NoTimes()
	f, err := s.dir.Create(fmt.Sprintf("%010d.steno", s.segment), 0o600)
	if err != nil {
		return err
	}
	s.file, s.start, s.size = f, sha256.Sum256(header), int64(len(header))
	_, err = f.Write(header)
	return err
}

// end closes the segment after it is on disk.
func (s *Stream) end() error {
	err := s.file.Sync()
	if closed := s.file.Close(); err == nil {
		err = closed
	}
	return err
}

// Add adds a record of the source, and advances it.
func (s *Stream) Add(source *Source, r *Record) error {
	s.block.Add(source, r)
	return s.writeIfFull()
}

// AddData adds a data part.
func (s *Stream) AddData(source *Source, seq uint64, part format.PartKind, data []byte) error {
	if s.block.Bytes() > 0 && s.block.Bytes()+len(data) > blockSize {
		if err := s.write(); err != nil {
			return err
		}
	}
	s.block.AddData(source, seq, part, data)
	return s.writeIfFull()
}

// EnsureRoom makes sure that an item of about that length fits: a block must not be longer than the format allows.
func (s *Stream) EnsureRoom(length int) error {
	if s.block.Bytes() > 0 && s.block.Bytes()+length > blockSize {
		return s.write()
	}
	return nil
}

func (s *Stream) writeIfFull() error {
	if s.block.Bytes() < blockSize {
		return nil
	}
	return s.write()
}

// write writes the current block.
func (s *Stream) write() error {
	if s.block.Bytes() == 0 {
		return nil
	}
	if s.size >= segmentSize {
		if err := s.begin(); err != nil {
			return err
		}
	}
	image, chain := s.block.Finish(s.next, s.record, s.Now(), s.start)
	if _, err := s.file.Write(image); err != nil {
		return err
	}
	s.start, s.last = chain, chain
	if h, err := format.ParseBlockHeader(image); err == nil {
		s.times.Add(&h)
	}
	s.next++
	s.record += uint64(s.block.Records())
	s.size += int64(len(image))
	s.block = NewBlock()
	return nil
}

// Close writes what is left and closes the stream.
func (s *Stream) Close() error {
	err := s.write()
	if ended := s.end(); err == nil {
		err = ended
	}
	s.dir.Close()
	return err
}
