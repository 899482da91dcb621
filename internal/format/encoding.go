// Conversion of texts from the encodings of their databases to UTF-8.

package format

import (
	"bytes"
	_ "embed" // encodings.txt
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// What a session has written is in the encoding of its database. Readers get UTF-8, without losses and
// ambiguities: a byte that cannot be decoded becomes U+FFFD and its two hexadecimal digits, and a U+FFFD in the
// text is doubled. Of names of objects that all databases share, such as roles, the encoding is not known.

// encodings.txt has what PostgreSQL converts characters to, of the encodings that this
// program decodes: the encoding, a first code, and what the 16 codes from there on are in
// Unicode, in hexadecimal. "-": nothing, or nothing that is converted back to this code.
// Where two codes have one character, that is the second one: it is shown by its bytes.
// extension/t/encodings_are_decoded.pl compares the file with a server.
//
//go:embed encodings.txt
var encodings string

// charsets has the charsets of encodings.txt, by PostgreSQL's names of encodings. Of other encodings, and of
// SQL_ASCII, only ASCII is decoded.
var charsets = sync.OnceValue(func() map[string]*charset {
	all := map[string]*charset{}
	for line := range strings.Lines(encodings) {
		fields := strings.Fields(line)
		c := all[fields[0]]
		if c == nil {
			c = &charset{chars: map[string]string{}}
			all[fields[0]] = c
		}
		code, _ := hex.DecodeString(fields[1])
		for i, point := range fields[2:] {
			if r, err := strconv.ParseUint(point, 16, 32); err == nil {
				char := bytes.Clone(code)
				char[len(char)-1] += byte(i)
				c.chars[string(char)] = string(rune(r))
			}
		}
	}
	return all
})

// undecoded is the charset of all other encodings.
var undecoded = &charset{}

// charset decodes an encoding, character by character.
type charset struct {
	chars map[string]string // by code; without ASCII
}

// charsetOf returns the charset of an encoding; nil: UTF-8.
func charsetOf(name []byte) *charset {
	if len(name) == 0 || string(name) == "UTF8" {
		return nil
	}
	if c := charsets()[string(name)]; c != nil {
		return c
	}
	return undecoded
}

// maxChar is the longest code of a character, in bytes.
const maxChar = 3

// char decodes the first character of bytes, which is not ASCII.
func (c *charset) char(b []byte) (decoded string, n int) {
	for n := 1; n <= min(maxChar, len(b)); n++ {
		if s := c.chars[string(b[:n])]; s != "" {
			return s, n
		}
	}
	return "", 1
}

const replacement = "\uFFFD"

// decode returns text in UTF-8; the same slice if nothing changes.
func (c *charset) decode(b []byte) []byte {
	if isASCII(b) || c == nil && utf8.Valid(b) && !bytes.Contains(b, []byte(replacement)) {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/2+8)
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			n := 1
			for n < len(b) && b[n] < utf8.RuneSelf {
				n++
			}
			out, b = append(out, b[:n]...), b[n:]
			continue
		}
		n := 1
		if c == nil {
			var r rune
			r, n = utf8.DecodeRune(b)
			if r != utf8.RuneError || n > 1 {
				if out = append(out, b[:n]...); r == utf8.RuneError {
					out = append(out, replacement...)
				}
				b = b[n:]
				continue
			}
		} else if s, length := c.char(b); s != "" {
			out, b = append(out, s...), b[length:]
			continue
		}
		out = appendHexBytes(append(out, replacement...), b[:n])
		b = b[n:]
	}
	return out
}

func isASCII(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// decodedStrings keeps the decoded copies of a block's definitions that are not ASCII.
type decodedStrings struct {
	size     int // of the texts
	sessions map[int]*Session
	texts    map[int]decodedText
	shapes   map[int]decodedShape
}

// maxDecoded is the limit for the decoded texts that are kept.
const maxDecoded = 8 << 20

type decodedText struct {
	charset *charset
	text    []byte
}

type decodedShape struct {
	charset *charset
	shape   *Shape
}

// DecodeStrings converts a record's strings to UTF-8. Sessions with different encodings can share a definition.
// The decoded copy for the first encoding is kept by the definition's index; records in other encodings get an
// index of -1.
func (b *Block) DecodeStrings(r *Record) {
	r.charset, r.isDecoded = r.Session.charset(), true
	r.Message, r.SQLState = r.charset.decode(r.Message), r.charset.decode(r.SQLState)
	if !r.Session.ascii {
		s := b.decoded.sessions[r.SessionIndex]
		if s == nil {
			s = r.Session.decode(r.charset)
			put(&b.decoded.sessions, r.SessionIndex, s)
		}
		r.Session = s
	}
	if r.ShapeIndex < 0 && r.Shape != nil {
		r.Shape = r.Shape.decode(r.charset)
	} else if r.Shape != nil && !r.Shape.ascii {
		v, ok := b.decoded.shapes[r.ShapeIndex]
		if !ok {
			v = decodedShape{r.charset, r.Shape.decode(r.charset)}
			put(&b.decoded.shapes, r.ShapeIndex, v)
		}
		if v.charset == r.charset {
			r.Shape = v.shape
		} else {
			r.Shape, r.ShapeIndex = r.Shape.decode(r.charset), -1
		}
	}
	switch {
	case r.TextIndex < 0:
		r.Text = r.charset.decode(r.Text)
	case !b.textASCII[r.TextIndex]:
		v, ok := b.decoded.texts[r.TextIndex]
		if !ok && b.decoded.size > maxDecoded {
			r.Text, r.TextIndex = r.charset.decode(r.Text), -1
			return
		} else if !ok {
			v = decodedText{r.charset, r.charset.decode(r.Text)}
			b.decoded.size += len(v.text)
			put(&b.decoded.texts, r.TextIndex, v)
		}
		if v.charset == r.charset {
			r.Text = v.text
		} else {
			r.Text, r.TextIndex = r.charset.decode(r.Text), -1
		}
	}
}

func put[V any](m *map[int]V, i int, v V) {
	if *m == nil {
		*m = map[int]V{}
	}
	(*m)[i] = v
}

// isASCII returns whether decoding does not change the session.
func (s *Session) isASCII() bool {
	for _, fact := range s.facts {
		if !isASCII(fact) {
			return false
		}
	}
	return true
}

// isASCII returns whether decoding does not change the shape.
func (s *Shape) isASCII() bool {
	for i := range s.Relations {
		if !isASCII(s.Relations[i].Name) {
			return false
		}
		for _, column := range s.Relations[i].Columns {
			if !isASCII(column.Name) {
				return false
			}
		}
	}
	for i := range s.Objects {
		if o := &s.Objects[i]; !isASCII(o.Type) || !isASCII(o.Name) || !isASCII(o.To) {
			return false
		}
	}
	return isASCII(s.Command) && isASCII(s.Query) && isASCII(s.Prepared)
}

func (s *Session) charset() *charset { return charsetOf(s.facts[KeyEncoding]) }

func (s *Session) decode(c *charset) *Session {
	out := *s
	for i := range out.facts {
		switch Key(i) {
		case KeyUser, KeyRole, KeyDatabase, KeyIdentity:
			out.facts[i] = c.forName(s.facts[i]).decode(s.facts[i])
		default:
			out.facts[i] = c.decode(s.facts[i])
		}
	}
	return &out
}

// forName returns the charset for the name of an object that all databases share. It is in the encoding of the
// database in which the object was created, which is not known. Names in other encodings are hardly ever valid
// UTF-8, so valid UTF-8 is taken as such.
func (c *charset) forName(name []byte) *charset {
	if utf8.Valid(name) {
		return nil
	}
	return c
}

// sharedTypes are the types of objects that all databases share.
var sharedTypes = []string{"role", "database", "tablespace", "subscription"}

func (s *Shape) decode(c *charset) *Shape {
	out := *s
	out.Command, out.Query, out.Prepared = c.decode(s.Command), c.decode(s.Query), c.decode(s.Prepared)
	out.Relations = make([]Relation, len(s.Relations))
	for i, r := range s.Relations {
		r.Name = c.decode(r.Name)
		r.Columns = slices.Clone(r.Columns)
		for k := range r.Columns {
			r.Columns[k].Name = c.decode(r.Columns[k].Name)
		}
		out.Relations[i] = r
	}
	out.Objects = make([]Object, len(s.Objects))
	for i, o := range s.Objects {
		if slices.Contains(sharedTypes, string(o.Type)) {
			o.Name, o.To = c.forName(o.Name).decode(o.Name), c.forName(o.To).decode(o.To)
		} else {
			o.Name, o.To = c.decode(o.Name), c.decode(o.To)
		}
		o.Type = c.decode(o.Type)
		out.Objects[i] = o
	}
	return &out
}
