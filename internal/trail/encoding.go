// Texts in the encodings of their databases, shown as UTF-8.

package trail

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// What a session has written is in the encoding of its database. Readers are shown
// UTF-8, of which nothing is lost and nothing is ambiguous: a byte that cannot be
// decoded is U+FFFD and its two hexadecimal digits, and a U+FFFD of the text is
// doubled. What all databases share, such as roles, has a name in no encoding that is known.

// charsets are the encodings of databases that this program decodes, by PostgreSQL's
// names. Of others, and of SQL_ASCII, only ASCII is.
var charsets = map[string]*charset{
	"LATIN1": {e: charmap.ISO8859_1}, "LATIN2": {e: charmap.ISO8859_2}, "LATIN3": {e: charmap.ISO8859_3},
	"LATIN4": {e: charmap.ISO8859_4}, "LATIN5": {e: charmap.ISO8859_9}, "LATIN6": {e: charmap.ISO8859_10},
	"LATIN7": {e: charmap.ISO8859_13}, "LATIN8": {e: charmap.ISO8859_14}, "LATIN9": {e: charmap.ISO8859_15},
	"LATIN10": {e: charmap.ISO8859_16}, "ISO_8859_5": {e: charmap.ISO8859_5}, "ISO_8859_6": {e: charmap.ISO8859_6},
	"ISO_8859_7": {e: charmap.ISO8859_7}, "ISO_8859_8": {e: charmap.ISO8859_8},
	"WIN1250": {e: charmap.Windows1250}, "WIN1251": {e: charmap.Windows1251}, "WIN1252": {e: charmap.Windows1252},
	"WIN1253": {e: charmap.Windows1253}, "WIN1254": {e: charmap.Windows1254}, "WIN1255": {e: charmap.Windows1255},
	"WIN1256": {e: charmap.Windows1256}, "WIN1257": {e: charmap.Windows1257}, "WIN1258": {e: charmap.Windows1258},
	"WIN866": {e: charmap.CodePage866}, "WIN874": {e: charmap.Windows874},
	"KOI8R": {e: charmap.KOI8R}, "KOI8U": {e: charmap.KOI8U},
	"EUC_JP": {e: japanese.EUCJP}, "EUC_KR": {e: korean.EUCKR}, "EUC_CN": {e: simplifiedchinese.GBK, euc: true},
}

// undecoded is the charset of those that are not known.
var undecoded = &charset{}

// charset decodes an encoding, character by character.
type charset struct {
	e   encoding.Encoding
	euc bool // all bytes of a character are above 0xa0: the decoder knows others, too

	mu    sync.Mutex
	known map[string]string // characters that were decoded; empty: cannot be
}

// charsetOf is the charset of an encoding's name; nil is UTF-8.
func charsetOf(name []byte) *charset {
	if len(name) == 0 || string(name) == "UTF8" {
		return nil
	}
	if c := charsets[string(name)]; c != nil {
		return c
	}
	return undecoded
}

// maxChar is the longest character of a charset.
const maxChar = 3

// char decodes the character that bytes begin with, which are not ASCII. It counts only
// when its code is these bytes again: several codes can have one character.
func (c *charset) char(b []byte) (decoded string, n int) {
	if c.e == nil {
		return "", 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 1; n <= min(maxChar, len(b)); n++ {
		s, ok := c.known[string(b[:n])]
		if !ok {
			s = c.decode(b[:n])
			if c.known == nil {
				c.known = map[string]string{}
			}
			// a bound for sequences of any bytes
			if len(c.known) < 1<<17 {
				c.known[string(b[:n])] = s
			}
		}
		if s != "" {
			return s, n
		}
	}
	return "", 1
}

func (c *charset) decode(b []byte) string {
	if c.euc {
		for _, one := range b {
			if one <= 0xa0 {
				return ""
			}
		}
	}
	s, err := c.e.NewDecoder().Bytes(b)
	if err != nil || utf8.RuneCount(s) != 1 || bytes.ContainsRune(s, utf8.RuneError) || s[0] < utf8.RuneSelf {
		return ""
	}
	back, err := c.e.NewEncoder().Bytes(s)
	if err != nil || !bytes.Equal(back, b) {
		return ""
	}
	return string(s)
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

// show makes a record's strings what they are shown as. Sessions of different encodings
// can share a definition: only for the first one its index is kept, for others it is -1.
func (b *Block) show(r *Record) {
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
