package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// What Amazon's service answers, which the one of the tests does not always do in the same way.
func TestCodesAreExplained(t *testing.T) {
	s := &store{bucket: "audit", options: &Options{Region: "eu-north-1"}, endpoint: &url.URL{Host: "s3.example.com"},
		creds: credentials.NewStaticV4("a", "b", "")}
	for _, test := range []struct {
		r    minio.ErrorResponse
		what string // empty: it may pass by itself
	}{
		{minio.ErrorResponse{Code: "NoSuchBucket", StatusCode: 404}, `bucket "audit" at s3.example.com`},
		{minio.ErrorResponse{Code: "AccessDenied", StatusCode: 403}, `rights in bucket "audit"`},
		{minio.ErrorResponse{Code: "SomethingNew", StatusCode: 403}, `rights in bucket "audit"`},
		{minio.ErrorResponse{Code: "InvalidAccessKeyId", StatusCode: 403}, "access key"},
		{minio.ErrorResponse{Code: "SignatureDoesNotMatch", StatusCode: 403}, "secret key"},
		{minio.ErrorResponse{Code: "ExpiredToken", StatusCode: 400}, "session of the login"},
		{minio.ErrorResponse{Code: "RequestTimeTooSkewed", StatusCode: 403}, "clock of this machine, or of s3.example.com"},
		{minio.ErrorResponse{Code: "AuthorizationHeaderMalformed", Region: "us-west-2", StatusCode: 400},
			`region "eu-north-1": the bucket is in "us-west-2"`},
		{minio.ErrorResponse{Code: "PermanentRedirect", StatusCode: 301}, `bucket "audit" at s3.example.com`},
		{minio.ErrorResponse{Code: "ObjectLockConfigurationNotFoundError", StatusCode: 404}, `object lock of bucket "audit"`},
		{minio.ErrorResponse{Code: "SlowDown", StatusCode: 503}, ""},
		{minio.ErrorResponse{Code: "InternalError", StatusCode: 500}, ""},
	} {
		err := s.explain(fmt.Errorf("put: %w", test.r))
		permanent := (*ship.PermanentError)(nil)
		switch {
		case errors.As(err, &permanent) != (test.what != ""):
			t.Errorf("%s: %v", test.r.Code, err)
		case test.what != "" && permanent.What != test.what:
			t.Errorf("%s: %s", test.r.Code, permanent.What)
		case !strings.Contains(err.Error(), test.r.Code):
			t.Errorf("%v does not have %s", err, test.r.Code)
		}
	}
	if err := s.explain(&net.DNSError{Name: "s3.example.com", IsNotFound: true}); !strings.HasPrefix(err.Error(),
		"host s3.example.com: ") {
		t.Error(err)
	}
	if err := s.explain(context.Canceled); err != context.Canceled {
		t.Error(err)
	}
}

func TestNamesSayWhatIsInThem(t *testing.T) {
	for range 1000 {
		o := object{segment: 1 + rand.Uint64N(1<<32-1), first: rand.Uint64() >> rand.N(64), whole: rand.N(2) == 0}
		o.last = o.first + rand.Uint64N(10)
		if o.last < o.first {
			continue
		}
		if !o.whole {
			o.from = rand.Int64() >> rand.N(63)
		}
		for _, to := range []*id{&o.before, &o.chain, &o.content} {
			for i := range to {
				to[i] = byte(rand.Uint32())
			}
		}
		if got, ok := parseObject(o.name()); !ok || got != o {
			t.Fatalf("%s: %+v, not %+v", o.name(), got, o)
		}
	}
	good := (&object{segment: 1, first: 1, last: 2}).name()
	for _, bad := range []string{"", good + "x", "x" + good, strings.Replace(good, "-0-", "-00-", 1), good[1:],
		strings.Replace(good, ".part", ".json", 1), strings.Replace(good, "0000000001", "0000000000", 1),
		strings.Replace(good, "-1-2-", "-2-1-", 1), strings.Replace(good, "-1-2-", "-1-99999999999999999999-", 1)} {
		if _, ok := parseObject(bad); ok {
			t.Errorf("%q is taken for an object", bad)
		}
	}
}

func TestBodiesAreTheirPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var b body
		var all []byte
		for range 1 + r.IntN(8) {
			p := make([]byte, 1+r.IntN(50))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			if all = append(all, p...); r.IntN(2) == 0 {
				b.add(p, int64(len(p)))
			} else {
				b.add(strings.NewReader(string(p)), int64(len(p)))
			}
		}
		if got, err := io.ReadAll(b.reader()); err != nil || string(got) != string(all) {
			t.Fatal(err)
		}
		for range 20 {
			at := r.IntN(len(all))
			to := make([]byte, 1+r.IntN(len(all)))
			n, err := b.ReadAt(to, int64(at))
			want := all[at:min(len(all), at+len(to))]
			if string(to[:n]) != string(want) || (err == io.EOF) != (n < len(to)) || err != nil && err != io.EOF {
				t.Fatal(at, len(to), n, err)
			}
		}
	}
	var b body
	b.add(strings.NewReader("short"), 10)
	if _, err := b.sum(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}
