// Package web is what the sinks that speak HTTP share: options and logins, requests, what a status means, and checks.
//
// What must stay true: no secret is part of an error, neither one of the options nor one in the query of the URL, not
// even if the server sends it back; a redirect is not followed, because it would take a login, and records, elsewhere;
// what is not encrypted goes to this machine only, unless the options say otherwise.
package web

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/reach"
)

// Options are the options that these sinks have.
type Options struct {
	Login   `yaml:",inline"`
	Gzip    bool          `yaml:"gzip"`    // compress requests
	Timeout ship.Duration `yaml:"timeout"` // of a request, with its answer
	// Insecure allows to send without TLS to other machines, where everybody on the way can read it.
	Insecure bool `yaml:"insecure"`
}

// Defaults are the defaults of the options.
func Defaults() Options { return Options{Gzip: true, Timeout: ship.Duration(30 * time.Second)} }

// Login says who sends: by a token, by a name and a password, or by headers.
type Login struct {
	Bearer        ship.Secret            `yaml:"bearer"` // a token
	User          string                 `yaml:"user"`
	Password      ship.Secret            `yaml:"password"`
	Headers       map[string]string      `yaml:"headers"`        // that each request has
	SecretHeaders map[string]ship.Secret `yaml:"secret_headers"` // those whose values are secrets
}

// keepLogin is how long secrets that were read are used: a command that prints one need not run for each request.
const keepLogin = time.Minute

// reserved are headers that are made of other options, or by the protocol.
var reserved = map[string]string{
	"Authorization": "use bearer, or user and password, or secret_headers", "Proxy-Authorization": "use secret_headers",
	"Cookie": "use secret_headers", "Content-Length": "", "Content-Encoding": "use gzip", "Content-Type": "",
	"Transfer-Encoding": "", "Connection": "", "Host": "", "Te": "",
}

// check refuses what cannot work.
func (l *Login) check() error {
	if l.Bearer.IsSet() && (l.User != "" || l.Password.IsSet()) {
		return errors.New("bearer, and user with password, are two ways to log in: name one of them")
	}
	if (l.User != "") != l.Password.IsSet() {
		return errors.New("user and password belong together")
	}
	if strings.Contains(l.User, ":") {
		return errors.New("user must not contain a colon")
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		key := http.CanonicalHeaderKey(name)
		if why, is := reserved[key]; is {
			return fmt.Errorf("headers.%s: it is not set here%s", name, prefixed("; ", why))
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(l.Headers[name]) || seen[key] {
			return fmt.Errorf("headers.%s: it is not a valid header, or there twice", name)
		}
		seen[key] = true
	}
	for _, name := range slices.Sorted(maps.Keys(l.SecretHeaders)) {
		key := http.CanonicalHeaderKey(name)
		if key == "Authorization" && (l.Bearer.IsSet() || l.User != "") {
			return fmt.Errorf("secret_headers.%s: bearer, or user, already says who logs in", name)
		}
		if _, is := reserved[key]; is && !strings.Contains(reserved[key], "secret_headers") {
			return fmt.Errorf("secret_headers.%s: it is not set here", name)
		}
		if !httpguts.ValidHeaderFieldName(name) || seen[key] {
			return fmt.Errorf("secret_headers.%s: it is not a valid header, or there twice", name)
		}
		seen[key] = true
	}
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Credentials are the headers of a login, as they were read last.
type Credentials struct {
	login   *Login
	header  http.Header
	secrets []string
	until   time.Time
}

// Credentials returns those of a login. It reads no secret.
func (l *Login) Credentials() *Credentials { return &Credentials{login: l} }

// Header returns the headers of a request, and the secrets among them.
func (c *Credentials) Header(ctx context.Context) (header http.Header, secrets []string, err error) {
	if c.header == nil || time.Now().After(c.until) {
		c.header = nil
		if header, err = c.login.read(ctx); err != nil {
			return nil, nil, err
		}
		c.header, c.secrets, c.until = header, c.login.secrets(header), time.Now().Add(keepLogin)
	}
	return c.header.Clone(), c.secrets, nil
}

// Forget has the secrets read again at the next request.
func (c *Credentials) Forget() { c.header = nil }

// secrets returns the values that must not be in an error, in each form that a server may send back.
func (l *Login) secrets(header http.Header) (all []string) {
	plain := map[string]bool{}
	for name := range l.Headers {
		plain[http.CanonicalHeaderKey(name)] = true
	}
	for name, values := range header {
		if plain[name] {
			continue
		}
		all = append(all, values[0])
		if _, token, found := strings.Cut(values[0], " "); found {
			all = append(all, token)
			if pair, err := base64.StdEncoding.DecodeString(token); err == nil {
				_, password, _ := strings.Cut(string(pair), ":")
				all = append(all, password)
			}
		}
	}
	return all
}

func (l *Login) read(ctx context.Context) (http.Header, error) {
	header := http.Header{}
	for name, value := range l.Headers {
		header.Set(name, value)
	}
	set := func(what, name, prefix string, secret *ship.Secret) error {
		value, err := secret.Read(ctx)
		if err == nil && !httpguts.ValidHeaderFieldValue(value) {
			err = errors.New("the secret contains characters that a header cannot have")
		}
		if err != nil {
			return &ship.PermanentError{What: what, Err: err}
		}
		header.Set(name, prefix+value)
		return nil
	}
	for name, secret := range l.SecretHeaders {
		if err := set("secret_headers."+name, name, "", &secret); err != nil {
			return nil, err
		}
	}
	if l.Bearer.IsSet() {
		return header, set("bearer", "Authorization", "Bearer ", &l.Bearer)
	}
	if l.User != "" {
		password, err := l.Password.Read(ctx)
		if err != nil {
			return nil, &ship.PermanentError{What: "password", Err: err}
		}
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(l.User+":"+password)))
	}
	return header, nil
}

// Parse reads the URL of a sink, whose user becomes that of the options, and refuses what cannot work.
func (o *Options) Parse(to string, encrypted func(scheme string) bool) (*url.URL, error) {
	u, err := url.Parse(to)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return nil, errors.New("to: name a host, as in https://host/path")
	}
	if u.User != nil {
		if o.User != "" {
			return nil, errors.New("to: the user is in the URL, and an option, too")
		}
		o.User, u.User = u.User.Username(), nil
	}
	u.Fragment = ""
	if err := o.check(); err != nil {
		return nil, err
	}
	if !encrypted(u.Scheme) && !reach.IsLoopback(u.Hostname()) && !o.Insecure {
		return nil, fmt.Errorf("to: %s: sends records and logins to another machine so that everybody on the way can "+
			"read them: use TLS, or set insecure", u.Scheme)
	}
	return u, nil
}

// Label is a URL as it may be in an error: without user and query, which may be secrets.
func Label(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
