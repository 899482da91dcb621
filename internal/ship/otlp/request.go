// From lines of format otel to one request.

package otlp

import (
	"errors"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// builder makes a request of lines. What lines have in common, which are the resource and the scope, is sent once.
type builder struct {
	request collector.ExportLogsServiceRequest
	scopes  map[string]*logs.ScopeLogs
	groups  map[string]*logs.ResourceLogs
	key     []byte
}

func newBuilder() *builder {
	return &builder{scopes: map[string]*logs.ScopeLogs{}, groups: map[string]*logs.ResourceLogs{}}
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// add adds the log records of a line, which is a request by itself.
func (b *builder) add(line []byte) error {
	var one collector.ExportLogsServiceRequest
	if err := protojson.Unmarshal(line, &one); err != nil {
		return errors.New("the line is not OTLP/JSON") // that of the library contains parts of it
	}
	for _, resource := range one.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			into, err := b.scope(resource, scope)
			if err != nil {
				return err
			}
			into.LogRecords = append(into.LogRecords, scope.LogRecords...)
		}
	}
	return nil
}

// scope returns where log records of a resource and a scope go.
func (b *builder) scope(resource *logs.ResourceLogs, scope *logs.ScopeLogs) (*logs.ScopeLogs, error) {
	var err error
	b.key = append(b.key[:0], resource.SchemaUrl...)
	if b.key, err = deterministic.MarshalAppend(append(b.key, 0), resource.Resource); err != nil {
		return nil, err
	}
	group := b.groups[string(b.key)]
	if group == nil {
		group = &logs.ResourceLogs{Resource: resource.Resource, SchemaUrl: resource.SchemaUrl}
		b.groups[string(b.key)] = group
		b.request.ResourceLogs = append(b.request.ResourceLogs, group)
	}
	b.key = append(append(b.key, 0), scope.SchemaUrl...)
	if b.key, err = deterministic.MarshalAppend(append(b.key, 0), scope.Scope); err != nil {
		return nil, err
	}
	into := b.scopes[string(b.key)]
	if into == nil {
		into = &logs.ScopeLogs{Scope: scope.Scope, SchemaUrl: scope.SchemaUrl}
		b.scopes[string(b.key)] = into
		group.ScopeLogs = append(group.ScopeLogs, into)
	}
	return into, nil
}
