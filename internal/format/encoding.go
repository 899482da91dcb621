// Texts in the encodings of their databases, shown as UTF-8.

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

// What a session has written is in the encoding of its database. Readers are shown
// UTF-8, of which nothing is lost and nothing is ambiguous: a byte that cannot be
// decoded is U+FFFD and its two hexadecimal digits, and a U+FFFD of the text is
// doubled. What all databases share, such as roles, has a name in no encoding that is known.

// encodings.txt has what PostgreSQL converts characters to, of the encodings that this
// program decodes: the encoding, a first code, and what the 16 codes from there on are in
// Unicode, in hexadecimal. "-": nothing, or nothing that is converted back to this code.
// Where two codes have one character, that is the second one: it is shown by its bytes.
// extension/t/encodings_are_decoded.pl compares the file with a server.
//
//go:embed encodings.txt
var encodings string

// charsets are these encodings, by PostgreSQL's names. Of others, and of SQL_ASCII, only
// ASCII is decoded.
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
				one := bytes.Clone(code)
				one[len(one)-1] += byte(i)
				c.chars[string(one)] = string(rune(r))
			}
		}
	}
	return all
})

// undecoded is the charset of those that are not known.
var undecoded = &charset{}

// charset decodes an encoding, character by character.
type charset struct {
	chars map[string]string // of each code that is not ASCII
}

// charsetOf is the charset of an encoding's name; nil is UTF-8.
func charsetOf(name []byte) *charset {
	if len(name) == 0 || string(name) == "UTF8" {
		return nil
	}
	if c := charsets()[string(name)]; c != nil {
		return c
	}
	return undecoded
}

// maxChar is the longest character of a charset.
const maxChar = 3

// char decodes the character that bytes begin with, which are not ASCII.
func (c *charset) char(b []byte) (decoded string, n int) {
	for n := 1; n <= min(maxChar, len(b)); n++ {
		if s := c.chars[string(b[:n])]; s != "" {
			return s, n
		}
	}
	return "", 1
}

const replacement = "\uFFFD"

// shown is text as it is shown; the same bytes when nothing changes.
func (c *charset) shown(b []byte) []byte {
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

// view is what the definitions of a block that are not plain ASCII look like when they
// are shown.
type view struct {
	size     int // of the texts
	sessions map[int]*Session
	texts    map[int]viewText
	shapes   map[int]viewShape
}

// maxView bounds the texts that are kept as they are shown.
const maxView = 8 << 20

type viewText struct {
	charset *charset
	text    []byte
}

type viewShape struct {
	charset *charset
	shape   *Shape
}

// Show makes a record's strings what they are shown as. Sessions of different encodings
// can share a definition: only for the first one its index is kept, for others it is -1.
func (b *Block) Show(r *Record) {
	r.charset, r.isShown = r.Session.charset(), true
	r.Message, r.SQLState = r.charset.shown(r.Message), r.charset.shown(r.SQLState)
	if !r.Session.plain {
		s := b.view.sessions[r.SessionIndex]
		if s == nil {
			s = r.Session.shown(r.charset)
			put(&b.view.sessions, r.SessionIndex, s)
		}
		r.Session = s
	}
	if r.ShapeIndex < 0 && r.Shape != nil {
		r.Shape = r.Shape.shown(r.charset)
	} else if r.Shape != nil && !r.Shape.plain {
		v, ok := b.view.shapes[r.ShapeIndex]
		if !ok {
			v = viewShape{r.charset, r.Shape.shown(r.charset)}
			put(&b.view.shapes, r.ShapeIndex, v)
		}
		if v.charset == r.charset {
			r.Shape = v.shape
		} else {
			r.Shape, r.ShapeIndex = r.Shape.shown(r.charset), -1
		}
	}
	switch {
	case r.TextIndex < 0:
		r.Text = r.charset.shown(r.Text)
	case !b.textPlain[r.TextIndex]:
		v, ok := b.view.texts[r.TextIndex]
		if !ok && b.view.size > maxView {
			r.Text, r.TextIndex = r.charset.shown(r.Text), -1
			return
		} else if !ok {
			v = viewText{r.charset, r.charset.shown(r.Text)}
			b.view.size += len(v.text)
			put(&b.view.texts, r.TextIndex, v)
		}
		if v.charset == r.charset {
			r.Text = v.text
		} else {
			r.Text, r.TextIndex = r.charset.shown(r.Text), -1
		}
	}
}

func put[V any](m *map[int]V, i int, v V) {
	if *m == nil {
		*m = map[int]V{}
	}
	(*m)[i] = v
}

// isPlain says whether a session is shown as it is.
func (s *Session) isPlain() bool {
	for _, fact := range s.facts {
		if !isASCII(fact) {
			return false
		}
	}
	return true
}

// isPlain says whether a shape is shown as it is.
func (s *Shape) isPlain() bool {
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

func (s *Session) shown(c *charset) *Session {
	out := *s
	for i := range out.facts {
		switch Key(i) {
		case KeyUser, KeyRole, KeyDatabase, KeyIdentity:
			out.facts[i] = c.ofName(s.facts[i]).shown(s.facts[i])
		default:
			out.facts[i] = c.shown(s.facts[i])
		}
	}
	return &out
}

// ofName is the charset of the name of something that all databases share: it is in the
// encoding of the database in which it was made, whichever that was. Bytes of another one are
// hardly ever valid as UTF-8.
func (c *charset) ofName(name []byte) *charset {
	if utf8.Valid(name) {
		return nil
	}
	return c
}

// sharedTypes are the types of objects that all databases share.
var sharedTypes = []string{"role", "database", "tablespace", "subscription"}

func (s *Shape) shown(c *charset) *Shape {
	out := *s
	out.Command, out.Query, out.Prepared = c.shown(s.Command), c.shown(s.Query), c.shown(s.Prepared)
	out.Relations = make([]Relation, len(s.Relations))
	for i, r := range s.Relations {
		r.Name = c.shown(r.Name)
		r.Columns = slices.Clone(r.Columns)
		for k := range r.Columns {
			r.Columns[k].Name = c.shown(r.Columns[k].Name)
		}
		out.Relations[i] = r
	}
	out.Objects = make([]Object, len(s.Objects))
	for i, o := range s.Objects {
		if slices.Contains(sharedTypes, string(o.Type)) {
			o.Name, o.To = c.ofName(o.Name).shown(o.Name), c.ofName(o.To).shown(o.To)
		} else {
			o.Name, o.To = c.shown(o.Name), c.shown(o.To)
		}
		o.Type = c.shown(o.Type)
		out.Objects[i] = o
	}
	return &out
}
