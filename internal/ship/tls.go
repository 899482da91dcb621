// Certificates.

package ship

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS says how connections are encrypted. The zero value verifies servers by the system's certificates.
type TLS struct {
	CA         string `yaml:"ca"`          // file with certificates that servers' are verified by, instead of the system's
	Cert       string `yaml:"cert"`        // file with the own certificate
	Key        string `yaml:"key"`         // file with its private key
	ServerName string `yaml:"server_name"` // name that the server's certificate must have, instead of the host's
	// SkipVerify accepts any certificate: for tests only.
	SkipVerify bool `yaml:"skip_verify"`
}

// Config returns the configuration of connections. The files are read now, so that new ones take effect at the next
// connection.
func (t *TLS) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls.ca: %s contains no certificate", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("tls.cert and tls.key belong together")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
