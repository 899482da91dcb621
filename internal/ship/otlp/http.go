// OTLP as protobuf over HTTP.

package otlp

import (
	"context"
	"mime"
	"net/http"
	"net/url"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/web"
)

type httpExporter struct {
	client *web.Client
}

const (
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

func openHTTP(u *url.URL, o *web.Options, t *ship.TLS) (exporter, error) {
	at := *u
	at.Scheme = u.Scheme[len("otlp+"):]
	at.Host = setPort(u, "4318")
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/logs"
	}
	client, err := web.New(&at, web.Label(&at), o, t)
	return &httpExporter{client: client}, err
}

func (e *httpExporter) export(ctx context.Context, request []byte) (*collector.ExportLogsServiceResponse, error) {
	answer, err := e.client.Do(ctx, http.MethodPost, typeProtobuf, request)
	if err != nil {
		return nil, err
	}
	return e.read(answer)
}

// read reads an answer.
func (e *httpExporter) read(answer *web.Response) (*collector.ExportLogsServiceResponse, error) {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.Status/100 != 2 {
		var said status.Status
		if kind == typeProtobuf && proto.Unmarshal(answer.Body, &said) == nil {
			answer.Body = []byte(said.Message)
		}
		return nil, answer.Err()
	}
	response := &collector.ExportLogsServiceResponse{}
	var err error
	switch {
	case len(answer.Body) == 0: // success has no fields
	case kind == typeProtobuf:
		err = proto.Unmarshal(answer.Body, response)
	case kind == typeJSON:
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer.Body, response)
	default:
		return nil, notOTLP(e.client.Label, kind)
	}
	if err != nil {
		return nil, notOTLP(e.client.Label, kind+" that cannot be read")
	}
	return response, nil
}

func (e *httpExporter) check(ctx context.Context) []ship.Finding {
	return e.client.Check(ctx, http.MethodPost, typeProtobuf, func(answer *web.Response) error {
		_, err := e.read(answer)
		return err
	})
}

func (e *httpExporter) close() { e.client.Close() }
