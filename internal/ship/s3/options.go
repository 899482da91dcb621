// The bucket, and how it is reached.

package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// Options are the options of this sink.
type Options struct {
	// Endpoint is the URL of the service; the default is Amazon's.
	Endpoint string `yaml:"endpoint"`
	Region   string `yaml:"region"`
	// PathStyle puts the bucket into the path of URLs, and not into the name of the host.
	PathStyle bool `yaml:"path_style"`
	// AccessKey and SecretKey are the login; without them, it is what other programs use, too: the variables
	// AWS_ACCESS_KEY_ID and so on, the profile, the role of the machine.
	AccessKey string      `yaml:"access_key"`
	SecretKey ship.Secret `yaml:"secret_key"`
	Profile   string      `yaml:"profile"`
	// Insecure permits connections without TLS to other machines.
	Insecure     bool       `yaml:"insecure"`
	ObjectLock   ObjectLock `yaml:"object_lock"`
	SSE          string     `yaml:"sse"` // encryption by the service: AES256, aws:kms, or aws:kms:KEY
	StorageClass string     `yaml:"storage_class"`
}

// ObjectLock is for how long nobody may delete an object; none: what the bucket says.
type ObjectLock struct {
	Mode string `yaml:"mode"` // governance or compliance
	Days int    `yaml:"days"`
}

// parameters are the options that a URL may have.
var parameters = map[string]func(o *Options, value string) error{
	"endpoint": func(o *Options, value string) error { o.Endpoint = value; return nil },
	"region":   func(o *Options, value string) error { o.Region = value; return nil },
	"profile":  func(o *Options, value string) error { o.Profile = value; return nil },
	"path_style": func(o *Options, value string) (err error) {
		o.PathStyle, err = strconv.ParseBool(value)
		return err
	},
	"insecure": func(o *Options, value string) (err error) {
		o.Insecure, err = strconv.ParseBool(value)
		return err
	},
}

// parseURL reads s3://bucket/prefix?endpoint=…&region=….
func parseURL(to string, options *Options) (bucket, prefix string, o *Options, err error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "s3" || u.Opaque != "" {
		return "", "", nil, errors.New("it is not a URL such as s3://bucket/prefix")
	}
	if u.User != nil {
		return "", "", nil, errors.New("a login does not belong into the URL")
	}
	copied := *options
	for name, values := range u.Query() {
		set := parameters[name]
		if set == nil {
			return "", "", nil, fmt.Errorf("%s: the URL has no such parameter: use %s", name,
				strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		if err := set(&copied, values[len(values)-1]); err != nil {
			return "", "", nil, fmt.Errorf("%s: %q is neither true nor false", name, values[len(values)-1])
		}
	}
	bucket = u.Host
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return "", "", nil, fmt.Errorf("bucket %q: %w", bucket, err)
	}
	if prefix = strings.Trim(u.Path, "/"); prefix != "" {
		prefix += "/"
		if err := s3utils.CheckValidObjectName(prefix); err != nil || len(prefix) > maxPrefix {
			return "", "", nil, fmt.Errorf("prefix %q: it cannot be part of an object's name", prefix)
		}
	}
	return bucket, prefix, &copied, nil
}

// maxPrefix leaves room for names in keys, which have at most 1024 bytes.
const maxPrefix = 700

// store is a bucket.
type store struct {
	bucket, prefix string
	options        *Options
	endpoint       *url.URL
	client         *minio.Client
	creds          *credentials.Credentials
	transport      *http.Transport
	sse            encrypt.ServerSide
	lock           minio.RetentionMode
}

// Endpoints and regions in the environment, as other programs read them.
var (
	endpointVariables = []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}
	regionVariables   = []string{"AWS_REGION", "AWS_DEFAULT_REGION"}
)

func firstVariable(names []string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// amazon is the default endpoint.
const amazon = "https://s3.amazonaws.com"

// defaultRegion is what services other than Amazon's take.
const defaultRegion = "us-east-1"

// open reads the options. It connects to nothing.
func open(to string, given *Options, t *ship.TLS) (*store, error) {
	bucket, prefix, o, err := parseURL(to, given)
	if err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	s := &store{bucket: bucket, prefix: prefix, options: o}
	if err := s.readOptions(); err != nil {
		return nil, err
	}
	if s.creds, err = login(o, s.endpoint.String() == amazon); err != nil {
		return nil, err
	}
	s.transport = newTransport(t)
	lookup := minio.BucketLookupAuto
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	s.client, err = minio.New(s.endpoint.Host, &minio.Options{
		Creds: s.creds, Secure: s.endpoint.Scheme == "https", Transport: s.transport, Region: o.Region,
		BucketLookup: lookup, TrailingHeaders: true, MaxRetries: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	return s, nil
}

func (s *store) readOptions() error {
	o := s.options
	if o.Endpoint == "" {
		o.Endpoint = firstVariable(endpointVariables)
	}
	if o.Endpoint == "" {
		o.Endpoint = amazon
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.User != nil || u.RawQuery != "" {
		return errors.New("endpoint: it is not a URL such as https://s3.example.com, without a path")
	}
	s.endpoint = &url.URL{Scheme: u.Scheme, Host: u.Host}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && !o.Insecure && u.Hostname() != "localhost" &&
		(ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("endpoint: %s is not on this machine, so the connection must have TLS: use https, or "+
			"insecure: true", u.Hostname())
	}
	if o.Region == "" {
		o.Region = firstVariable(regionVariables)
	}
	if o.Region == "" && s.endpoint.String() != amazon {
		o.Region = defaultRegion
	}
	if (o.AccessKey == "") != !o.SecretKey.IsSet() {
		return errors.New("access_key and secret_key belong together")
	}
	if o.AccessKey != "" && o.Profile != "" {
		return errors.New("profile: there are access_key and secret_key, too")
	}
	switch mode := strings.ToUpper(o.ObjectLock.Mode); {
	case o.ObjectLock == ObjectLock{}:
	case !minio.RetentionMode(mode).IsValid():
		return fmt.Errorf("object_lock.mode: %q is neither governance nor compliance", o.ObjectLock.Mode)
	case o.ObjectLock.Days < 1 || o.ObjectLock.Days > 100*366:
		return errors.New("object_lock.days must be from 1 to 36600")
	default:
		s.lock = minio.RetentionMode(mode)
	}
	return s.readSSE()
}

func (s *store) readSSE() (err error) {
	kind, key, hasKey := strings.Cut(s.options.SSE, "aws:kms:")
	switch {
	case s.options.SSE == "":
	case s.options.SSE == "AES256":
		s.sse = encrypt.NewSSE()
	case s.options.SSE == "aws:kms":
		s.sse, err = encrypt.NewSSEKMS("", nil)
	case hasKey && kind == "" && key != "":
		s.sse, err = encrypt.NewSSEKMS(key, nil)
	default:
		err = fmt.Errorf("sse: %q is not AES256, aws:kms, or aws:kms:KEY", s.options.SSE)
	}
	return err
}

// Times after which a connection that does nothing counts as broken. What is being sent may take longer.
const (
	dialTime   = 15 * time.Second
	answerTime = 2 * time.Minute
)

// newTransport returns how connections are made. Certificates are read for each, so that new ones take effect.
func newTransport(t *ship.TLS) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second}
	tr := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, MaxIdleConnsPerHost: 2 * atOnce,
		IdleConnTimeout: time.Minute, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: answerTime,
		ExpectContinueTimeout: 10 * time.Second, DisableCompression: true,
		WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
	}
	tr.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialTLS(ctx, dialer, t, network, address)
	}
	return tr
}
