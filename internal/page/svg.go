// The elements of SVG, and the widths of texts in it.

package page

import (
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Drawing is the contents of an SVG image.
type Drawing struct{ b strings.Builder }

// Coordinate formats a coordinate with at most one decimal.
func Coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func classAttribute(class string) string {
	if class == "" {
		return ""
	}
	return ` class="` + class + `"`
}

// Element adds an element; its class is followed by alternating names and values of its attributes:
// Element("circle", "hit", "r", 1.5, ...).
func (d *Drawing) Element(name, class string, attributes ...any) {
	d.b.WriteString("<" + name + classAttribute(class))
	for i := 0; i < len(attributes); i += 2 {
		value, isText := attributes[i+1].(string)
		if !isText {
			value = Coordinate(attributes[i+1].(float64))
		}
		d.b.WriteString(" " + attributes[i].(string) + `="` + value + `"`)
	}
	d.b.WriteString("/>")
}

// Line adds a line.
func (d *Drawing) Line(class string, x1, y1, x2, y2 float64) {
	d.Element("line", class, "x1", x1, "y1", y1, "x2", x2, "y2", y2)
}

// Rect adds a rectangle.
func (d *Drawing) Rect(class string, x, y, width, height float64) {
	d.Element("rect", class, "x", x, "y", y, "width", width, "height", height, "rx", 1.5)
}

// Path adds a path, in the commands of SVG.
func (d *Drawing) Path(class, commands string) { d.Element("path", class, "d", commands) }

// Text adds a text that starts at x, ends there (class "end") or is centered there (class "mid").
func (d *Drawing) Text(class string, x, y float64, s string) {
	d.b.WriteString(`<text` + classAttribute(class) + ` x="` + Coordinate(x) + `" y="` + Coordinate(y) + `">` +
		html.EscapeString(s) + `</text>`)
}

// Begin begins a group with a tooltip.
func (d *Drawing) Begin(class, title string) {
	d.b.WriteString(`<g` + classAttribute(class) + `><title>` + html.EscapeString(title) + `</title>`)
}

// End ends a group.
func (d *Drawing) End() { d.b.WriteString("</g>") }

// Contents returns the elements, for an image with a frame of its own.
func (d *Drawing) Contents() string { return d.b.String() }

// Chart returns a chart, with a name for screen readers. It is drawn twice, for wide and for narrow windows, because
// text in a picture that is scaled down becomes too small to read; the page's style shows one of them.
func Chart(label string, wide, narrow float64, draw func(d *Drawing, width float64) (height float64)) template.HTML {
	image := func(class string, width float64) string {
		d := &Drawing{}
		height := draw(d, width)
		return `<svg xmlns="http://www.w3.org/2000/svg" class="` + class +
			`" viewBox="0 0 ` + Coordinate(width) + " " + Coordinate(height) +
			`" role="img" aria-label="` + html.EscapeString(label) + `">` + d.Contents() + "</svg>"
	}
	return template.HTML(image("wide", wide) + image("slim", narrow))
}

// TextWidth estimates the maximum width of a text in common sans-serif fonts of this size.
func TextWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'|!()[] ", r):
			w += 0.37
		case strings.ContainsRune("mwMW@%<>=+~#&", r):
			w += 0.97
		case r >= 'A' && r <= 'Z':
			w += 0.71
		default:
			w += 0.62
		}
	}
	return w * size
}

// Truncate truncates a text to a width.
func Truncate(s string, size, width float64) string {
	if TextWidth(s, size) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && TextWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), " ,") + "…"
}
