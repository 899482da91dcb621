// OTLP over gRPC.

package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/parts"
	"github.com/pg-steno/pg_steno/internal/ship/reach"
	"github.com/pg-steno/pg_steno/internal/ship/web"
)

const exportMethod = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

type grpcExporter struct {
	address   string
	label     string
	encrypted bool
	options   *web.Options
	login     *web.Credentials
	tls       *ship.TLS
	conn      *grpc.ClientConn // nil: the next request makes one, with certificates as they are then
}

func openGRPC(address, label string, encrypted bool, o *web.Options, t *ship.TLS) exporter {
	return &grpcExporter{address: address, label: label, encrypted: encrypted, options: o, login: o.Credentials(),
		tls: t}
}

func (e *grpcExporter) connect() error {
	if e.conn != nil {
		return nil
	}
	if _, err := e.proxy(); err != nil {
		return err
	}
	secure := insecure.NewCredentials()
	if e.encrypted {
		config, err := e.tls.Config()
		if err != nil {
			return err
		}
		secure = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(secure), grpc.WithUserAgent("steno-ship"),
		grpc.WithDisableServiceConfig()}
	if e.options.Gzip {
		options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	}
	conn, err := grpc.NewClient("dns:///"+e.address, options...)
	e.conn = conn
	return err
}

// proxy returns the proxy of the environment, which the library uses, too.
func (e *grpcExporter) proxy() (*url.URL, error) {
	return web.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: e.address}})
}

// codec takes requests that are encoded already.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// export sends a request. The library may use its bytes after it has returned.
func (e *grpcExporter) export(ctx context.Context, request []byte) (*collector.ExportLogsServiceResponse, error) {
	header, secrets, err := e.login.Header(ctx)
	if err == nil {
		err = e.connect()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.label, err)
	}
	pairs := metadata.MD{}
	for name, values := range header {
		pairs.Set(name, values...)
	}
	limited, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, pairs), time.Duration(e.options.Timeout))
	defer cancel()
	response := &collector.ExportLogsServiceResponse{}
	if err := e.conn.Invoke(limited, exportMethod, request, response,
		grpc.ForceCodecV2(codec{})); err != nil {
		return nil, e.failed(ctx, err, secrets)
	}
	return response, nil
}

// failed returns what a status means.
func (e *grpcExporter) failed(ctx context.Context, err error, secrets []string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s := status.Convert(err)
	reason := s.Code().String() + ": " + parts.Reason(s.Message(), secrets)
	plain := fmt.Errorf("%s: %s", e.label, reason)
	switch code := s.Code(); code {
	case codes.InvalidArgument:
		return &parts.RefusedError{Reason: reason}
	case codes.Unauthenticated, codes.PermissionDenied:
		e.login.Forget()
		return &ship.PermanentError{What: "export to " + e.label, Err: errors.New(reason)}
	case codes.Unimplemented, codes.NotFound:
		return &ship.PermanentError{What: "export to " + e.label, Err: errors.New(reason)}
	case codes.ResourceExhausted, codes.OutOfRange:
		if isTooLarge(s.Message()) {
			return &parts.RefusedError{Reason: reason, Large: true}
		}
	case codes.DeadlineExceeded:
		e.close()
		return fmt.Errorf("%s: no answer within %s", e.label, time.Duration(e.options.Timeout))
	case codes.Unavailable:
		e.close() // the library would wait by itself, and keep certificates
		if strings.Contains(s.Message(), "failed to verify certificate") {
			return &ship.PermanentError{What: "the certificate of " + e.address, Err: errors.New(reason)}
		}
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().AsDuration() > 0 {
			return &ship.AfterError{After: info.RetryDelay.AsDuration(), Err: plain}
		}
	}
	return plain
}

// isTooLarge returns whether a message is one of those by which the libraries of gRPC refuse a request for its size.
// The status alone does not say it: it is that of a receiver that is busy, too.
func isTooLarge(message string) bool {
	for _, part := range []string{"larger than max", "exceeds maximum size", "length too large"} {
		if strings.Contains(message, part) {
			return true
		}
	}
	return false
}

func (e *grpcExporter) check(ctx context.Context) []ship.Finding {
	var all []ship.Finding
	host, _, _ := net.SplitHostPort(e.address)
	through, err := e.proxy()
	switch {
	case err != nil:
		return append(all, ship.Finding{What: "the proxy of the environment", Err: err})
	case through != nil:
		all = append(all, ship.Finding{What: "use the proxy of the environment", Note: through.Host})
	default:
		f, found := reach.Resolve(ctx, host)
		if all = append(all, f); !found {
			return all
		}
		if e.encrypted {
			f := e.handshake(ctx)
			if all = append(all, f); f.Err != nil {
				return all
			}
		}
	}
	if !e.encrypted && !reach.IsLoopback(host) {
		all = append(all, ship.Finding{What: "no TLS: everybody on the way can read the records", Warning: true})
	}
	_, err = e.export(ctx, nil)
	return append(all, ship.Finding{What: "export without records to " + e.label, Err: err})
}

func (e *grpcExporter) handshake(ctx context.Context) ship.Finding {
	f := ship.Finding{What: "TLS with " + e.address}
	config, err := e.tls.Config()
	if err != nil {
		f.Err = err
		return f
	}
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", e.address)
	if err != nil {
		f.Err = err
		return f
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	return reach.Certificate(e.address, &state, !e.tls.SkipVerify)
}

func (e *grpcExporter) close() {
	if e.conn != nil {
		_ = e.conn.Close()
		e.conn = nil
	}
}
