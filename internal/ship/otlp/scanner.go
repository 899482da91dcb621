// Encoding a log record from JSON as the product writes it, without blanks, to protobuf. What is written in another
// way, or is not known here, is left to the official library, which is also the judge of this in tests.

package otlp

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// kind is how a value is encoded.
type kind int

const (
	kindString kind = iota
	kindBool
	kindInt     // varint; in JSON a number, or one in a string
	kindFixed64 // the same, in eight bytes
	kindMessage // or an array of them
)

type field struct {
	number protowire.Number
	kind   kind
	of     *message
}

// message has the fields of a message by their names in JSON.
type message map[string]field

// The messages of opentelemetry/proto/common/v1 and logs/v1, as far as the product writes them.
var (
	anyValue  = message{}
	keyValue  = message{"key": {1, kindString, nil}, "value": {2, kindMessage, &anyValue}}
	logRecord = message{
		"timeUnixNano": {1, kindFixed64, nil}, "severityNumber": {2, kindInt, nil}, "severityText": {3, kindString, nil},
		"body": {5, kindMessage, &anyValue}, "attributes": {6, kindMessage, &keyValue},
		"observedTimeUnixNano": {11, kindFixed64, nil}, "eventName": {12, kindString, nil},
	}
)

func init() { // values contain values
	anyValue["stringValue"] = field{1, kindString, nil}
	anyValue["boolValue"] = field{2, kindBool, nil}
	anyValue["intValue"] = field{3, kindInt, nil}
	anyValue["arrayValue"] = field{5, kindMessage, &message{"values": {1, kindMessage, &anyValue}}}
	anyValue["kvlistValue"] = field{6, kindMessage, &message{"values": {1, kindMessage, &keyValue}}}
}

// scanner reads JSON. After a failure it reads nothing more.
type scanner struct {
	in     []byte
	at     int
	depth  int
	failed bool
}

// maxDepth bounds values inside values.
const maxDepth = 50

// is consumes a byte if it is the next one.
func (s *scanner) is(c byte) bool {
	if s.failed || s.at >= len(s.in) || s.in[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) need(c byte) {
	if !s.is(c) {
		s.failed = true
	}
}

// message appends an object as a field with this number.
func (s *scanner) message(dst []byte, number protowire.Number, of *message) []byte {
	if s.depth++; s.depth > maxDepth {
		s.failed = true
	}
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	begin := len(dst)
	s.need('{')
	for first := true; !s.failed && !s.is('}'); first = false {
		if !first {
			s.need(',')
		}
		name := s.name()
		s.need(':')
		f, known := (*of)[string(name)]
		if !known {
			s.failed = true
		} else if !s.failed {
			dst = s.value(dst, f)
		}
	}
	s.depth--
	return insertLength(dst, begin)
}

// insertLength inserts the length of what begins there.
func insertLength(dst []byte, begin int) []byte {
	n := len(dst) - begin
	size := protowire.SizeVarint(uint64(n))
	var room [10]byte
	dst = append(dst, room[:size]...)
	copy(dst[begin+size:], dst[begin:begin+n])
	protowire.AppendVarint(dst[:begin], uint64(n))
	return dst
}

// name reads a name without escapes.
func (s *scanner) name() []byte {
	s.need('"')
	n := bytes.IndexByte(s.in[s.at:], '"')
	if s.failed || n < 0 {
		s.failed = true
		return nil
	}
	name := s.in[s.at : s.at+n]
	s.at += n + 1
	return name // one with a backslash is not known
}

func (s *scanner) value(dst []byte, f field) []byte {
	switch f.kind {
	case kindMessage:
		if !s.is('[') {
			return s.message(dst, f.number, f.of)
		}
		for first := true; !s.failed && !s.is(']'); first = false {
			if !first {
				s.need(',')
			}
			dst = s.message(dst, f.number, f.of)
		}
		return dst
	case kindString:
		dst = protowire.AppendTag(dst, f.number, protowire.BytesType)
		begin := len(dst)
		dst = s.text(dst)
		return insertLength(dst, begin)
	case kindBool:
		dst = protowire.AppendTag(dst, f.number, protowire.VarintType)
		for i, word := range []string{"false", "true"} {
			if bytes.HasPrefix(s.in[s.at:], []byte(word)) {
				s.at += len(word)
				return protowire.AppendVarint(dst, uint64(i))
			}
		}
		s.failed = true
		return dst
	case kindFixed64:
		return protowire.AppendFixed64(protowire.AppendTag(dst, f.number, protowire.Fixed64Type), s.number())
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, f.number, protowire.VarintType), s.number())
}

// number reads a whole number, which may be in quotes.
func (s *scanner) number() uint64 {
	quoted := s.is('"')
	begin := s.at
	for s.at < len(s.in) && (s.in[s.at] == '-' || s.in[s.at] >= '0' && s.in[s.at] <= '9') {
		s.at++
	}
	n, err := strconv.ParseInt(string(s.in[begin:s.at]), 10, 64)
	if err != nil {
		s.failed = true
	}
	if quoted {
		s.need('"')
	}
	return uint64(n)
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// text appends a string.
func (s *scanner) text(dst []byte) []byte {
	s.need('"')
	begin := len(dst)
	for !s.failed {
		from := s.at
		for s.at < len(s.in) && s.in[s.at] != '"' && s.in[s.at] != '\\' && s.in[s.at] >= ' ' {
			s.at++
		}
		dst = append(dst, s.in[from:s.at]...)
		if s.is('"') {
			break
		}
		s.need('\\')
		if s.failed || s.at >= len(s.in) {
			s.failed = true
			break
		}
		c := s.in[s.at]
		s.at++
		switch {
		case c == 'u':
			dst = utf8.AppendRune(dst, s.rune())
		case escapes[c] != 0:
			dst = append(dst, escapes[c])
		default:
			s.failed = true
		}
	}
	if !utf8.Valid(dst[begin:]) {
		s.failed = true
	}
	return dst
}

// rune reads the four digits of an escape, and the second half of a pair.
func (s *scanner) rune() rune {
	high := s.digits()
	if !utf16.IsSurrogate(high) {
		return high
	}
	s.need('\\')
	s.need('u')
	r := utf16.DecodeRune(high, s.digits())
	if r == utf8.RuneError {
		s.failed = true
	}
	return r
}

func (s *scanner) digits() rune {
	if s.failed || len(s.in)-s.at < 4 {
		s.failed = true
		return 0
	}
	n, err := strconv.ParseUint(string(s.in[s.at:s.at+4]), 16, 16)
	if err != nil {
		s.failed = true
	}
	s.at += 4
	return rune(n)
}
