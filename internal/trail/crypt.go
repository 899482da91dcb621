// Encrypted segments: keys, and decryption of payloads.

package trail

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

// find returns the key with that id. With again, it asks once more for one that
// it does not have.
func (k *Keys) find(id KeyID, again bool) (key [KeySize]byte, ok bool) {
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

// A MissingKeyError is an encrypted segment for which it contains no key.
type MissingKeyError struct {
	File string
	ID   KeyID
	More int // other segments that are encrypted with the same key
}

func (e *MissingKeyError) Error() string {
	more := ""
	switch {
	case e.More == 1:
		more = ", nor for 1 more segment"
	case e.More > 1:
		more = fmt.Sprintf(", nor for %d more segments", e.More)
	}
	return fmt.Sprintf("%s: encrypted with key %s, which was not given%s: records not shown; give it with --encryption-key-command or --encryption-key-file", e.File, e.ID, more)
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

// unlock takes the data key out of an encrypted segment's header.
func (seg *Segment) unlock(header []byte, again bool) {
	h := &seg.Header
	if !h.Encrypted || seg.Err != nil {
		return
	}
	key, ok := seg.Stream.keys.find(h.KeyID, again)
	if !ok {
		seg.KeyErr = &MissingKeyError{File: seg.Path, ID: h.KeyID}
		return
	}
	nonce, sealed := header[136:148], header[148:196]
	data, err := gcm(key[:]).Open(nil, nonce, sealed, header[:headerBound])
	if err != nil {
		seg.KeyErr = &CorruptionError{seg.Path, 136, "data key of the segment cannot be decrypted: the header is not what the server wrote"}
		return
	}
	seg.aead, seg.KeyErr = gcm(data), nil
}

// begins takes notice of a whole block of a segment whose header is damaged: it tells
// whether the segment is encrypted.
func (seg *Segment) begins(h *BlockHeader) {
	if seg.damaged == nil || !h.Encrypted() || seg.Header.Encrypted {
		return
	}
	seg.Header.Encrypted = true
	seg.unlockDamaged()
}

// unlockDamaged takes the data key out of a damaged header, if the damage is not in
// the key itself. Its tag proves that it is the right one, so anything may be tried:
// all keys, when the id of the right one is damaged, and what the header must have
// said.
func (seg *Segment) unlockDamaged() {
	b := seg.damaged
	if len(b) < EncryptedHeaderSize {
		seg.KeyErr = seg.Err
		return
	}
	id := KeyID(b[128:136])
	seg.KeyErr = &MissingKeyError{File: seg.Path, ID: id}
	keys := seg.Stream.keys.all(id)
	for _, key := range keys {
		for _, bound := range [][]byte{b[:headerBound], seg.bound()} {
			if data, err := gcm(key[:]).Open(nil, b[136:148], b[148:196], bound); err == nil {
				seg.aead, seg.KeyErr = gcm(data), nil
				return
			}
		}
	}
	if _, known := seg.Stream.keys.find(id, false); known {
		seg.KeyErr = &CorruptionError{seg.Path, 136, "data key of the segment cannot be decrypted: the header is not what the server wrote"}
	}
}

// bound is the beginning of an encrypted segment's header, as it must have been.
func (seg *Segment) bound() []byte {
	h := &seg.Header
	le := binary.LittleEndian
	b := append(make([]byte, 0, headerBound), segmentMagic...)
	b = le.AppendUint16(b, FormatVersion)
	b = le.AppendUint16(b, EncryptedHeaderSize)
	b = le.AppendUint32(b, segmentEncrypted)
	b = le.AppendUint64(b, h.SystemID)
	b = le.AppendUint32(b, h.Stream)
	b = le.AppendUint32(b, h.ServerVersion)
	return le.AppendUint64(b, h.Number)
}

// all are all keys that are known, the one with that id having been asked for.
func (k *Keys) all(id KeyID) (keys [][KeySize]byte) {
	k.find(id, false)
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, key := range k.known {
			keys = append(keys, key)
		}
	}
	return keys
}

// decrypt decrypts the stored payload of a block.
func (b *Block) decrypt(stored []byte) ([]byte, error) {
	if len(stored) < nonceSize+tagSize {
		return nil, corruptf(8, "encrypted payload of %d bytes is too short", len(stored))
	}
	if n := len(stored); cap(b.plain) < n {
		b.plain = make([]byte, 0, n+n/8)
	}
	plain, err := b.segment.aead.Open(b.plain[:0], stored[:nonceSize], stored[nonceSize:], b.Image[:blockBound])
	if err != nil {
		return nil, corruptf(BlockHeaderSize, "payload cannot be decrypted: it, or its header, is not what the server wrote")
	}
	return plain, nil
}

// MissingKeys says why segments that have records of a time cannot be decrypted: one
// error for each key that is missing, and one for each segment with a damaged key part.
func (x *Index) MissingKeys(since, until int64) []error { return x.missingKeys(since, until, nil, nil) }

// hasWanted says whether a block of the segment that has records of a time is wanted.
// Headers are not encrypted.
func (s *SegmentIndex) hasWanted(since, until int64, wanted func(*BlockRef) bool) bool {
	refs, errs := s.refs()
	return len(errs) > 0 || slices.ContainsFunc(refs, func(r BlockRef) bool {
		return r.Records > 0 && r.LastEnd >= since && (r.FirstTime < until || until == MaxTime) && wanted(&r)
	})
}

// missingKeys does the same for wanted segments that have a wanted block, if not all are.
func (x *Index) missingKeys(since, until int64, segment func(*Segment) bool, wanted func(*BlockRef) bool) (errs []error) {
	of := map[KeyID]*MissingKeyError{}
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			s := &x.Streams[i].Segments[k]
			if s.Records == 0 || s.LastEnd < since || s.FirstTime >= until && until != MaxTime || s.Segment.KeyErr == nil || segment != nil && !segment(s.Segment) || wanted != nil && !s.hasWanted(since, until, wanted) {
				continue
			}
			var missing *MissingKeyError
			if !errors.As(s.Segment.KeyErr, &missing) {
				errs = append(errs, s.Segment.KeyErr)
			} else if known := of[missing.ID]; known != nil {
				known.More++
			} else {
				found := *missing
				of[missing.ID] = &found
				errs = append(errs, &found)
			}
		}
	}
	return errs
}
