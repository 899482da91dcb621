// Package render makes lines of records: text for people, JSON and CSV for
// programs. No line breaks out of its place or reaches a terminal with a
// control character, whatever a record has in it.
package render

import (
	"fmt"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// Format is an output format.
type Format string

// The output formats.
const (
	Text Format = "text"
	JSON Format = "json"
	CSV  Format = "csv"
)

// Formats are the names of all formats.
var Formats = []string{string(Text), string(JSON), string(CSV)}

// Parse checks the name of a format.
func Parse(name string) (Format, error) {
	for _, f := range Formats {
		if f == name {
			return Format(f), nil
		}
	}
	return "", fmt.Errorf("invalid format %q: use text, json or csv", name)
}

// A Renderer appends records as lines; see trail.Formatter.
type Renderer interface {
	Start(ref *trail.BlockRef)
	Append(dst []byte, r *trail.Record) []byte
}

// New returns a renderer of a format. Colour is for text only.
func New(f Format, color bool) Renderer {
	switch f {
	case JSON:
		return &jsonFormat{}
	case CSV:
		return &csvFormat{}
	}
	return &textFormat{color: color}
}

// Header is what comes before the first line.
func Header(f Format) []byte {
	if f == CSV {
		return csvHeader()
	}
	return nil
}
