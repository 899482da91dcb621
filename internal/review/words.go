// Splits SQL and psql commands into words, and quotes names.

package review

import (
	"fmt"
	"slices"
	"strings"
)

// word is a token of SQL: a name, without its quotes or in lower case, a string, or a symbol.
type word struct {
	text     string
	quoted   bool   // a name in double quotes
	isString bool   // a string
	raw      string // as it is written, of a name without quotes
}

// is reports whether the word is this keyword or symbol.
func (w word) is(s string) bool { return !w.quoted && !w.isString && w.text == s }

// isName reports whether the word can be a name.
func (w word) isName() bool {
	return w.quoted || !w.isString && w.text != "" && (w.text[0] == '_' || w.text[0] >= 'a' && w.text[0] <= 'z' ||
		w.text[0] >= 0x80)
}

// isPlainName reports whether the server accepts the word as a name: not a keyword without quotes.
func (w word) isPlainName() bool {
	return w.isName() && (w.quoted || !slices.Contains(reserved, w.text))
}

// script splits SQL into statements.
type script struct {
	text         string
	pos          int
	begin        int    // where the statement begins that next returned
	unlikeReason string // see noteUnlike
}

// next returns the words of the next statement, or a psql command, which begins with a backslash.
func (s *script) next() (words []word, more bool) {
	s.unlikeReason = ""
	depth := 0
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		rest := s.text[s.pos:]
		switch {
		case s.skipBlank():
		case c == '\\':
			line, _, _ := strings.Cut(rest, "\n")
			if len(words) == 0 {
				s.begin = s.pos
				s.pos += len(line)
				return lineWords(line), true
			}
			s.pos += len(line) // psql sends the statement before it
			s.noteUnlike("%s stands in a statement", strings.TrimSpace(line))
			return append(words, word{text: strings.TrimSpace(line)}), true
		case strings.HasPrefix(rest, "::"):
			s.pos += len("::")
			words = append(words, word{text: "::"})
		case c == ';':
			s.pos++
			if depth != 0 {
				s.noteUnlike("its parentheses do not match")
			}
			if len(words) > 0 {
				if words[0].is("copy") && words[len(words)-1].is("stdin") {
					s.skipTo("\n\\.")
				}
				return words, true
			}
		default:
			if len(words) == 0 {
				s.begin = s.pos
			}
			switch c {
			case ':':
				s.noteUnlike("psql may put the value of a variable in the place of %s",
					strings.SplitN(rest, "\n", 2)[0])
			case '(':
				depth++
			case ')':
				depth--
			}
			words = append(words, s.word())
		}
	}
	if depth != 0 {
		s.noteUnlike("its parentheses do not match")
	}
	return words, len(words) > 0
}

// noteUnlike notes text that psql and the server may read differently than this code. A script whose effect must be
// known is then refused; names and dumps have no such text.
func (s *script) noteUnlike(format string, args ...any) {
	if s.unlikeReason == "" {
		s.unlikeReason = fmt.Sprintf(format, args...)
	}
}

// lineWords returns the words of a psql command.
func lineWords(line string) []word {
	command, rest, _ := strings.Cut(line, " ")
	inside := script{text: rest}
	words, _ := inside.next()
	return append([]word{{text: command}}, words...)
}

// skipBlank skips a blank or a comment, and reports whether there was one.
func (s *script) skipBlank() bool {
	switch rest := s.text[s.pos:]; {
	case rest == "":
		return false
	case strings.IndexByte(" \t\n\r", rest[0]) >= 0:
		s.pos++
	case strings.HasPrefix(rest, "--"):
		s.skipLine()
	case strings.HasPrefix(rest, "/*"):
		s.skipComment()
	default:
		return false
	}
	return true
}

// skipLine skips the rest of a line, which a carriage return ends, too.
func (s *script) skipLine() {
	if i := strings.IndexAny(s.text[s.pos:], "\n\r"); i >= 0 {
		s.pos += i + 1
	} else {
		s.pos = len(s.text)
	}
}

func (s *script) skipTo(end string) {
	if i := strings.Index(s.text[s.pos:], end); i >= 0 {
		s.pos += i + len(end)
	} else {
		s.pos = len(s.text)
	}
}

// word reads a token; there must be one.
func (s *script) word() word {
	rest := s.text[s.pos:]
	c := rest[0]
	switch {
	case c == '"' || c == '\'':
		body, n := quotedBody(rest, c, false)
		s.pos += n
		if c == '\'' && strings.Contains(body, `\`) {
			s.noteUnlike("how the server reads a backslash in a string depends on its settings")
		}
		if strings.Count(rest[:n], string(c))%2 != 0 {
			s.noteUnlike("its quote is not closed")
		}
		return word{text: body, quoted: c == '"', isString: c == '\''}
	case (c == 'E' || c == 'e') && len(rest) > 1 && rest[1] == '\'':
		body, n := quotedBody(rest[1:], '\'', true)
		s.pos += n + 1
		s.noteUnlike("strings with escapes are not read")
		return word{text: body, isString: true}
	case c == '$':
		if tag := dollarTag(rest); tag != "" {
			body, _, closed := strings.Cut(rest[len(tag):], tag)
			if !closed {
				s.noteUnlike("its quote %s is not closed", tag)
			}
			s.pos += min(len(rest), len(body)+2*len(tag))
			return word{text: body, isString: true}
		}
	case isWordByte(c):
		n := 1
		for n < len(rest) && (isWordByte(rest[n]) || rest[n] == '$') {
			n++
		}
		s.pos += n
		return word{text: lowerASCII(rest[:n]), raw: rest[:n]}
	}
	s.pos++
	return word{text: rest[:1]}
}

// lowerASCII folds a name without quotes as the server does.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// quotedBody returns the quoted text at the beginning of s, and its length with the quotes.
func quotedBody(s string, quote byte, escapes bool) (string, int) {
	var b []byte
	for i := 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\' && i+1 < len(s):
			i++
			b = append(b, s[i])
		case s[i] != quote:
			b = append(b, s[i])
		case i+1 < len(s) && s[i+1] == quote:
			b = append(b, quote)
			i++
		default:
			return string(b), i + 1
		}
	}
	return string(b), len(s)
}

// dollarTag returns the $tag$ at the beginning of s; empty if there is none.
func dollarTag(s string) string {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '$':
			return s[:i+1]
		case !isWordByte(s[i]) || i == 1 && s[i] >= '0' && s[i] <= '9':
			return ""
		}
	}
	return ""
}

// ---- names ----

// schemaOf returns the schema of a qualified name, as it is written; empty if it has none.
func schemaOf(name string) string {
	quoted := false
	for i, c := range []byte(name) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			return name[:i]
		}
	}
	return ""
}

// QuoteName returns a name as SQL writes it, like quote_ident(), but treats the keywords of all versions of the
// server alike.
func QuoteName(s string) string {
	for i, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
	}
	if s == "" || slices.Contains(reserved, s) {
		return `"` + s + `"`
	}
	return s
}

// reserved are the keywords that quote_ident() puts in quotes: all that are not unreserved.
var reserved = strings.Fields(`all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
char character check coalesce collate collation column concurrently constraint create cross current_catalog current_date current_role current_schema
current_time current_timestamp current_user dec decimal default deferrable desc distinct do else end except exists extract false fetch float for
foreign freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join
json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral leading least
left like limit localtime localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on only or order
out outer overlaps overlay placing position precision primary real references returning right row select session_user setof similar smallint some
substring symmetric system_user table tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic
verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`)
