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
	// headerBound is the length of the part of a segment header that authenticates its data key.
	headerBound = 40
	// blockBound is the length of the part of a block header that authenticates its payload.
	blockBound = 64
)

// KeyID identifies the key with which a segment is encrypted.
type KeyID [8]byte

func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// IDOf returns the ID of a key.
func IDOf(key [KeySize]byte) KeyID {
	sum := sha256.Sum256(append([]byte("pg_steno key id\x00"), key[:]...))
	return KeyID(sum[:8])
}

// Keys has the keys for encrypted segments. They are loaded when the first such segment is found. Several
// goroutines may use them; nil has no keys.
type Keys struct {
	load func() ([][KeySize]byte, error)

	mu     sync.Mutex
	loaded bool
	err    error
	known  map[KeyID][KeySize]byte
}

// NewKeys returns keys that are loaded by a function.
func NewKeys(load func() ([][KeySize]byte, error)) *Keys { return &Keys{load: load} }

// Err returns the error of loading the keys.
func (k *Keys) Err() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Find returns the key with an ID. With again, it loads the keys again if it does not have that key.
func (k *Keys) Find(id KeyID, again bool) (key [KeySize]byte, ok bool) {
	if k == nil {
		return key, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.known[id]; !ok && (again || !k.loaded) {
		k.loaded = true
		var keys [][KeySize]byte
		keys, k.err = k.load()
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

// MissingKey returns the problem that a segment is encrypted with a key that was not given.
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
		panic(err) // cannot happen: the length is valid
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// All returns all keys, after loading them if the one with that ID is not known.
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

// DataKey decrypts the payloads of one segment.
type DataKey struct{ aead cipher.AEAD }

// OpenDataKey decrypts the data key in the header of an encrypted segment, with the key that the header names.
// The authentication tag proves that the key is right and the header is authentic.
func OpenDataKey(key [KeySize]byte, header []byte) (*DataKey, bool) {
	return openDataKey(key, header, header[:headerBound])
}

// OpenDamaged does the same for a header that is damaged outside of the data key. It also tries the beginning
// that the header must have had according to h. The caller may try any key, if the ID of the right one is
// damaged.
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

// bound returns the beginning that the header of an encrypted segment has.
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

// IDOfHeader returns the ID of the key that the header of an encrypted segment names.
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
		return nil, problemf(ProblemContent, BlockHeaderSize,
			"payload cannot be decrypted: it, or its header, is not what the server wrote")
	}
	return plain, nil
}
