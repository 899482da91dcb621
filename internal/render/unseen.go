// Names that look like others: characters that are not seen, and words of several scripts.

package render

import (
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

// scripts are those whose letters are told apart in a word. All others count as one.
var scripts = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic}

// scriptOf is the number of a letter's script, from 1 on; 0 if it is no letter, or one of
// those that are not told apart: words of Japanese, Chinese and Korean have several scripts.
func scriptOf(r rune) int {
	if r < utf8.RuneSelf && (r|0x20 < 'a' || r|0x20 > 'z') || !unicode.IsLetter(r) {
		return 0
	}
	for i, table := range scripts {
		if unicode.Is(table, r) {
			return i + 1
		}
	}
	return 0
}

// isWord says whether a character is a part of a word of an identifier.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) }

// mixesScripts says whether a word of an identifier has letters of several scripts that look
// alike, such as the Latin and the Cyrillic "a". The parts of app_кошка are two words.
func mixesScripts(s []byte) bool {
	seen := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		i += n
		if !isWord(r) {
			seen = 0
		}
		script := scriptOf(r)
		if script > 0 && seen > 0 && script != seen {
			return true
		}
		seen = max(seen, script)
	}
	return false
}

// MixesScripts says whether a value can be an identifier whose words have letters of several scripts that look alike.
func MixesScripts(s []byte) bool {
	const longest = 63 // of an identifier, in bytes
	if len(s) > longest || !slices.ContainsFunc(s, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return false
	}
	return mixesScripts(s)
}

// Identifier is a name as it may be printed on a terminal: if it mixes scripts, all that is not ASCII is escaped.
func Identifier(s string) string { return string(appendSafe(nil, marked([]byte(s)))) }

// marked is an identifier in which all that is not ASCII is escaped if it mixes scripts, so
// that everybody sees that it is not what it looks like.
func marked(s []byte) []byte {
	if !mixesScripts(s) {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		if r < utf8.RuneSelf || r == utf8.RuneError && n == 1 {
			out = append(out, s[i:i+n]...)
		} else {
			out = appendRune(out, r)
		}
		i += n
	}
	return out
}

// SafeJSON returns a writer of JSON that escapes the characters that are not seen: they stand
// in strings alone. Each write has whole characters.
func SafeJSON(w io.Writer) io.Writer { return safeJSON{w} }

type safeJSON struct{ w io.Writer }

func (s safeJSON) Write(b []byte) (int, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r >= 0x7f && unsafeRune(r) {
			out = appendRune(out, r)
		} else {
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
