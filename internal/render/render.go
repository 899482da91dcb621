// Package render makes lines of records: text for people, JSON and CSV for
// programs, and the formats of other programs: the server's csvlog, pgaudit's
// lines, and three schemas of the world of monitoring. docs/formats.md has what
// becomes of each field. No line breaks out of its place or reaches a terminal
// with a control character, whatever a record has in it.
//
// The encoders are our own, because millions of records are written, and because of what
// they promise: they append to a buffer without a value in between, where encoding/json
// and encoding/csv need one each, keep the order of fields, and write the bytes of a text
// that is not valid in its encoding so that nothing is lost.
package render

import (
	"fmt"
	"strings"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// Format is an output format.
type Format string

// The output formats.
const (
	Text    Format = "text"
	JSON    Format = "json"
	CSV     Format = "csv"
	CSVLog  Format = "csvlog"
	Pgaudit Format = "pgaudit"
	ECS     Format = "ecs"
	OCSF    Format = "ocsf"
	OTel    Format = "otel"
)

// Formats are the names of all formats.
var Formats = []string{string(Text), string(JSON), string(CSV), string(CSVLog), string(Pgaudit), string(ECS), string(OCSF), string(OTel)}

// Parse checks the name of a format.
func Parse(name string) (Format, error) {
	for _, f := range Formats {
		if f == name {
			return Format(f), nil
		}
	}
	last := len(Formats) - 1
	return "", fmt.Errorf("invalid format %q: use %s or %s", name, strings.Join(Formats[:last], ", "), Formats[last])
}

// A Renderer appends records as lines; see trail.Formatter. Of a record that a
// format has no place for it appends nothing.
type Renderer interface {
	Start(ref *trail.BlockRef)
	Append(dst []byte, r *trail.Record) []byte
}

// Options say how a format is filled in.
type Options struct {
	Color   bool // text only
	Pgaudit PgauditOptions
	// CSVUnsafe leaves CSV values as they are, also those that a spreadsheet takes
	// for formulas.
	CSVUnsafe bool
}

// New returns a renderer of a format.
func New(f Format, o Options) Renderer {
	switch f {
	case JSON:
		return &jsonFormat{}
	case CSV:
		return &csvFormat{safe: !o.CSVUnsafe}
	case CSVLog:
		return &csvlogFormat{}
	case Pgaudit:
		return &pgauditFormat{options: o.Pgaudit}
	case ECS:
		return &ecsFormat{}
	case OCSF:
		return &ocsfFormat{}
	case OTel:
		return &otelFormat{}
	}
	return &textFormat{color: o.Color}
}

// An Order finishes what a renderer of the same format made, given all records
// that are shown, one after the other.
type Order interface {
	// Next returns the record's lines, none when there is nothing to show. They
	// are valid until the next call.
	Next(record []byte) []byte
}

// NewOrder returns the order of a format, which most have no need of.
func NewOrder(f Format) Order {
	if f == Pgaudit {
		return &pgauditOrder{sessions: map[trail.SessionID]*pgauditCount{}}
	}
	return asTheyAre{}
}

type asTheyAre struct{}

func (asTheyAre) Next(record []byte) []byte { return record }

// Header is what comes before the first line.
func Header(f Format) []byte {
	if f == CSV {
		return csvHeader()
	}
	return nil
}
