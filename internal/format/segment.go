// The segment header; checks of copied bytes.

package format

import (
	"crypto/sha256"
	"encoding/binary"
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
	// MaxRaw is the limit for a payload before compression.
	MaxRaw = 16 << 20

	// SegmentMagic and BlockMagic are the first bytes of segments and blocks.
	SegmentMagic = "STENOSEG"
	BlockMagic   = "SBLK"
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
	// PreviousHash is the chain hash of the stream's last block before this segment.
	PreviousHash [32]byte
	// Before has the times of the records in the previous segment, if they are known.
	Before TimeRange
	// LastStart is the last segment before this one in which the server started; 0: not known.
	LastStart uint64
	// Hash is the start of the segment's chain: SHA-256 of the header.
	Hash [32]byte
	// Encrypted says that the payloads of blocks are encrypted. Their data key is in the header, encrypted with
	// the key with the ID KeyID.
	Encrypted bool
	KeyID     KeyID
}

// TimeRange has the time at which the first of a segment's records began, and that at which the last one ended.
// Both are 0 if they are not known; without records, First is after LastEnd.
type TimeRange struct{ First, LastEnd int64 }

// NoTimes returns the range of a segment without records.
func NoTimes() TimeRange { return TimeRange{First: math.MaxInt64, LastEnd: math.MinInt64} }

// Known returns whether the range is known.
func (r TimeRange) Known() bool { return r != TimeRange{} }

// Add extends the range by a block's times, if the block has records and the range is known.
func (r *TimeRange) Add(h *BlockHeader) {
	if h.Records > 0 && r.Known() {
		r.First, r.LastEnd = min(r.First, h.FirstTime), max(r.LastEnd, h.LastEnd)
	}
}

// segmentEncrypted is the flag of encrypted segments.
const segmentEncrypted = 1

// Length returns the length of the header.
func (h *SegmentHeader) Length() int64 {
	if h.Encrypted {
		return EncryptedHeaderSize
	}
	return SegmentHeaderSize
}

// ParseSegmentHeader reads the header from the first bytes of a segment, which should be EncryptedHeaderSize
// bytes unless the segment is shorter.
func ParseSegmentHeader(b []byte) (SegmentHeader, error) {
	var h SegmentHeader
	le := binary.LittleEndian
	if len(b) < len(SegmentMagic) || string(b[:len(SegmentMagic)]) != SegmentMagic {
		return h, problemf(ProblemDamaged, 0, "not a segment of a trail: it does not begin with %q", SegmentMagic)
	}
	if len(b) < SegmentHeaderSize {
		return h, problemf(ProblemDamaged, 0, "segment header is incomplete: %d of %d bytes",
			len(b), SegmentHeaderSize)
	}
	all := b
	b = b[:SegmentHeaderSize]
	if sum := xxhash.Sum64(b[:120]); sum != le.Uint64(b[120:]) {
		return h, problemf(ProblemDamaged, 120, "checksum of the segment header does not match")
	}
	if v := le.Uint16(b[8:]); v != FormatVersion {
		return h, problemf(ProblemUnreadable, 8,
			"format version is %d, but this program reads version %d", v, FormatVersion)
	}
	flags := le.Uint32(b[12:])
	if flags&^segmentEncrypted != 0 {
		return h, problemf(ProblemUnreadable, 12, "segment has flags 0x%x, which this program does not know", flags)
	}
	encrypted := flags&segmentEncrypted != 0
	length := (&SegmentHeader{Encrypted: encrypted}).Length()
	if n := le.Uint16(b[10:]); int64(n) != length {
		return h, problemf(ProblemDamaged, 10, "segment header states a length of %d bytes instead of %d", n, length)
	}
	if int64(len(all)) < length {
		p := problemf(ProblemTorn, 0, "unfinished segment header: %d of %d bytes", len(all), length)
		p.Unfinished, p.Skipped = true, int64(len(all))
		return h, p
	}
	b = all[:length]
	if encrypted && xxhash.Sum64(b[:200]) != le.Uint64(b[200:]) {
		return h, problemf(ProblemDamaged, 200, "checksum of the segment header's key part does not match")
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

// Checks of bytes that steno recover copies, even if this program does not understand them.

// IsHeaderIntact returns whether the whole header, with the key part of an encrypted segment, is as it was
// written. If it is, but was refused, it is of a later format.
func IsHeaderIntact(b []byte) bool {
	return IsSegmentHeaderIntact(b[:SegmentHeaderSize]) && binary.LittleEndian.Uint32(b[12:])&segmentEncrypted == 0 ||
		IsSegmentHeaderIntact(b[:SegmentHeaderSize]) && len(b) >= EncryptedHeaderSize &&
			xxhash.Sum64(b[:200]) == binary.LittleEndian.Uint64(b[200:])
}

// IsSegmentHeaderIntact returns whether the header without the key part is as it was written.
func IsSegmentHeaderIntact(b []byte) bool {
	return len(b) == SegmentHeaderSize && string(b[:len(SegmentMagic)]) == SegmentMagic &&
		xxhash.Sum64(b[:120]) == binary.LittleEndian.Uint64(b[120:])
}

// PayloadSum returns the checksum of the stored payload, computed from its bytes.
func (b *Block) PayloadSum() uint64 { return xxhash.Sum64(b.Image[BlockHeaderSize:]) }

// RecoverBackendType is the backend type of the session of `steno recover`. It has no disconnect record.
const RecoverBackendType = "steno recover"
