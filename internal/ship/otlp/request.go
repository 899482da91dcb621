// From lines of format otel to one request.

package otlp

import (
	"bytes"
	"errors"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// builder makes a request of lines. What lines have in common, which are the resource and the scope, is sent once: a
// group has the log records of each.
type builder struct {
	groups []*group
	byText map[string]*group // by what is around the log record in a line
	byWire map[string]*group // by resource and scope
	record []byte
	around []byte
}

type group struct {
	resource []byte // the fields of a ResourceLogs but for its scopes
	scope    []byte // the fields of a ScopeLogs but for its log records
	records  []byte // that field of it
}

// Numbers of fields.
const (
	fieldResourceLogs = 1
	fieldScopeLogs    = 2
	fieldLogRecords   = 2
)

func newBuilder() *builder { return &builder{byText: map[string]*group{}, byWire: map[string]*group{}} }

// recordsBegin is what comes before the log records of a line. It cannot be part of a string, where a quote has a
// backslash.
var recordsBegin = []byte(`"logRecords":[`)

// add adds the log records of a line, which is a request by itself.
func (b *builder) add(line []byte) error {
	if at := bytes.Index(line, recordsBegin); at >= 0 {
		at += len(recordsBegin)
		s := scanner{in: line, at: at}
		b.record = s.message(b.record[:0], fieldLogRecords, &logRecord)
		if !s.failed {
			b.around = append(append(b.around[:0], line[:at]...), line[s.at:]...)
			if g := b.byText[string(b.around)]; g != nil {
				g.records = append(g.records, b.record...)
				return nil
			}
		}
	}
	return b.addAny(line)
}

// addAny adds the log records of a line by means of the official library. It knows all fields, and is slow.
func (b *builder) addAny(line []byte) error {
	var one collector.ExportLogsServiceRequest
	if err := protojson.Unmarshal(line, &one); err != nil {
		return errors.New("the line is not OTLP/JSON") // that of the library contains parts of it
	}
	var last *group
	n := 0
	for _, resource := range one.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			g, err := b.group(resource, scope)
			if err != nil {
				return err
			}
			for _, record := range scope.LogRecords {
				wire, err := proto.Marshal(record)
				if err != nil {
					return err
				}
				g.records = protowire.AppendTag(g.records, fieldLogRecords, protowire.BytesType)
				g.records = protowire.AppendBytes(g.records, wire)
				n++
			}
			last = g
		}
	}
	if begin := bytes.Index(line, recordsBegin); begin >= 0 && n == 1 {
		begin += len(recordsBegin)
		s := scanner{in: line, at: begin}
		if s.message(nil, fieldLogRecords, &logRecord); !s.failed {
			b.byText[string(line[:begin])+string(line[s.at:])] = last
		}
	}
	return nil
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// group returns where log records of a resource and a scope go.
func (b *builder) group(resource *logs.ResourceLogs, scope *logs.ScopeLogs) (*group, error) {
	g := &group{}
	var err error
	g.resource, err = deterministic.Marshal(&logs.ResourceLogs{Resource: resource.Resource,
		SchemaUrl: resource.SchemaUrl})
	if err != nil {
		return nil, err
	}
	g.scope, err = deterministic.Marshal(&logs.ScopeLogs{Scope: scope.Scope, SchemaUrl: scope.SchemaUrl})
	if err != nil {
		return nil, err
	}
	key := string(protowire.AppendBytes(nil, g.resource)) + string(g.scope)
	if known := b.byWire[key]; known != nil {
		return known, nil
	}
	b.byWire[key] = g
	b.groups = append(b.groups, g)
	return g, nil
}

// bytes returns the request as protobuf. Fields may come in any order, so that what was encoded before is put together.
func (b *builder) bytes() []byte {
	size := 0
	for _, g := range b.groups {
		size += len(g.resource) + len(g.scope) + len(g.records) + 64
	}
	all := make([]byte, 0, size)
	for _, g := range b.groups {
		scope := len(g.scope) + len(g.records)
		of := len(g.resource) + protowire.SizeTag(fieldScopeLogs) + protowire.SizeBytes(scope)
		all = protowire.AppendTag(all, fieldResourceLogs, protowire.BytesType)
		all = protowire.AppendVarint(all, uint64(of))
		all = append(all, g.resource...)
		all = protowire.AppendTag(all, fieldScopeLogs, protowire.BytesType)
		all = protowire.AppendVarint(all, uint64(scope))
		all = append(append(all, g.scope...), g.records...)
	}
	return all
}
