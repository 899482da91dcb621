// The segment header, and whether copied bytes are as they were written.

package trail

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Sizes and limits that the format fixes.
const (
	FormatVersion     = 1
	SegmentHeaderSize = 128
	// EncryptedHeaderSize is the length of an encrypted segment's header.
	EncryptedHeaderSize = 208
	BlockHeaderSize     = 112
	// MaxRaw is the longest payload of a block before compression.
	MaxRaw = 16 << 20

	segmentMagic = "STENOSEG"
	blockMagic   = "SBLK"
)

// SegmentHeader is the header of a segment.
type SegmentHeader struct {
	SystemID      uint64
	Stream        uint32
	ServerVersion uint32
	Number        uint64
	Created       int64 // microseconds since 2000-01-01 UTC
	FirstBlock    uint64
	FirstRecord   uint64
	// PreviousHash is the chain hash of the stream's last block before this
	// segment.
	PreviousHash [32]byte
	// Before are the times of the records in the segment before, if they are known.
	Before TimeRange
	// LastStart is the segment with the server's last start before this segment; 0: not known.
	LastStart uint64
	// Hash is the segment's start of the chain: SHA-256 of the header.
	Hash [32]byte
	// Encrypted says that the payloads of the blocks are encrypted, with a data
	// key that stands in the header, encrypted with the key of this id.
	Encrypted bool
	KeyID     KeyID
}

// TimeRange is what the times of a segment's records are between: that at which the first one began, and that at which
// the last one ended. Both are 0 if they are not known; without records, First is after LastEnd.
type TimeRange struct{ First, LastEnd int64 }

// NoTimes is the range of a segment without records.
func NoTimes() TimeRange { return TimeRange{First: math.MaxInt64, LastEnd: math.MinInt64} }

// Known says whether the range is known.
func (r TimeRange) Known() bool { return r != TimeRange{} }

// Add adds a block's times, if it has records and the range is known.
func (r *TimeRange) Add(h *BlockHeader) {
	if h.Records > 0 && r.Known() {
		r.First, r.LastEnd = min(r.First, h.FirstTime), max(r.LastEnd, h.LastEnd)
	}
}

// segmentEncrypted is the flag of encrypted segments.
const segmentEncrypted = 1

// Length is the length of the header.
func (h *SegmentHeader) Length() int64 {
	if h.Encrypted {
		return EncryptedHeaderSize
	}
	return SegmentHeaderSize
}

// ParseSegmentHeader reads the first bytes of a segment, EncryptedHeaderSize of
// them where there are as many.
func ParseSegmentHeader(b []byte) (SegmentHeader, error) {
	var h SegmentHeader
	le := binary.LittleEndian
	if len(b) < len(segmentMagic) || string(b[:len(segmentMagic)]) != segmentMagic {
		return h, corruptf(0, "not a segment of a trail: it does not begin with %q", segmentMagic)
	}
	if len(b) < SegmentHeaderSize {
		return h, corruptf(0, "segment header is incomplete: %d of %d bytes", len(b), SegmentHeaderSize)
	}
	all := b
	b = b[:SegmentHeaderSize]
	if sum := xxhash.Sum64(b[:120]); sum != le.Uint64(b[120:]) {
		return h, corruptf(120, "checksum of the segment header does not match")
	}
	if v := le.Uint16(b[8:]); v != FormatVersion {
		return h, laterf(8, "format version is %d, but this program reads version %d", v, FormatVersion)
	}
	flags := le.Uint32(b[12:])
	if flags&^segmentEncrypted != 0 {
		return h, laterf(12, "segment has flags 0x%x, which this program does not know", flags)
	}
	encrypted := flags&segmentEncrypted != 0
	length := (&SegmentHeader{Encrypted: encrypted}).Length()
	if n := le.Uint16(b[10:]); int64(n) != length {
		return h, corruptf(10, "segment header states a length of %d bytes instead of %d", n, length)
	}
	if int64(len(all)) < length {
		return h, &TornError{Bytes: int64(len(all)), Reason: fmt.Sprintf("unfinished segment header: %d of %d bytes", len(all), length)}
	}
	b = all[:length]
	if encrypted && xxhash.Sum64(b[:200]) != le.Uint64(b[200:]) {
		return h, corruptf(200, "checksum of the segment header's key part does not match")
	}
	h = SegmentHeader{
		Encrypted:     encrypted,
		SystemID:      le.Uint64(b[16:]),
		Stream:        le.Uint32(b[24:]),
		ServerVersion: le.Uint32(b[28:]),
		Number:        le.Uint64(b[32:]),
		Created:       int64(le.Uint64(b[40:])),
		FirstBlock:    le.Uint64(b[48:]),
		FirstRecord:   le.Uint64(b[56:]),
		Hash:          sha256.Sum256(b),
	}
	copy(h.PreviousHash[:], b[64:96])
	h.Before = TimeRange{First: int64(le.Uint64(b[96:])), LastEnd: int64(le.Uint64(b[104:]))}
	h.LastStart = le.Uint64(b[112:])
	if encrypted {
		copy(h.KeyID[:], b[128:136])
	}
	return h, nil
}

// What steno recover asks of bytes that it copies as they are, whether this program
// understands them or not.

// SegmentHeaderWhole says whether a header is as it was written, whether this program
// understands it or not.
func SegmentHeaderWhole(b []byte) bool {
	return len(b) == SegmentHeaderSize && string(b[:len(segmentMagic)]) == segmentMagic &&
		xxhash.Sum64(b[:120]) == binary.LittleEndian.Uint64(b[120:])
}

// PayloadSum is the checksum that the stored payload has.
func (b *Block) PayloadSum() uint64 { return xxhash.Sum64(b.Image[BlockHeaderSize:]) }

// HasHole says whether a part of the bytes at an offset of a file was never written;
// room says that zeros follow in the file.
func HasHole(b []byte, offset int64, room bool) bool {
	after := 0
	if room {
		after = minZeros
	}
	return hasHole(b, offset, after)
}

// RecoverBackendType is the backend type in the session of `steno recover`, which has
// no disconnect record either.
const RecoverBackendType = "steno recover"
