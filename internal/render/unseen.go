// Names that look like others: characters that are not visible, and words that mix scripts.

package render

import (
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

// scripts are the ones that mixesScripts distinguishes. Letters of all other scripts count as one script.
var scripts = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian,
	unicode.Cherokee, unicode.Coptic}

// scriptOf returns the number of a letter's script, counted from 1; 0 for other characters, and for letters of
// scripts that are not distinguished, because words of Japanese, Chinese and Korean mix several scripts.
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

// isWord returns whether a character can be a part of a word in an identifier.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) }

// mixesScripts returns whether a word of an identifier has letters of several scripts that look alike, such as
// the Latin and the Cyrillic "a". The parts of app_кошка are two words.
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

// MixesScripts returns whether a value can be an identifier, and a word of it has letters of several scripts
// that look alike.
func MixesScripts(s []byte) bool {
	const longest = 63 // of an identifier, in bytes
	if len(s) > longest || !slices.ContainsFunc(s, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return false
	}
	return mixesScripts(s)
}

// Identifier returns a name for a terminal. If it mixes scripts, all characters other than ASCII are escaped.
func Identifier(s string) string { return string(appendSafe(nil, escapeMixed([]byte(s)))) }

// escapeMixed escapes all characters of an identifier that are not ASCII if it mixes scripts, so that it does
// not look like another identifier.
func escapeMixed(s []byte) []byte {
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

// SafeJSON returns a writer for JSON that escapes invisible characters. These can occur only within strings.
// Each Write must get whole characters.
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
