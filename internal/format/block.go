// Blocks: header, checksums, chain, decompression.

package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"github.com/pierrec/lz4/v4"
)

// BlockHeader is the header of a block.
type BlockHeader struct {
	Codec       Codec
	Flags       uint8
	Stored      uint32 // length of the payload in the file
	Raw         uint32 // length before compression
	Records     uint32
	Number      uint64
	FirstRecord uint64
	FirstTime   int64
	FirstEnd    int64
	LastEnd     int64
	PayloadSum  uint64
	Chain       [32]byte
}

// blockEncrypted is the flag of encrypted blocks.
const blockEncrypted = 1

// Encrypted returns whether the payload is encrypted.
func (h *BlockHeader) Encrypted() bool { return h.Flags&blockEncrypted != 0 }

// ParseBlockHeader reads a block header and checks its checksum. It accepts unknown flags, because such a
// header, too, says where the next block starts; Load refuses them.
func ParseBlockHeader(b []byte) (BlockHeader, error) {
	var h BlockHeader
	le := binary.LittleEndian
	if len(b) < BlockHeaderSize {
		return h, problemf(ProblemDamaged, 0, "block header is incomplete: %d of %d bytes", len(b), BlockHeaderSize)
	}
	b = b[:BlockHeaderSize]
	if string(b[:4]) != BlockMagic {
		return h, problemf(ProblemDamaged, 0, "no block starts here: found % x instead of %q", b[:4], BlockMagic)
	}
	if xxhash.Sum64(b[:104]) != le.Uint64(b[104:]) {
		return h, problemf(ProblemDamaged, 104, "checksum of the block header does not match")
	}
	if n := le.Uint16(b[4:]); n != BlockHeaderSize {
		return h, problemf(ProblemDamaged, 4, "block header states a length of %d bytes instead of %d",
			n, BlockHeaderSize)
	}
	h = BlockHeader{
		Codec:       Codec(b[6]),
		Flags:       b[7],
		Stored:      le.Uint32(b[8:]),
		Raw:         le.Uint32(b[12:]),
		Records:     le.Uint32(b[16:]),
		Number:      le.Uint64(b[24:]),
		FirstRecord: le.Uint64(b[32:]),
		FirstTime:   int64(le.Uint64(b[40:])),
		FirstEnd:    int64(le.Uint64(b[48:])),
		LastEnd:     int64(le.Uint64(b[56:])),
		PayloadSum:  le.Uint64(b[64:]),
	}
	copy(h.Chain[:], b[72:104])
	if h.Raw > MaxRaw {
		return h, problemf(ProblemDamaged, 12,
			"payload of %d bytes before compression: the limit is %d", h.Raw, MaxRaw)
	}
	if h.Stored > maxStored(h.Raw) {
		return h, problemf(ProblemDamaged, 8, "payload of %d bytes takes %d bytes in the file", h.Raw, h.Stored)
	}
	return h, nil
}

// maxStored returns the limit for the length of a payload in the file, with any codec, and encrypted.
func maxStored(raw uint32) uint32 { return raw + raw/128 + 1024 }

// Source says where a block comes from.
type Source struct {
	File    string
	Stream  uint32
	Segment uint64
	Offset  int64
	// Encrypted says that the segment is encrypted, so the block must be, too. Key decrypts it; if it is nil,
	// KeyErr says why.
	Encrypted bool
	Key       *DataKey
	KeyErr    error
	// FirstBlock is the number of the segment's first block; 0: not known.
	FirstBlock uint64
	// ZerosAfter is how many zeros follow in the file. They are counted only for a block that is not valid.
	ZerosAfter int
}

// Block is a block in memory. It is meant to be reused: Load overwrites the buffers that the records of the
// previous block point to.
type Block struct {
	Header BlockHeader
	Source

	// Image has the bytes of the block in the file: header and stored payload.
	Image []byte

	raw   []byte // the decompressed payload, which may be a part of Image or of plain
	buf   []byte // the buffer for decompression
	plain []byte // the decrypted payload

	decoder
}

// Memory returns how many bytes the block keeps allocated.
func (b *Block) Memory() int { return cap(b.Image) + cap(b.buf) + cap(b.plain) + b.dictionary }

// Decoded returns how many records were read so far.
func (b *Block) Decoded() int64 { return int64(b.records) }

// Load checks the checksums of the block in b.Image, and decrypts and decompresses its payload. CheckChain
// checks the chain.
func (b *Block) Load() error {
	err := b.load()
	if p, ok := err.(*Problem); ok && p != b.KeyErr {
		return b.located(p)
	}
	return err
}

// located adds the place of the block to a problem.
func (s *Source) located(p *Problem) *Problem { return p.At(s.File, s.Stream, s.Segment, s.Offset) }

// CheckStored checks the checksums of the block in b.Image, and nothing else: its payload is not loaded.
func (b *Block) CheckStored() error {
	if p, ok := b.checkStored().(*Problem); ok {
		return b.located(p)
	}
	return nil
}

func (b *Block) checkStored() error {
	h, err := ParseBlockHeader(b.Image)
	if err != nil {
		return err
	}
	b.Header = h
	b.raw = nil
	b.Rewind()
	stored := b.Image[BlockHeaderSize:]
	if len(stored) != int(h.Stored) {
		return problemf(ProblemDamaged, 8, "payload of %d bytes where %d bytes are left", h.Stored, len(stored))
	}
	if xxhash.Sum64(stored) != h.PayloadSum {
		return problemf(ProblemDamaged, BlockHeaderSize, "checksum of the payload does not match")
	}
	return nil
}

func (b *Block) load() error {
	err := b.checkStored()
	if err != nil {
		return err
	}
	h, stored := &b.Header, b.Image[BlockHeaderSize:]
	if h.Flags&^blockEncrypted != 0 {
		return problemf(ProblemUnreadable, 7, "block has flags 0x%x, which this program does not know", h.Flags)
	}
	encrypted := h.Encrypted()
	if encrypted != b.Encrypted {
		return problemf(ProblemContent, 7, "block and segment are not both encrypted")
	}
	if encrypted {
		if b.KeyErr != nil {
			return b.KeyErr
		}
		if stored, err = b.decrypt(stored); err != nil {
			return err
		}
	}
	if b.raw, err = b.decompress(stored); err != nil {
		return err
	}
	b.Rewind()
	return nil
}

func (b *Block) decompress(stored []byte) ([]byte, error) {
	n := int(b.Header.Raw)
	if b.Header.Codec == CodecNone {
		if len(stored) != n {
			return nil, problemf(ProblemContent, 12,
				"uncompressed payload of %d bytes has a stated length of %d bytes", len(stored), n)
		}
		return stored, nil
	}
	if b.Header.Codec != CodecLz4 {
		return nil, problemf(ProblemUnreadable, 6, "codec %d, which this program does not know", b.Header.Codec)
	}
	// LZ4 expands by a factor of at most 255. A header that claims more must not cause a large allocation.
	if n > 255*len(stored)+64 {
		return nil, problemf(ProblemContent, 12,
			"payload of %d bytes cannot be %d bytes long after decompression", len(stored), n)
	}
	if cap(b.buf) < n {
		b.buf = make([]byte, n)
	}
	dst := b.buf[:n]
	got, err := lz4.UncompressBlock(stored, dst)
	if err != nil {
		return nil, problemf(ProblemContent, BlockHeaderSize, "payload cannot be decompressed: %s", err)
	}
	if got != n {
		return nil, problemf(ProblemContent, 12, "payload is %d bytes long after decompression instead of %d", got, n)
	}
	return dst, nil
}

// ChainHash returns the chain hash that the block must have if the previous block has the hash previous.
func (b *Block) ChainHash(previous [32]byte) [32]byte {
	h := sha256.New()
	h.Write(previous[:])
	h.Write(b.Image[:72])
	h.Write(b.Image[BlockHeaderSize:])
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// MinZeros is how many successive zeros are taken for bytes that were never written.
const MinZeros = 16

// sector is the unit that a disk writes atomically.
const sector = 512

// HasHole returns whether a part of the block's payload was never written: after a crash of the machine, or of
// a writer in preallocated space, it ends with zeros, or has a sector of zeros. A payload whose checksum
// matches was written completely, whatever else is wrong.
func (b *Block) HasHole() bool {
	return len(b.Image) > BlockHeaderSize && b.PayloadSum() != binary.LittleEndian.Uint64(b.Image[64:]) &&
		HasHole(b.Image[BlockHeaderSize:], b.Offset+BlockHeaderSize, b.ZerosAfter)
}

// HasHole returns whether a part of the bytes at an offset of a file was never written; after is how many zeros
// follow them.
func HasHole(b []byte, offset int64, after int) bool {
	if EndsWithZeros(b) {
		return true
	}
	for len(b) > 0 {
		n := min(sector-int(offset%sector), len(b))
		zeros := n
		if n == len(b) {
			zeros += after
		}
		if zeros >= MinZeros && OnlyZeros(b[:n]) {
			return true
		}
		b, offset = b[n:], offset+int64(n)
	}
	return false
}

// EndsWithZeros returns whether bytes end with zeros that were never written.
func EndsWithZeros(b []byte) bool {
	return len(b) >= MinZeros && OnlyZeros(b[len(b)-MinZeros:])
}

// OnlyZeros returns whether all bytes are zero.
func OnlyZeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
