// A value in all forms in which statements can have it, and where a text or a parameter has it.

package review

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
)

// value is what is looked for. Two texts are the same value if they are equal, or are the same
// number, uuid, date, time or address.
type value struct {
	text    string
	number  *big.Rat // nil: it is none
	integer int64
	isInt   bool
	uuid    []byte     // nil: it is none
	times   *time.Time // nil: it is none
	address netip.Addr
	digit   byte // of a number: its first digit that is not 0
}

// newValue finds the forms of a value.
func newValue(s string) *value {
	v := &value{text: s}
	if v.number = parseNumber(s); v.number != nil {
		if v.number.IsInt() && v.number.Num().IsInt64() {
			v.integer, v.isInt = v.number.Num().Int64(), true
		}
		v.digit = '0'
		if i := strings.IndexAny(s, "123456789"); i >= 0 && v.number.Sign() != 0 {
			v.digit = s[i]
		}
	}
	v.uuid = parseUUID(s)
	v.times = parseTime(s)
	v.address, _ = netip.ParseAddr(strings.TrimSuffix(strings.TrimSuffix(s, "/32"), "/128"))
	return v
}

var numberFormat = regexp.MustCompile(`^[+-]?([0-9][0-9_]*(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)

func parseNumber(s string) *big.Rat {
	s = strings.TrimSpace(s)
	const longest = 2000
	if len(s) == 0 || len(s) > longest || !numberFormat.MatchString(s) {
		return nil
	}
	s = strings.ReplaceAll(s, "_", "")
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

// moneyFormat is that of amounts: with a currency sign, or with commas between thousands.
var moneyFormat = regexp.MustCompile(`^([+-]?\(?)\p{Sc}?\s?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(\.[0-9]+)?\s?\p{Sc}?(\)?)$`)

// parseMoney reads an amount as type money writes it where commas separate thousands: -$1,234.50, or ($1,234.50).
func parseMoney(s string) *big.Rat {
	const longest = 60
	if len(s) > longest || strings.IndexByte(s, ',') < 0 && strings.IndexByte(s, '$') < 0 && !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) {
		return nil
	}
	m := moneyFormat.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return nil
	}
	n := parseNumber(strings.ReplaceAll(m[2], ",", "") + m[3])
	if n != nil && (strings.HasPrefix(m[1], "-") || m[4] != "") {
		n.Neg(n)
	}
	return n
}

// parseUUID reads the forms that PostgreSQL takes: in braces, and with hyphens after any four digits.
func parseUUID(s string) []byte {
	s = strings.TrimSpace(s)
	if len(s) < 32 || len(s) > 41 {
		return nil
	}
	if s[0] == '{' && s[len(s)-1] == '}' {
		s = s[1 : len(s)-1]
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return nil
	}
	return b
}

// timeFormats are those of dates and times, without and with a zone.
var timeFormats = []string{
	"2006-01-02", "20060102", "2006/01/02", "02.01.2006", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 MST",
}

// parseTime reads a date or a time, which is in UTC if it has no zone.
func parseTime(s string) *time.Time {
	s = strings.TrimSpace(s)
	if len(s) < 8 || len(s) > 40 || s[0] < '0' || s[0] > '9' {
		return nil
	}
	for _, f := range timeFormats {
		if t, err := time.Parse(f, s); err == nil {
			t = t.UTC()
			return &t
		}
	}
	return nil
}

// is says whether a text is the value as a whole.
func (v *value) is(s string) bool {
	if s == v.text {
		return true
	}
	if len(s) == 2+2*len(v.text) && strings.HasPrefix(s, `\x`) && strings.EqualFold(s[2:], hex.EncodeToString([]byte(v.text))) { // bytea
		return true
	}
	switch {
	case v.number != nil && strings.IndexByte(s, v.digit) >= 0:
		n := parseNumber(s)
		if n == nil {
			n = parseMoney(s)
		}
		if n != nil && n.Cmp(v.number) == 0 {
			return true
		}
	case v.uuid != nil && len(s) >= 32 && bytes.Equal(parseUUID(s), v.uuid):
		return true
	case v.address.IsValid():
		a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimSuffix(s, "/32"), "/128"))
		return err == nil && a.Unmap() == v.address.Unmap()
	}
	if v.times != nil {
		if t := parseTime(s); t != nil && t.Equal(*v.times) {
			return true
		}
	}
	// char(n) has blanks at its end
	return strings.TrimRight(s, " ") == v.text && v.text != ""
}

// deepest is how deep lists may be inside each other.
const deepest = 8

// inPart is where a value is that is not the whole of a string, nor an element of a list in it.
const inPart = "part of a string"

// in says whether a text is the value, or has it: as an element, see element, or as a word. The result says where: empty
// for nowhere.
func (v *value) in(s string) string {
	if where := v.element(s); where != "" {
		return where
	}
	if v.text != "" && v.isPart(s) {
		return inPart
	}
	return ""
}

// isPart says whether a text has the value as a word: in a URL, in XML, in a sentence. Of a number, the digits next to it are
// not those of a date, a version or the like.
func (v *value) isPart(s string) bool {
	if raw, ok := strings.CutPrefix(s, `\x`); ok && len(raw)%2 == 0 { // bytea, which may be text
		if b, err := hex.DecodeString(raw); err == nil && v.isPart(string(b)) {
			return true
		}
	}
	isDigit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	joins := func(at, next int) bool {
		return v.number != nil && at >= 0 && at < len(s) && strings.IndexByte(".,:-", s[at]) >= 0 && isDigit(next)
	}
	for from := 0; ; {
		i := strings.Index(s[from:], v.text)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(v.text)
		if (i == 0 || !isWordByte(s[i-1])) && (end == len(s) || !isWordByte(s[end])) && !joins(i-1, i-2) && !joins(end, end+1) {
			return true
		}
		from = i + 1
	}
}

// element says whether a text is the value or a list with it: an array, a row, JSON, or values with
// commas between. The result says where: empty for nowhere.
func (v *value) element(s string) string {
	if v.is(s) {
		return "value"
	}
	if len(s) < 2 || !v.possible(s) {
		return ""
	}
	t := strings.TrimSpace(s)
	if t == "" {
		return ""
	}
	if t[0] == '{' || t[0] == '[' || t[0] == '"' {
		if found, ok := v.inJSON(t); ok && found {
			return "element of JSON"
		}
	}
	if t[0] == '{' || t[0] == '(' || t[0] == '[' {
		if v.inList(t, 0) {
			return "element of a list"
		}
		return ""
	}
	if strings.IndexByte(t, ',') >= 0 {
		for part := range strings.SplitSeq(t, ",") {
			if v.is(strings.TrimSpace(part)) {
				return "element of a list"
			}
		}
	}
	return ""
}

// possible says quickly whether a text may have the value in it.
func (v *value) possible(s string) bool {
	switch {
	case v.number != nil:
		return strings.IndexByte(s, v.digit) >= 0
	case v.uuid != nil || v.times != nil || v.address.IsValid():
		return true
	}
	return strings.Contains(s, v.text) || strings.IndexByte(s, '\\') >= 0 || strings.Contains(s, `""`)
}

// inJSON looks at the leaves of JSON; ok says that it is JSON.
func (v *value) inJSON(s string) (found, ok bool) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return found, err.Error() == "EOF" && !d.More()
		}
		switch t := token.(type) {
		case string:
			found = found || v.is(t) || len(t) > 2 && strings.IndexByte("{[\"", t[0]) >= 0 && v.in(t) != "" // JSON in JSON
		case json.Number:
			found = found || v.is(t.String())
		}
	}
}

// inList looks at the elements of an array or a row: {a,"b c",{d}} or (a,"b c").
func (v *value) inList(s string, depth int) bool {
	if depth > deepest || len(s) < 2 {
		return false
	}
	var b []byte
	quoted := false
	end := func() bool {
		element := strings.TrimSpace(string(b))
		b = b[:0]
		return v.is(element) || len(element) > 2 && (element[0] == '{' || element[0] == '(') && v.inList(element, depth+1)
	}
	level := 0
	for i := 1; i < len(s)-1; i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s)-1:
			i++
			b = append(b, s[i])
		case c == '"':
			if quoted && i+1 < len(s)-1 && s[i+1] == '"' {
				b = append(b, '"')
				i++
			} else if level == 0 {
				quoted = !quoted
			} else {
				quoted = !quoted
				b = append(b, c)
			}
		case !quoted && (c == '{' || c == '('):
			level++
			b = append(b, c)
		case !quoted && (c == '}' || c == ')'):
			level--
			b = append(b, c)
		case !quoted && level == 0 && c == ',':
			if end() {
				return true
			}
		default:
			b = append(b, c)
		}
	}
	return end()
}

// ---- parameters ----

// isParam says where a parameter has the value. Most are told apart without making text of them.
func (v *value) isParam(p format.ParamType, raw []byte, buf *[]byte) string {
	le := binary.LittleEndian
	var n int64
	switch {
	case p.Repr == format.ReprInt4 && len(raw) == 4:
		n = int64(int32(le.Uint32(raw)))
	case p.Repr == format.ReprInt8 && len(raw) == 8:
		n = int64(le.Uint64(raw))
	case p.Repr == format.ReprInt2 && len(raw) == 2:
		n = int64(int16(le.Uint16(raw)))
	case p.Repr == format.ReprOID && len(raw) == 4:
		n = int64(le.Uint32(raw))
	case p.Repr == format.ReprUUID:
		if v.uuid != nil && bytes.Equal(raw, v.uuid) {
			return "value"
		}
		return ""
	case p.Repr == format.ReprNone:
		return ""
	case p.Repr == format.ReprText:
		return v.in(string(raw))
	default:
		*buf = format.AppendParam((*buf)[:0], p.Repr, raw)
		return v.in(string(*buf))
	}
	if v.isInt && n == v.integer {
		return "value"
	}
	return ""
}

// ---- literals ----

// inText says where the literals of an SQL text have the value. Comments and names are not looked at.
func (v *value) inText(text []byte) string { return v.inBody(text, 0) }

// inBody is inText for a text that is in so many strings.
func (v *value) inBody(text []byte, depth int) string {
	if !v.mayBeLiteral(text) {
		return ""
	}
	s := script{text: string(text)}
	part := "" // what is found only if nothing better is
	has := func(body string) string {
		where := v.in(body)
		if where == inPart {
			part = where
			return ""
		}
		return where
	}
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case c <= ' ':
			s.at++
		case strings.HasPrefix(rest, "--"):
			s.skipLine()
		case strings.HasPrefix(rest, "/*"):
			s.skipComment()
		case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
			n := numberLength(rest)
			s.at += n
			if v.isLiteralNumber(rest[:n]) {
				return "literal"
			}
		case (c == 'b' || c == 'B' || c == 'x' || c == 'X' || c == 'n' || c == 'N') && len(rest) > 1 && rest[1] == '\'':
			s.at++ // the string follows
		case (c == 'u' || c == 'U') && strings.HasPrefix(rest[1:], "&'"):
			body, n := quotedBody(rest[2:], '\'', false)
			s.at += n + 2
			body = s.continued(body)
			if has(unicodeEscapes(body)) != "" {
				return "literal"
			}
		case (c == 'e' || c == 'E') && len(rest) > 1 && rest[1] == '\'':
			n := escapedLength(rest[1:])
			s.at += n + 1
			body := rest[2:max(2, n)]
			for s.continues() {
				rest = s.text[s.at:]
				n = escapedLength(rest)
				s.at += n
				body += rest[1:max(1, n-1)]
			}
			if has(cEscapes(body)) != "" {
				return "literal"
			}
		case c == '$' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
			n := 1
			for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
				n++
			}
			s.at += n // a parameter
		default:
			if w := s.word(); w.str {
				if c == '\'' {
					w.text = s.continued(w.text)
				}
				switch where := has(w.text); {
				case where == "value":
					return "literal"
				case where != "":
					return where
				}
				if c == '$' && depth < deepest { // the body of a DO block
					if where := v.inBody([]byte(w.text), depth+1); where != "" && where != inPart {
						return "literal"
					}
				}
			}
		}
	}
	return part
}

// continues says whether a string goes on on another line, and moves to its quote.
func (s *script) continues() bool {
	at, line := s.at, false
	for s.at < len(s.text) {
		switch rest := s.text[s.at:]; {
		case rest[0] == '\n' || rest[0] == '\r':
			line = true
			s.at++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\f' || rest[0] == '\v':
			s.at++
		case strings.HasPrefix(rest, "--"):
			s.skipLine()
			line = true
		case rest[0] == '\'' && line:
			return true
		default:
			s.at = at
			return false
		}
	}
	s.at = at
	return false
}

// continued adds the lines on which a string goes on.
func (s *script) continued(body string) string {
	for s.continues() {
		more, n := quotedBody(s.text[s.at:], '\'', false)
		s.at += n
		body += more
	}
	return body
}

// continuedString finds strings that go on on another line.
var continuedString = regexp.MustCompile(`'\s*(--[^\n\r]*)?[\n\r]\s*(--|')`)

// otherBases finds numbers that are not decimal.
var otherBases = regexp.MustCompile(`0[xXoObB]`)

// mayBeLiteral says quickly whether a text can have the value.
func (v *value) mayBeLiteral(text []byte) bool {
	switch {
	case len(text) == 0:
		return false
	case v.number != nil && v.digit != '0':
		return bytes.IndexByte(text, v.digit) >= 0 || otherBases.Match(text) || bytes.IndexByte(text, '\\') >= 0
	case v.number != nil || v.uuid != nil || v.times != nil || v.address.IsValid():
		return true
	}
	return bytes.Contains(text, []byte(v.text)) || continuedString.Match(text) || bytes.IndexByte(text, '\\') >= 0 || bytes.Contains(text, []byte("''")) || bytes.Contains(text, []byte(`""`))
}

// isLiteralNumber compares a number of a text, whose sign is an operator before it.
func (v *value) isLiteralNumber(s string) bool {
	if v.number == nil {
		return s == v.text
	}
	var n *big.Rat
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		i, err := strconv.ParseUint(strings.ReplaceAll(strings.ToLower(s), "_", ""), 0, 63)
		if err != nil {
			return false
		}
		n = new(big.Rat).SetInt64(int64(i))
	} else if n = parseNumber(s); n == nil {
		return false
	}
	return n.Abs(n).Cmp(new(big.Rat).Abs(v.number)) == 0
}

// numberLength is the length of a number at the beginning of s.
func numberLength(s string) int {
	i := 0
	for i < len(s) {
		c := s[i]
		sign := (c == '+' || c == '-') && i > 0 && (s[i-1] == 'e' || s[i-1] == 'E') && !strings.HasPrefix(s, "0x") && !strings.HasPrefix(s, "0X")
		if !(isWordByte(c) || c == '.' || sign) {
			break
		}
		i++
	}
	return max(i, 1)
}

// skipComment skips a comment, which may have others in it.
func (s *script) skipComment() {
	depth := 0
	for s.at < len(s.text) {
		switch rest := s.text[s.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.at += 2
			if depth == 0 {
				return
			}
		default:
			s.at++
		}
	}
	s.unlike("its comment is not closed")
}

// escapedLength is the length of a string with backslashes, with its quotes.
func escapedLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == '\'':
			return i + 1
		}
	}
	return len(s)
}

// cEscapes resolves what is behind backslashes in E'...', and doubled quotes.
func cEscapes(s string) string {
	s = strings.ReplaceAll(s, "''", "'")
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		switch c := s[i]; {
		case strings.IndexByte("bfnrt", c) >= 0:
			b = append(b, "\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		case c == 'x' || c >= '0' && c <= '7' || c == 'u' || c == 'U':
			base, from, most := 16, i+1, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if most == 0 {
				base, from, most = 8, i, 3
			}
			end := from
			for end < len(s) && end-from < most && strings.IndexByte("0123456789abcdefABCDEF"[:map[int]int{8: 8, 16: 22}[base]], s[end]) >= 0 {
				end++
			}
			n, err := strconv.ParseUint(s[from:end], base, 32)
			switch {
			case err != nil:
				b = append(b, c)
				continue
			case c == 'u' || c == 'U':
				b = append(b, string(rune(n))...)
			default:
				b = append(b, byte(n))
			}
			i = end - 1
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// unicodeEscapes resolves \0041 and \+000041 in U&'...'.
func unicodeEscapes(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		digits := 4
		from := i + 1
		if s[i] == '\\' && from < len(s) && s[from] == '+' {
			digits, from = 6, i+2
		}
		if s[i] == '\\' && from+digits <= len(s) {
			if n, err := strconv.ParseUint(s[from:from+digits], 16, 32); err == nil {
				b = append(b, string(rune(n))...)
				i = from + digits - 1
				continue
			}
		}
		if s[i] == '\\' && i+1 < len(s) && s[i+1] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// forms says in words in which forms a value is looked for.
func (v *value) forms() []string {
	forms := []string{"text"}
	for _, f := range []struct {
		is   bool
		name string
	}{{v.number != nil, "number"}, {v.uuid != nil, "uuid"}, {v.times != nil, "date or time"}, {v.address.IsValid(), "network address"}} {
		if f.is {
			forms = append(forms, f.name)
		}
	}
	return slices.Clip(forms)
}
