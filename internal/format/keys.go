// Encrypted segments: keys, data keys, and decryption of payloads.

package format

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
)

// KeySize is the length of an encryption key.
const KeySize = 32

const (
	nonceSize = 12
	tagSize   = 16
	// headerBound is what of a segment header its data key is bound to.
	headerBound = 40
	// blockBound is what of a block header its encrypted payload is bound to.
	blockBound = 64
)

// KeyID tells which key a segment is encrypted with.
type KeyID [8]byte

func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// IDOf is the id of a key.
func IDOf(key [KeySize]byte) KeyID {
	sum := sha256.Sum256(append([]byte("pg_steno key id\x00"), key[:]...))
	return KeyID(sum[:8])
}

// Keys are the keys for encrypted segments. They are asked for when the first
// such segment is met. They may be used by many goroutines; nil has none.
type Keys struct {
	ask func() ([][KeySize]byte, error)

	mu    sync.Mutex
	asked bool
	err   error
	known map[KeyID][KeySize]byte
}

// NewKeys returns the keys that ask will give.
func NewKeys(ask func() ([][KeySize]byte, error)) *Keys { return &Keys{ask: ask} }

// Err is why the keys that were asked for could not be had.
func (k *Keys) Err() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Find returns the key with that id. With again, it asks once more for one that
// it does not have.
func (k *Keys) Find(id KeyID, again bool) (key [KeySize]byte, ok bool) {
	if k == nil {
		return key, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.known[id]; !ok && (again || !k.asked) {
		k.asked = true
		var keys [][KeySize]byte
		keys, k.err = k.ask()
		if k.known == nil {
			k.known = map[KeyID][KeySize]byte{}
		}
		for _, key := range keys {
			k.known[IDOf(key)] = key
		}
	}
	key, ok = k.known[id]
	return key, ok
}

// MissingKey is the problem that a segment is encrypted with a key that was not given.
func MissingKey(file string, stream uint32, segment uint64, id KeyID) *Problem {
	p := &Problem{Class: ProblemUnreadable, File: file, Offset: NoOffset, Stream: stream, Segment: segment, Key: &id}
	p.setMore(0)
	return p
}

// AddMissing counts another segment that is encrypted with the same key.
func (p *Problem) AddMissing() { p.setMore(p.More + 1) }

func (p *Problem) setMore(n int) {
	more := ""
	switch p.More = n; {
	case n == 1:
		more = ", nor for 1 more segment"
	case n > 1:
		more = fmt.Sprintf(", nor for %d more segments", n)
	}
	p.Reason = fmt.Sprintf("encrypted with key %s, which was not given%s: records not shown", p.Key, more)
}

func gcm(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is right
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// All are all keys that are known, the one with that id having been asked for.
func (k *Keys) All(id KeyID) (keys [][KeySize]byte) {
	k.Find(id, false)
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, key := range k.known {
			keys = append(keys, key)
		}
	}
	return keys
}

// A DataKey decrypts the payloads of one segment.
type DataKey struct{ aead cipher.AEAD }

// OpenDataKey takes the data key out of the header of an encrypted segment. The key is the one that the header names; its
// tag proves that it is the right one, and that the header is what the server wrote.
func OpenDataKey(key [KeySize]byte, header []byte) (*DataKey, bool) {
	return openDataKey(key, header, header[:headerBound])
}

// OpenDamaged does so if the header is damaged, but not in the data key itself: what its first bytes must have said, by
// h, is tried as well. So any key may be tried, if the id of the right one is damaged.
func OpenDamaged(key [KeySize]byte, header []byte, h *SegmentHeader) (*DataKey, bool) {
	if data, ok := openDataKey(key, header, header[:headerBound]); ok {
		return data, true
	}
	return openDataKey(key, header, h.bound())
}

func openDataKey(key [KeySize]byte, header, bound []byte) (*DataKey, bool) {
	data, err := gcm(key[:]).Open(nil, header[136:148], header[148:196], bound)
	if err != nil {
		return nil, false
	}
	return &DataKey{gcm(data)}, true
}

// bound is the beginning of an encrypted segment's header.
func (h *SegmentHeader) bound() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, headerBound), SegmentMagic...)
	b = le.AppendUint16(b, FormatVersion)
	b = le.AppendUint16(b, EncryptedHeaderSize)
	b = le.AppendUint32(b, segmentEncrypted)
	b = le.AppendUint64(b, h.SystemID)
	b = le.AppendUint32(b, h.Stream)
	b = le.AppendUint32(b, h.ServerVersion)
	return le.AppendUint64(b, h.Number)
}

// IDOfHeader is the id of the key that the header of an encrypted segment names.
func IDOfHeader(header []byte) KeyID { return KeyID(header[128:136]) }

// decrypt decrypts the stored payload of a block.
func (b *Block) decrypt(stored []byte) ([]byte, error) {
	if len(stored) < nonceSize+tagSize {
		return nil, problemf(ProblemContent, 8, "encrypted payload of %d bytes is too short", len(stored))
	}
	if n := len(stored); cap(b.plain) < n {
		b.plain = make([]byte, 0, n+n/8)
	}
	plain, err := b.Key.aead.Open(b.plain[:0], stored[:nonceSize], stored[nonceSize:], b.Image[:blockBound])
	if err != nil {
		return nil, problemf(ProblemContent, BlockHeaderSize, "payload cannot be decrypted: it, or its header, is not what the server wrote")
	}
	return plain, nil
}
