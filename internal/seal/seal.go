// Package seal reads and checks seals, which are the writer's signatures of a stream's hash chain, their keys, and
// anchors, which are kept on another machine and state how far a stream had got. It uses format and trail, and writes
// no trail.
package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Reasons of seals that readers act upon.
const (
	ReasonStart   = "start"
	ReasonSegment = "segment"
	ReasonStop    = "stop"
	ReasonKey     = "key"
	ReasonEnd     = "end"
)

// Seal is the content of a seal.
type Seal struct {
	SystemID  uint64
	Stream    uint32
	Segment   uint64 // that contains the seal
	Block     uint64 // that is sealed
	Record    uint64
	First     uint64 // block of the run that sealed it
	Interval  uint32 // seconds
	Time      int64
	Hash      [32]byte
	Reason    string
	Key       string            // id
	NextKey   ed25519.PublicKey // of the seals after this one, nil for none
	Signature []byte
}

// signedSize is the length of what is signed.
const (
	domain     = "pg_steno seal v1"
	signedSize = 144
	reasonMax  = 8
)

// Bytes returns the signed bytes.
func (s *Seal) Bytes() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, signedSize), domain...)
	b = le.AppendUint64(b, s.SystemID)
	b = le.AppendUint32(b, s.Stream)
	b = le.AppendUint32(b, s.Interval)
	for _, v := range []uint64{s.Segment, s.Block, s.Record, s.First, uint64(s.Time)} {
		b = le.AppendUint64(b, v)
	}
	b = append(b, s.Hash[:]...)
	if s.NextKey != nil {
		b = append(b, s.NextKey...)
	} else {
		b = append(b, make([]byte, ed25519.PublicKeySize)...)
	}
	return append(append(b, s.Reason...), make([]byte, reasonMax-len(s.Reason))...)
}

// FromSigned decodes signed bytes, the opposite of Bytes; keyID is the binary ID of the key.
func FromSigned(b, keyID, signature []byte) (*Seal, error) {
	le := binary.LittleEndian
	if len(b) != signedSize || string(b[:len(domain)]) != domain || len(keyID) != 8 ||
		len(signature) != ed25519.SignatureSize {
		return nil, errors.New("not what is signed in a seal")
	}
	s := &Seal{
		SystemID:  le.Uint64(b[16:]),
		Stream:    le.Uint32(b[24:]),
		Interval:  le.Uint32(b[28:]),
		Segment:   le.Uint64(b[32:]),
		Block:     le.Uint64(b[40:]),
		Record:    le.Uint64(b[48:]),
		First:     le.Uint64(b[56:]),
		Time:      int64(le.Uint64(b[64:])),
		Hash:      [32]byte(b[72:]),
		Reason:    strings.TrimRight(string(b[136:]), "\x00"),
		Key:       hex.EncodeToString(keyID),
		Signature: bytes.Clone(signature),
	}
	if next := b[104:136]; !bytes.Equal(next, make([]byte, ed25519.PublicKeySize)) {
		s.NextKey = bytes.Clone(next)
	}
	if (s.NextKey != nil) != (s.Reason == ReasonKey) || !bytes.Equal(s.Bytes(), b) {
		return nil, errors.New("not what is signed in a seal")
	}
	return s, nil
}

// Verify reports whether the signature is that of a key.
func (s *Seal) Verify(key ed25519.PublicKey) bool {
	return len(s.Reason) <= reasonMax && ed25519.Verify(key, s.Bytes(), s.Signature)
}

// KeyID returns the ID of a key.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Parse reads a seal from its record, and from the header of the record's segment, which has the other signed values.
func Parse(r *format.Record, h *format.SegmentHeader) (*Seal, error) {
	s := &Seal{SystemID: h.SystemID, Stream: h.Stream, Segment: h.Number, Time: r.Time}
	values := map[string]string{}
	for name, value := range r.ExtraPairs {
		if _, twice := values[string(name)]; twice {
			return nil, fmt.Errorf("%s is duplicated", name)
		}
		values[string(name)] = string(value)
	}
	return s, s.setValues(values)
}

// setValues sets the values that do not follow from the place of a seal.
func (s *Seal) setValues(values map[string]string) (err error) {
	number := func(name string, bits int) uint64 {
		n, e := strconv.ParseUint(values[name], 10, bits)
		if err == nil && (e != nil || strconv.FormatUint(n, 10) != values[name]) {
			err = fmt.Errorf("%s is not a number: %q", name, values[name])
		}
		return n
	}
	digits := func(name string, bytes int) []byte {
		b, e := hex.DecodeString(values[name])
		if err == nil && (e != nil || len(b) != bytes || hex.EncodeToString(b) != values[name]) {
			err = fmt.Errorf("%s is not %d hexadecimal digits: %q", name, 2*bytes, values[name])
		}
		return b
	}
	s.Block, s.Record, s.First = number("block", 64), number("record", 64), number("first", 64)
	s.Interval = uint32(number("interval", 32))
	copy(s.Hash[:], digits("hash", 32))
	s.Key = hex.EncodeToString(digits("key", 8))
	s.Signature = digits("signature", ed25519.SignatureSize)
	if _, ok := values["next_key"]; ok {
		s.NextKey = digits("next_key", ed25519.PublicKeySize)
	}
	s.Reason = values["reason"]
	if err == nil && (s.Reason == "" || len(s.Reason) > reasonMax) {
		err = fmt.Errorf("reason is %q", s.Reason)
	}
	if err == nil && (s.NextKey != nil) != (s.Reason == ReasonKey) {
		err = errors.New("a next key requires reason \"key\", and vice versa")
	}
	return err
}
