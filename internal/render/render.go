// Package render formats records as lines: text for people, JSON and CSV for programs, and the formats of
// other programs: the server's csvlog, pgaudit's lines, and three schemas for monitoring. docs/formats.md
// states what becomes of each field. It gets decoded records from packages format and trail, and knows nothing
// about flags, files or commands.
//
// What must stay true: clients choose much of what records contain, but nothing in a record can end a line,
// imitate another part of it, or send a control character to a terminal. All escapes are in escape.go.
//
// The package has its own encoders for speed, because millions of records are written: they append to a buffer,
// where encoding/json and encoding/csv need an intermediate value for each record. They also keep the order of
// fields, and write all bytes of a text that is not valid in its encoding.
package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
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

// Formats has the names of all formats.
var Formats = []string{string(Text), string(JSON), string(CSV), string(CSVLog), string(Pgaudit), string(ECS),
	string(OCSF), string(OTel)}

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

// TakesZone returns whether a format shows times in a chosen time zone. The other formats show UTC, as their
// definitions, or the programs that read them, expect.
func TakesZone(f Format) bool { return TakesFields(f) || f == Pgaudit }

// NamesServer returns whether lines name the server that recorded them.
func NamesServer(f Format, fields []string) bool {
	if fields != nil {
		return slices.Contains(fields, "host") || slices.Contains(fields, "cluster_name")
	}
	return f != Text && f != CSVLog && f != Pgaudit
}

// A Renderer appends records as lines; see trail.Formatter. Of a record that a
// format has no place for it appends nothing.
type Renderer interface {
	Start(ref *trail.BlockRef)
	Append(dst []byte, r *format.Record) []byte
}

// Options are the parameters of formats. Each format uses those that concern it.
type Options struct {
	Color   bool // text only
	Pgaudit PgauditOptions
	// CSVUnsafe leaves CSV values unchanged that a spreadsheet would take for formulas.
	CSVUnsafe bool
	// Fields are the fields that text, json and csv show, in this order; nil: all. See CheckFields.
	Fields []string
	// Zone is the time zone of times in text, json, csv and pgaudit's prefix; nil: UTC.
	Zone *time.Location
	// Servers says which server recorded which block; nil: not known.
	Servers *trail.Servers
	// Prefix stands before each line of pgaudit; nil: none.
	Prefix *LinePrefix
}

// New returns a renderer of a format.
func New(f Format, o Options) Renderer {
	d := definitions{origin: origin{servers: o.Servers}}
	if o.Fields != nil && TakesFields(f) {
		return newSelection(f, o)
	}
	switch f {
	case JSON:
		return &jsonFormat{clock: clock{zone: o.Zone}, origin: d.origin}
	case CSV:
		return &csvFormat{clock: clock{zone: o.Zone}, origin: d.origin, safe: !o.CSVUnsafe}
	case CSVLog:
		return &csvlogFormat{definitions: d}
	case Pgaudit:
		d.clock.zone = o.Zone
		return &pgauditFormat{definitions: d, options: o.Pgaudit, prefix: o.Prefix, started: d.clock}
	case ECS:
		return &ecsFormat{d}
	case OCSF:
		return &ocsfFormat{d, d.origin}
	case OTel:
		return &otelFormat{d}
	}
	return &textFormat{clock: clock{zone: o.Zone}, color: o.Color}
}

// Order completes what renderers of its format made. It is given all records that are shown, in their order,
// which renderers, of which several run at the same time, do not know.
type Order interface {
	// Next returns the record's lines, none if there is nothing to show. They are valid until the next call.
	Next(record []byte) []byte
}

// NewOrder returns the order of a format. Most formats leave lines unchanged.
func NewOrder(f Format) Order {
	switch f {
	case Pgaudit:
		return &pgauditOrder{sessions: map[format.SessionID]*pgauditCount{}}
	case CSVLog:
		return &csvlogOrder{hasFatalLine: map[format.SessionID]bool{}}
	}
	return unchanged{}
}

type unchanged struct{}

func (unchanged) Next(record []byte) []byte { return record }

// Header returns what comes before the first line.
func Header(f Format, o Options) []byte {
	if f != CSV {
		return nil
	}
	columns := o.Fields
	if columns == nil {
		columns = Columns
	}
	return []byte(strings.Join(columns, ",") + "\r\n")
}
