package trail

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

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
