// Package page makes HTML pages that stand alone, and draws their charts in SVG. A page is one file: it has its style
// and its script, refers to nothing else, and a browser runs and requests nothing for it, whatever texts it shows.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
)

var (
	//go:embed frame.html
	frame string
	// What all pages have in common: colors, fonts, the texts of charts.
	//go:embed style.css
	commonStyle string
)

// Page is a kind of page: everything except its data.
type Page struct{ template *template.Template }

// New returns the page whose templates "title" and "body" are defined in text. The style is added to the common one;
// the script may be empty.
func New(text, style, script string, functions template.FuncMap) *Page {
	style = commonStyle + style
	policy := "default-src 'none'; style-src '" + Hash(style) + "'; "
	var element template.HTML
	if script != "" {
		policy += "script-src '" + Hash(script) + "'; "
		element = template.HTML("\n<script>" + script + "</script>")
	}
	policy += "img-src data:; base-uri 'none'; form-action 'none'"
	t := template.New("page").Funcs(functions).Funcs(template.FuncMap{
		"policy": func() string { return policy },
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") },
		"script": func() template.HTML { return element },
	})
	return &Page{template.Must(template.Must(t.Parse(frame)).Parse(text))}
}

// Write writes the page with this data.
func (p *Page) Write(w io.Writer, data any) error { return p.template.Execute(w, data) }

// Hash returns the source expression that allows an inline style or script in a Content-Security-Policy.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
