// Requests, and what answers mean.

package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/parts"
	"github.com/pg-steno/pg_steno/internal/ship/reach"
)

// Client sends requests to one URL. One goroutine uses it.
type Client struct {
	URL     *url.URL // http or https
	Label   string   // the URL as it may be in errors
	options *Options
	login   *Credentials
	tls     *ship.TLS
	http    *http.Client // nil: the next request makes one, with certificates as they are then
	zip     *gzip.Writer
	zipped  bytes.Buffer
}

// New returns a client. It connects to nothing.
func New(u *url.URL, label string, o *Options, t *ship.TLS) (*Client, error) {
	zip, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return &Client{URL: u, Label: label, options: o, login: o.Credentials(), tls: t, zip: zip}, err
}

// Close ends the connections.
func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
		c.http = nil
	}
}

// Proxy is what the environment says. An error would contain the proxy's URL, which may have a password.
func Proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy that the environment names is not a URL")
	}
	return u, nil
}

func (c *Client) connect() error {
	if c.http != nil {
		return nil
	}
	config, err := c.tls.Config()
	if err != nil {
		return err
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: Proxy, TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConns: 2,
			DialContext:     (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// Response is an answer.
type Response struct {
	Status  int
	Header  http.Header
	Body    []byte // its beginning
	TLS     *tls.ConnectionState
	label   string
	method  string
	secrets []string
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// body is the body of a request. The transport may read it until it closes it, which may be after an answer.
type body struct {
	bytes.Reader
	once sync.Once
	open *sync.WaitGroup
}

func (b *body) Close() error {
	b.once.Do(b.open.Done)
	return nil
}

// Do sends a request. It returns when nothing of content is used any more.
func (c *Client) Do(ctx context.Context, method, contentType string, content []byte) (*Response, error) {
	header, secrets, err := c.login.Header(ctx)
	if err == nil {
		err = c.connect()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Label, err)
	}
	header.Set("Content-Type", contentType)
	header.Set("User-Agent", "steno-ship")
	// The transport may send it again when a connection that was idle turns out to be closed.
	header["Idempotency-Key"] = nil
	if c.options.Gzip && len(content) > 0 {
		c.zipped.Reset()
		c.zip.Reset(&c.zipped)
		if _, err = c.zip.Write(content); err == nil {
			err = c.zip.Close()
		}
		if err != nil {
			return nil, err
		}
		content = c.zipped.Bytes()
		header.Set("Content-Encoding", "gzip")
	}
	var open sync.WaitGroup
	defer open.Wait()
	limited, cancel := context.WithTimeout(ctx, time.Duration(c.options.Timeout))
	defer cancel()
	r := (&http.Request{Method: method, URL: c.URL, Header: header, ContentLength: int64(len(content))}).
		WithContext(limited)
	r.GetBody = func() (io.ReadCloser, error) {
		open.Add(1)
		return &body{Reader: *bytes.NewReader(content), open: &open}, nil
	}
	if len(content) > 0 {
		r.Body, _ = r.GetBody()
	} else {
		r.GetBody = nil
	}
	answer, err := c.http.Do(r)
	if err != nil {
		c.Close() // the next attempt reads certificates again
		return nil, c.failed(limited, ctx, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil && answer.StatusCode/100 == 2 {
		return nil, c.failed(limited, ctx, err)
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		c.login.Forget()
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: text, TLS: answer.TLS, label: c.Label,
		method: method, secrets: append(secrets[:len(secrets):len(secrets)], c.URL.RawQuery)}, nil
}

// failed is the error of a request without an answer. That of the library contains the URL.
func (c *Client) failed(limited, ctx context.Context, err error) error {
	if in := (*url.Error)(nil); errors.As(err, &in) {
		err = in.Err
	}
	if limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: no answer within %s", c.Label, time.Duration(c.options.Timeout))
	}
	err = fmt.Errorf("%s: %w", c.Label, err)
	if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
		return &ship.PermanentError{What: "the certificate of " + c.URL.Host, Err: wrong.Err}
	}
	return err
}

// Reason is what the answer says, fit for an error.
func (r *Response) Reason() string {
	reason := strconv.Itoa(r.Status) + " " + http.StatusText(r.Status)
	if text := parts.Reason(string(r.Body), r.secrets); text != "" {
		reason += ": " + text
	}
	return reason
}

// Err returns what the status says: nil for success.
func (r *Response) Err() error {
	err := fmt.Errorf("%s: %s", r.label, r.Reason())
	switch {
	case r.Status/100 == 2:
		return nil
	case r.Status == http.StatusRequestEntityTooLarge:
		return &parts.RefusedError{Reason: r.Reason(), Large: true}
	case r.Status == http.StatusBadRequest || r.Status == http.StatusUnprocessableEntity:
		return &parts.RefusedError{Reason: r.Reason()}
	case r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable:
		if after := RetryAfter(r.Header.Get("Retry-After"), time.Now()); after > 0 {
			return &ship.AfterError{After: after, Err: err}
		}
		return err
	case r.Status/100 == 5 || r.Status == http.StatusRequestTimeout || r.Status == http.StatusTooEarly:
		return err
	case r.Status/100 == 3:
		at := "elsewhere"
		if to, bad := url.Parse(r.Header.Get("Location")); bad == nil && to.Host != "" {
			at = "to " + parts.Reason(Label(to), r.secrets)
		}
		err = fmt.Errorf("%d %s: it redirects %s: use the final URL", r.Status, http.StatusText(r.Status), at)
	case r.Status == http.StatusUnauthorized:
		err = fmt.Errorf("%s: check bearer, or user and password", r.Reason())
	case r.Status == http.StatusUnsupportedMediaType:
		err = fmt.Errorf("%s: if it does not know gzip, set gzip: false", r.Reason())
	default:
		err = errors.New(r.Reason())
	}
	return &ship.PermanentError{What: r.method + " " + r.label, Err: err}
}

// RetryAfter reads the header of this name: seconds, or a time; 0 if it is neither.
func RetryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(min(n, 1<<30)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// Check looks up the host, and sends a request without an event. judge returns what is wrong with the answer.
func (c *Client) Check(ctx context.Context, method, contentType string, judge func(*Response) error) []ship.Finding {
	var all []ship.Finding
	through, err := Proxy(&http.Request{URL: c.URL})
	switch {
	case err != nil:
		return append(all, ship.Finding{What: "the proxy of the environment", Err: err})
	case through != nil:
		all = append(all, ship.Finding{What: "use the proxy of the environment", Note: through.Host})
	default:
		f, found := reach.Resolve(ctx, c.URL.Hostname())
		if all = append(all, f); !found {
			return all
		}
	}
	begun := time.Now()
	answer, err := c.Do(ctx, method, contentType, nil)
	if err != nil {
		return append(all, ship.Finding{What: method + " without records", Err: err})
	}
	if answer.TLS != nil {
		all = append(all, reach.Certificate(c.URL.Host, answer.TLS, !c.tls.SkipVerify))
	} else if !reach.IsLoopback(c.URL.Hostname()) {
		all = append(all, ship.Finding{What: "no TLS: everybody on the way can read the records", Warning: true})
	}
	f := ship.Finding{What: method + " without records to " + c.Label, Note: answer.Reason()}
	if f.Err = judge(answer); f.Err != nil {
		f.Note = ""
	}
	all = append(all, f)
	if f, known := reach.Clock(answer.Header.Get("Date"), begun.Add(time.Since(begun)/2)); known {
		all = append(all, f)
	}
	return all
}
