// Trying what sending needs, and what it should not be able to do.

package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// Check tries the bucket with an object of its own below PREFIX/.check, which no reader takes for a part of a trail.
func (s *sink) Check(ctx context.Context) []ship.Finding { return s.store.check(ctx) }

func (s *store) check(ctx context.Context) (all []ship.Finding) {
	add := func(f ship.Finding) bool {
		f.Err = s.explain(f.Err)
		all = append(all, f)
		return f.Err == nil
	}
	host, port := s.endpoint.Hostname(), s.endpoint.Port()
	if port == "" {
		port = s.endpoint.Scheme
	}
	if s.proxy() == nil { // or else the proxy resolves the name
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if !add(ship.Finding{What: "resolve " + host, Err: err, Note: strings.Join(found, ", ")}) {
			return all
		}
		if !add(s.checkConnection(ctx, net.JoinHostPort(host, port))) {
			return all
		}
	}
	if skew, err := s.checkClock(ctx); !add(skew) && err {
		return all
	}
	exists, err := s.client.BucketExists(ctx, s.bucket)
	what := ship.Finding{What: fmt.Sprintf("find bucket %q", s.bucket), Err: err}
	switch {
	case isDenied(err):
		what.Err, what.Note = nil, "this login may not look, which sending does not need"
	case err == nil && !exists:
		what.Err = minio.ErrorResponse{Code: minio.NoSuchBucket, Message: "it does not exist", StatusCode: 404}
	}
	if !add(what) {
		return all
	}
	locked := s.checkLock(ctx, add)
	s.checkRights(ctx, locked, add)
	return all
}

func (s *store) proxy() *url.URL {
	u, err := s.transport.Proxy(&http.Request{URL: s.endpoint})
	if err != nil {
		return nil
	}
	return u
}

func (s *store) checkConnection(ctx context.Context, address string) ship.Finding {
	if s.endpoint.Scheme == "http" {
		conn, err := s.transport.DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		f := ship.Finding{What: "connect to " + address, Err: err}
		if err == nil {
			f.Note = "without TLS"
			host, _, _ := net.SplitHostPort(address)
			ip := net.ParseIP(host)
			f.Warning = host != "localhost" && (ip == nil || !ip.IsLoopback())
		}
		return f
	}
	conn, err := s.transport.DialTLSContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return ship.Finding{What: "connect to " + address + " with TLS, and verify its certificate", Err: err}
}

// Differences of clocks: what services refuse, and what is worth a warning.
const (
	refusedSkew = 15 * time.Minute
	warnedSkew  = time.Minute
)

// checkClock compares the clocks. It returns whether there was no answer at all.
func (s *store) checkClock(ctx context.Context) (f ship.Finding, silent bool) {
	f.What = "compare the clocks"
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, s.endpoint.String()+"/", nil)
	if err != nil {
		f.Err = err
		return f, true
	}
	begun := time.Now()
	client := http.Client{Transport: s.transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	answer, err := client.Do(request)
	if err != nil {
		f.Err = err
		return f, true
	}
	answer.Body.Close()
	there, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		f.Note = "the service does not tell its time"
		return f, false
	}
	middle := begun.Add(time.Since(begun) / 2)
	skew := max(middle.Sub(there).Abs()-time.Second, 0).Round(time.Second) // its time has whole seconds
	f.Note = fmt.Sprintf("they differ by %v", skew)
	switch {
	case skew >= refusedSkew:
		f.Err, f.Note = fmt.Errorf("they differ by %v, and requests are refused from %v on", skew, refusedSkew), ""
	case skew >= warnedSkew:
		f.Warning = true
		f.Note += fmt.Sprintf(": requests are refused from %v on", refusedSkew)
	}
	return f, false
}

// checkLock looks at what protects objects, and returns whether versions are kept, and whether they are locked.
func (s *store) checkLock(ctx context.Context, add func(ship.Finding) bool) (locked bool) {
	f := ship.Finding{What: "object lock"}
	enabled, mode, validity, unit, err := s.client.GetObjectLockConfig(ctx, s.bucket)
	asked := s.lock != ""
	switch {
	case err == nil && enabled == "Enabled" && (mode != nil || asked):
		locked = true
		if mode != nil && validity != nil && unit != nil {
			f.Note = fmt.Sprintf("the bucket locks objects for %d %s, %s", *validity, strings.ToLower(string(*unit)),
				strings.ToLower(mode.String()))
		}
		if asked {
			f.Note = strings.TrimPrefix(fmt.Sprintf("%s; object_lock asks for %d days, %s", f.Note,
				s.options.ObjectLock.Days, strings.ToLower(s.lock.String())), "; ")
		}
	case err == nil && enabled == "Enabled":
		f.Warning, f.Note = true, "the bucket has it, but no default, and object_lock is not set: nothing is locked"
	case isDenied(err):
		f.Note = "this login may not look"
		locked = asked
	case asked:
		f.Err = fmt.Errorf("object_lock is set, but bucket %q does not have it", s.bucket)
	case err != nil && !isNoLock(err):
		f.Err = err
	default:
		f.Warning = true
		f.Note = "the bucket does not have it: whoever may delete objects can remove what was shipped"
	}
	add(f)
	return locked
}

func isNoLock(err error) bool {
	r, ok := response(err)
	return ok && (r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusNotImplemented)
}

// checkRights writes an object, and tries to replace and to delete it.
func (s *store) checkRights(ctx context.Context, locked bool, add func(ship.Finding) bool) {
	key := fmt.Sprintf("%s.check/%s-%s", s.prefix, time.Now().UTC().Format("20060102T150405Z"), rand.Text()[:8])
	text := []byte("This was written to try what the login of steno ship may do. It is not a part of a trail.\n")
	b := body{}
	b.add(text, int64(len(text)))
	if !add(ship.Finding{What: fmt.Sprintf("write object %q", key), Err: s.putOnce(ctx, key, &b, sha256.Sum256(text))}) {
		return
	}
	other := bytes.ToUpper(text)
	b = body{}
	b.add(other, int64(len(other)))
	err := s.putOnce(ctx, key, &b, sha256.Sum256(other))
	f := ship.Finding{What: "write it again, which must be refused", Err: err}
	switch {
	case code(err) == minio.PreconditionFailed || code(err) == "ConditionalRequestConflict":
		f.Err = nil
	case err == nil:
		f.Err = errors.New("the service ignores If-None-Match: what was shipped could be overwritten by mistake")
	}
	add(f)
	o := s.putOptions(sha256.Sum256(other))
	info, err := s.client.PutObject(ctx, s.bucket, key, b.reader(), b.size, o)
	f = ship.Finding{What: "replace it without a condition, which this login should not be able to"}
	switch {
	case err != nil:
		f.Note = "refused: " + plain(err).Error()
	case locked || info.VersionID != "":
		f.Note = "it can, but the bucket keeps the version before"
	default:
		f.Warning, f.Note = true, "it can: whoever has this login can replace what was shipped"
	}
	add(f)
	s.checkDelete(ctx, key, info.VersionID, locked, add)
}

// checkDelete tries to delete an object, and its version if the bucket has versions.
func (s *store) checkDelete(ctx context.Context, key, version string, locked bool, add func(ship.Finding) bool) {
	f := ship.Finding{What: "delete it, which this login should not be able to"}
	err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{VersionID: version})
	switch {
	case err != nil:
		f.Note = "refused: " + plain(err).Error() + "; the object stays there"
	case version == "":
		f.Warning, f.Note = true, "it can: whoever has this login can delete what was shipped"
	case locked:
		f.Warning, f.Note = true, "it can, in spite of the object lock"
	default:
		f.Warning, f.Note = true, "it can, all its versions: whoever has this login can delete what was shipped"
	}
	add(f)
}
