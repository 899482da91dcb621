//go:build linux

package otlp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // requests are compressed
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/otlp"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct{ keys, wants string }{
		{"to: otlp://h", ""}, {"to: otlp+grpcs://h:1", ""}, {"to: otlp+https://collector:4318", ""},
		{"to: otlp+https://h/custom/v1/logs?a=b", ""}, {"to: otlp+http://127.0.0.1", ""}, {"to: otlp+grpc://localhost", ""},
		{"to: otlp+http://h", "use TLS, or set insecure"}, {"to: otlp+grpc://h", "use TLS, or set insecure"},
		{"to: otlp+grpc://h|insecure: true", ""}, {"to: otlp://h/v1/logs", "neither a path"},
		{"to: otlp://h|format: json", "OTLP takes otel"}, {"to: otlp://h|headers: {X-Tenant: a}", ""},
		{"to: otlp://h|method: PUT", "there is no such key"},
	} {
		_, err := recordtest.TryOpen(otlp.Kind, strings.Split(c.keys, "|")...)
		if c.wants == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s:\n got %v\nwant %s", c.keys, err, c.wants)
		}
	}
}

// recordOf returns a log record with its resource and scope, so that it can be compared, without what is theirs.
func recordOf(t testing.TB, request *collector.ExportLogsServiceRequest) (all []string) {
	t.Helper()
	for _, resource := range request.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, record := range scope.LogRecords {
				if record.Body != nil && record.Body.Value == nil { // the collector's way to say that there is none
					record.Body = nil
				}
				one := &collector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
					Resource: resource.Resource, SchemaUrl: resource.SchemaUrl, ScopeLogs: []*logs.ScopeLogs{{
						Scope: scope.Scope, SchemaUrl: scope.SchemaUrl, LogRecords: []*logs.LogRecord{record}}}}}}
				b, err := proto.MarshalOptions{Deterministic: true}.Marshal(one)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, string(b))
			}
		}
	}
	return all
}

// records are the log records of lines of OTLP/JSON.
func records(t testing.TB, lines []string) (all []string) {
	t.Helper()
	for _, line := range lines {
		request := &collector.ExportLogsServiceRequest{}
		if err := protojson.Unmarshal([]byte(line), request); err != nil {
			t.Fatalf("%v: %.300q", err, line)
		}
		all = append(all, recordOf(t, request)...)
	}
	return all
}

// receiver is a receiver that refuses and fails as the protocol allows, which the collector does not do by itself.
type receiver struct {
	mu      sync.Mutex
	t       testing.TB
	r       *rand.Rand
	trouble bool
	bad     map[string]bool // records that it refuses
	partly  bool            // it takes the others of a request
	fails   error
	got     []string
	header  metadata.MD
}

func (s *receiver) export(request *collector.ExportLogsServiceRequest) (*collector.ExportLogsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return nil, s.fails
	}
	if s.trouble && s.r.IntN(4) == 0 {
		failed := status.New([]codes.Code{codes.Unavailable, codes.Aborted, codes.ResourceExhausted, codes.Internal,
			codes.DataLoss}[s.r.IntN(5)], "trouble")
		if s.r.IntN(2) == 0 {
			failed, _ = failed.WithDetails(protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}))
		}
		return nil, failed.Err()
	}
	all := recordOf(s.t, request)
	refused := int64(0)
	for _, one := range all {
		if s.bad[one] {
			refused++
		}
	}
	if refused > 0 && !s.partly {
		return nil, status.Error(codes.InvalidArgument, "a bad one")
	}
	for _, one := range all {
		if !s.bad[one] {
			s.got = append(s.got, one)
		}
	}
	response := &collector.ExportLogsServiceResponse{}
	if refused > 0 {
		response.PartialSuccess = &collector.ExportLogsPartialSuccess{RejectedLogRecords: refused, ErrorMessage: "a bad one"}
	} else if s.r.IntN(3) == 0 { // a warning is no refusal
		response.PartialSuccess = &collector.ExportLogsPartialSuccess{ErrorMessage: "take care"}
	}
	return response, nil
}

// listen starts the receiver as a server of gRPC.
func (s *receiver) listen(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.logs.v1.LogsService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: func(_ any, ctx context.Context, decode func(any) error,
			_ grpc.UnaryServerInterceptor) (any, error) {
			request := &collector.ExportLogsServiceRequest{}
			if err := decode(request); err != nil {
				return nil, err
			}
			s.mu.Lock()
			s.header, _ = metadata.FromIncomingContext(ctx)
			s.mu.Unlock()
			return s.export(request)
		}}},
	}, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// TestRefusedRecordsAreFound: a receiver that refuses records, as a whole or in part, and fails, behind a bad network.
func TestRefusedRecordsAreFound(t *testing.T) {
	for _, partly := range []bool{false, true} {
		t.Run(fmt.Sprintf("partly %v", partly), func(t *testing.T) {
			r := recordtest.Rand(t)
			events := recordtest.Events(t, r, 1000, "otel")
			all := records(t, recordtest.Lines(events))
			s := &receiver{t: t, r: rand.New(rand.NewPCG(r.Uint64(), 1)), trouble: true, partly: partly, bad: map[string]bool{}}
			var good []string
			for _, one := range all {
				if len(one) < 3_000_000 && r.IntN(60) > 0 {
					good = append(good, one)
				} else { // the other ones may be larger than gRPC takes
					s.bad[one] = true
				}
			}
			p := recordtest.Cutting(t, r, s.listen(t), 3<<20)
			sink := recordtest.Open(t, otlp.Kind, "to: otlp+grpc://"+p.Address, "timeout: 20s")
			refused := recordtest.Deliver(t, r, sink, events, transient)
			var got []string
			for _, one := range refused {
				got = append(got, records(t, []string{string(one.Event.Line)})...)
			}
			if len(got) != len(s.bad) || slices.ContainsFunc(got, func(one string) bool { return !s.bad[one] }) {
				t.Errorf("%d were refused, and not the %d bad ones", len(got), len(s.bad))
			}
			recordtest.InOrder(t, good, s.got)
			t.Logf("%d refused, %d connections were cut", len(refused), p.Cuts)
		})
	}
}

func transient(err error) bool {
	var wrong *ship.PermanentError
	return !errors.As(err, &wrong)
}

func TestWhatAStatusOfGRPCMeans(t *testing.T) {
	t.Setenv("TEST_TOKEN", "hunter2")
	s := &receiver{t: t, r: recordtest.Rand(t)}
	to := "otlp+grpc://" + s.listen(t)
	line := recordtest.Lines(recordtest.Events(t, s.r, 1, "otel"))[0]
	busy, _ := status.New(codes.ResourceExhausted, "busy hunter2").WithDetails(
		protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)}))
	for _, c := range []struct {
		err       error
		permanent bool
		after     bool
		refused   bool
	}{
		{err: status.Error(codes.Unauthenticated, "hunter2"), permanent: true},
		{err: status.Error(codes.PermissionDenied, "no"), permanent: true},
		{err: status.Error(codes.Unimplemented, "no"), permanent: true},
		{err: busy.Err(), after: true},
		{err: status.Error(codes.ResourceExhausted, "quota")},
		{err: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), refused: true},
		{err: status.Error(codes.ResourceExhausted, "gRPC message exceeds maximum size 4194304: 5"), refused: true},
		{err: status.Error(codes.OutOfRange, "Error, decoded message length too large: found 5 bytes"), refused: true},
		{err: status.Error(codes.OutOfRange, "x")},
		{err: status.Error(codes.InvalidArgument, "bad \x1b[2J"), refused: true},
		{err: status.Error(codes.Unavailable, "x")}, {err: status.Error(codes.Internal, "x")},
		{err: status.Error(codes.Unknown, "x")}, {err: status.Error(codes.Canceled, "x")},
	} {
		s.fails = c.err
		sink := recordtest.Open(t, otlp.Kind, "to: "+to, "bearer: {env: TEST_TOKEN}", "headers: {X-Tenant: a}")
		refused, err := sink.SendEvents(context.Background(), []ship.Event{{Line: []byte(line)}})
		var permanent *ship.PermanentError
		var after *ship.AfterError
		if errors.As(err, &permanent) != c.permanent || errors.As(err, &after) != c.after || len(refused) > 0 != c.refused ||
			(err == nil) != c.refused || after != nil && after.After != 7*time.Second {
			t.Errorf("%v: %v, %v", c.err, refused, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), to)) {
			t.Errorf("%v", err)
		}
		if len(refused) > 0 && strings.Contains(refused[0].Reason, "\x1b") {
			t.Errorf("%q", refused[0].Reason)
		}
		if !slices.Equal(s.header["authorization"], []string{"Bearer hunter2"}) || !slices.Equal(s.header["x-tenant"], []string{"a"}) {
			t.Errorf("%q", s.header)
		}
	}
}

// TestOnlyAnswersOfOTLPCount: a page for people is no acknowledgement, whatever its status.
func TestOnlyAnswersOfOTLPCount(t *testing.T) {
	line := recordtest.Lines(recordtest.Events(t, recordtest.Rand(t), 1, "otel"))[0]
	kind, body, code := "", "", 200
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/logs" {
			t.Errorf("path %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	defer there.Close()
	partial, _ := proto.Marshal(&collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{
		RejectedLogRecords: 1, ErrorMessage: "too old"}})
	for _, c := range []struct {
		kind, body string
		code       int
		wants      string
		refused    string
	}{
		{kind: "application/x-protobuf", code: 200}, {kind: "application/json", body: "{}", code: 200},
		{kind: "", code: 202}, {kind: "text/html", body: "<p>welcome", code: 200, wants: "not a receiver of OTLP"},
		{kind: "application/x-protobuf", body: "welcome", code: 200, wants: "not a receiver of OTLP"},
		{kind: "application/x-protobuf", body: string(partial), code: 200, refused: "too old"},
		{kind: "application/json", body: `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}`, code: 200,
			refused: "too old"},
		{kind: "application/json", body: `{"message":"no"}`, code: 400, refused: "400 Bad Request"},
		{kind: "application/x-protobuf", body: "\x08\x03\x12\x05wrong", code: 400, refused: "400 Bad Request: wrong"},
		{kind: "text/plain", code: 404, wants: "/v1/logs: 404"}, {kind: "text/plain", code: 502, wants: "502"},
	} {
		kind, body, code = c.kind, c.body, c.code
		sink := recordtest.Open(t, otlp.Kind, "to: otlp+"+there.URL)
		refused, err := sink.SendEvents(context.Background(), []ship.Event{{Line: []byte(line)}})
		if c.wants == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wants) ||
			len(refused) > 0 != (c.refused != "") || len(refused) > 0 && !strings.Contains(refused[0].Reason, c.refused) {
			t.Errorf("%+v: %v, %v", c, refused, err)
		}
	}
}

// otelcol is a collector that writes what it receives to a file.
type otelcol struct {
	grpc, http string // ports with TLS
	certs, out string
}

const collectorConfig = `
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:%[1]s
        max_recv_msg_size_mib: 16
        tls: {cert_file: %[3]s/server.pem, key_file: %[3]s/server.key, client_ca_file: %[3]s/ca.pem}
      http:
        endpoint: 127.0.0.1:%[2]s
        tls: {cert_file: %[3]s/server.pem, key_file: %[3]s/server.key}
exporters:
  file: {path: %[4]s, flush_interval: 50ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [otlp], exporters: [file]}
`

func startCollector(t *testing.T) *otelcol {
	t.Helper()
	program := os.Getenv("STENO_TEST_OTELCOL")
	if program == "" {
		t.Skip("STENO_TEST_OTELCOL does not name a collector: scripts/test-ship.d/records builds one")
	}
	dir := t.TempDir()
	s := &otelcol{grpc: recordtest.FreePort(t), http: recordtest.FreePort(t), certs: recordtest.Certificates(t),
		out: filepath.Join(dir, "out.json")}
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(collectorConfig, s.grpc, s.http, s.certs, s.out)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	recordtest.Start(t, []string{s.grpc, s.http}, program, "--config", "file:"+config)
	return s
}

func (s *otelcol) records(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(s.out)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") {
			lines = append(lines, line)
		}
	}
	return records(t, lines)
}

// TestCollector sends random events to a collector, over a network that is cut.
func TestCollector(t *testing.T) {
	for _, scheme := range []string{"otlp", "otlp+https"} {
		for _, zip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s gzip %v", scheme, zip), func(t *testing.T) {
				s := startCollector(t)
				r := recordtest.Rand(t)
				events := recordtest.Events(t, r, 1500, "otel")
				port := s.grpc
				if scheme != "otlp" {
					port = s.http
				}
				p := recordtest.Cutting(t, r, "127.0.0.1:"+port, 4<<20)
				sink := recordtest.Open(t, otlp.Kind, "to: "+scheme+"://"+p.Address, s.tls(), "timeout: 20s",
					fmt.Sprintf("gzip: %v", zip))
				refused := recordtest.Deliver(t, r, sink, events, transient)
				if len(refused) > 0 {
					t.Fatal(refused[0].Reason)
				}
				sent := records(t, recordtest.Lines(events))
				last := ""
				defer func() {
					if t.Failed() {
						t.Logf("the last record is\n%.2000q\nand not\n%.2000q", last, sent[len(sent)-1])
					}
				}()
				recordtest.WaitFor(t, "the last record", func() bool {
					if got := s.records(t); len(got) > 0 {
						last = got[len(got)-1]
					}
					return last == sent[len(sent)-1]
				})
				recordtest.InOrder(t, sent, s.records(t))
				t.Logf("%d connections were cut", p.Cuts)
			})
		}
	}
}

func (s *otelcol) tls() string {
	return fmt.Sprintf("tls: {ca: %[1]s/ca.pem, cert: %[1]s/client.pem, key: %[1]s/client.key}", s.certs)
}

func TestCheckOfACollector(t *testing.T) {
	s := startCollector(t)
	closed := "127.0.0.1:" + recordtest.FreePort(t)
	for _, c := range []struct {
		to, tls string
		wants   []string
	}{
		{"otlp://localhost:" + s.grpc, s.tls(), []string{"resolve localhost: err=<nil>", "TLS with localhost:" + s.grpc +
			": err=<nil>", "export without records to otlp://localhost:" + s.grpc + ": err=<nil>"}},
		{"otlp+https://localhost:" + s.http, s.tls(), []string{"TLS with localhost:" + s.http + ": err=<nil>",
			"POST without records to https://localhost:" + s.http + "/v1/logs: err=<nil>", "it agrees with"}},
		{"otlp+https://localhost:" + s.http + "/wrong", s.tls(), []string{"/wrong: 404"}},
		{"otlp://localhost:" + s.grpc, "tls: {ca: " + s.certs + "/ca.pem}", []string{"export without records to otlp://localhost:" + s.grpc +
			": err=otlp://"}},
		{"otlp://localhost:" + s.grpc, "gzip: true", []string{"signed by unknown authority"}},
		{"otlp+https://localhost:" + s.http, "gzip: true", []string{"signed by unknown authority"}},
		{"otlp://" + closed, "gzip: true", []string{"connection refused"}},
	} {
		sink := recordtest.Open(t, otlp.Kind, "to: "+c.to, c.tls)
		text := recordtest.Findings(sink.Check(context.Background()))
		for _, want := range c.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s, %s: %s is missing:\n%s", c.to, c.tls, want, text)
			}
		}
	}
	if n := len(s.records(t)); n > 0 {
		t.Errorf("%d records arrived", n)
	}
}
