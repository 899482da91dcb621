// Texts that clients choose, in Markdown.

package render

import "strings"

// AppendMarkdown appends text of which nothing is taken for Markdown or HTML, on one line, as it may be printed on a
// terminal. It does not begin that line: see [MarkdownLine].
func AppendMarkdown(dst, s []byte) []byte {
	for _, c := range appendSafe(nil, s) {
		switch c {
		case '&':
			dst = append(dst, "&amp;"...)
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '\\', '`', '*', '_', '[', ']', '|', '~', '#', '$':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// Markdown is AppendMarkdown for strings.
func Markdown(s string) string { return string(AppendMarkdown(nil, []byte(s))) }

// MarkdownLine is the same where the text may begin a line, or an item of a list: it begins no list there, and does not
// make a heading of the line before.
func MarkdownLine(s string) string {
	line := Markdown(s)
	if i := markEnd(line); i >= 0 {
		return line[:i] + `\` + line[i:]
	}
	return line
}

// markEnd is the place of the character that would make a line an item of a list, or underline the line before it;
// -1: none.
func markEnd(line string) int {
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	switch {
	case digits == len(line):
		return -1
	case digits == 0 && strings.IndexByte("-+=", line[0]) >= 0, digits > 0 && strings.IndexByte(".)", line[digits]) >= 0:
		return digits
	}
	return -1
}
