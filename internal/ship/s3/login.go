// Keys.

package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// login returns where keys come from. The role of the machine is only asked for where there may be one, because a
// machine that is not Amazon's answers that question late, or never.
func login(o *Options, amazon bool) (*credentials.Credentials, error) {
	if o.AccessKey != "" {
		return credentials.New(&keys{access: o.AccessKey, secret: o.SecretKey}), nil
	}
	c := &chain{}
	if o.Profile == "" {
		c.providers = append(c.providers, &credentials.EnvAWS{})
	}
	c.providers = append(c.providers, &credentials.FileAWSCredentials{Profile: o.Profile})
	role := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" ||
		os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" ||
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != ""
	if o.Profile == "" && (amazon || role) {
		c.providers = append(c.providers, &credentials.IAM{Client: nil})
	}
	return credentials.New(c), nil
}

// keepKeys is for how long keys of the configuration are used before they are read again. After a refusal, they are
// read at once.
const keepKeys = 5 * time.Minute

// keys are the keys of the configuration.
type keys struct {
	credentials.Expiry
	access string
	secret ship.Secret
}

// RetrieveWithCredContext reads the secret key.
func (k *keys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return k.Retrieve()
}

// Retrieve reads the secret key.
func (k *keys) Retrieve() (credentials.Value, error) {
	secret, err := k.secret.Read(context.Background())
	if err != nil {
		return credentials.Value{}, &loginError{fmt.Errorf("secret_key: %w", err)}
	}
	k.SetExpiration(time.Now().Add(keepKeys), 0)
	return credentials.Value{AccessKeyID: k.access, SecretAccessKey: secret, SignerType: credentials.SignatureV4}, nil
}

// chain is the first of several places that has keys. Unlike that of the library, it never goes on without any.
type chain struct {
	providers []credentials.Provider
	found     credentials.Provider
}

// A loginError says that there are no keys.
type loginError struct{ error }

func (e *loginError) Unwrap() error { return e.error }

// RetrieveWithCredContext asks one place after the other.
func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	var errs []error
	for _, p := range c.providers {
		value, err := p.RetrieveWithCredContext(cc)
		if err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
			c.found = p
			return value, nil
		}
		if path := (*os.PathError)(nil); err != nil && !errors.As(err, &path) {
			errs = append(errs, err)
		}
	}
	err := errors.New("there are no keys: name access_key and secret_key, or set AWS_ACCESS_KEY_ID and " +
		"AWS_SECRET_ACCESS_KEY, or use a profile")
	return credentials.Value{}, &loginError{errors.Join(append([]error{err}, errs...)...)}
}

// Retrieve does the same.
func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

// IsExpired returns whether new keys are needed.
func (c *chain) IsExpired() bool { return c.found == nil || c.found.IsExpired() }

// dialTLS connects, and verifies the server.
func dialTLS(ctx context.Context, dialer *net.Dialer, t *ship.TLS, network, address string) (net.Conn, error) {
	config, err := t.Config()
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	plain, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, err
	}
	return conn, nil
}
