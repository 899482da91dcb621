package render

import "testing"

func TestMarkdownMeansNothing(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"a_b*c":                   `a\_b\*c`,
		"2026-11-30 12:00":        "2026-11-30 12:00",
		"- item":                  `\- item`,
		"1. item":                 `1\. item`,
		"12) item":                `12\) item`,
		"1.5":                     `1\.5`,
		"===":                     `\===`,
		"<img src=x onerror='1'>": "&lt;img src=x onerror='1'&gt;",
		"![x](y)|&":               `!\[x\](y)\|&amp;`,
		"line\nbreak":             `line\\nbreak`,
	} {
		if got := MarkdownLine(text); got != want {
			t.Errorf("%q is %q in Markdown, not %q", text, got, want)
		}
	}
	if got := Markdown("-5"); got != "-5" {
		t.Errorf("-5 is %q in a cell", got)
	}
}
