// What a refusal means.

package s3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// explain names what is wrong, if somebody must change something before a service takes anything.
func (s *store) explain(err error) error {
	if err == nil {
		return nil
	}
	named := func(what string, args ...any) error {
		return &ship.PermanentError{What: fmt.Sprintf(what, args...), Err: plain(err)}
	}
	var unknown *net.DNSError
	switch {
	case errors.As(err, new(*ship.PermanentError)):
		return err
	case errors.As(err, new(*loginError)):
		return named("login")
	case isCertificate(err):
		return named("TLS with %s", s.endpoint.Host)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return named("host %s", unknown.Name)
	}
	r, ok := response(err)
	if !ok {
		return err
	}
	switch r.Code {
	case minio.NoSuchBucket, "InvalidBucketName", "PermanentRedirect", "IllegalLocationConstraintException":
		return named("bucket %q at %s", s.bucket, s.endpoint.Host)
	case "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidToken", "NotSignedUp":
		s.creds.Expire()
		return named("access key")
	case "SignatureDoesNotMatch":
		s.creds.Expire()
		return named("secret key")
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		s.creds.Expire()
		return named("session of the login")
	case "RequestTimeTooSkewed", "RequestExpired":
		return named("clock of this machine, or of %s", s.endpoint.Host)
	case "AuthorizationHeaderMalformed", minio.InvalidRegion:
		where := ""
		if r.Region != "" {
			where = fmt.Sprintf(": the bucket is in %q", r.Region)
		}
		return named("region %q%s", s.options.Region, where)
	case minio.AccessDenied, "AllAccessDisabled", "AccountProblem", "UnauthorizedAccess", "AccessForbidden":
		s.creds.Expire()
		return named("rights in bucket %q", s.bucket)
	case "NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRetentionPeriod":
		return named("object lock of bucket %q", s.bucket)
	case "KMS.NotFoundException", "KMS.DisabledException", "KMS.KMSInvalidStateException", "InvalidStorageClass",
		"InvalidEncryptionAlgorithmError", "EntityTooLarge", "QuotaExceeded", "InvalidRequest", "NotImplemented":
		return named("bucket %q", s.bucket)
	}
	switch r.StatusCode {
	case http.StatusForbidden, http.StatusUnauthorized:
		s.creds.Expire()
		return named("rights in bucket %q", s.bucket)
	case http.StatusMovedPermanently:
		return named("region or endpoint of bucket %q", s.bucket)
	}
	return fmt.Errorf("bucket %q: %w", s.bucket, plain(err))
}

func response(err error) (r minio.ErrorResponse, ok bool) {
	ok = errors.As(err, &r)
	return r, ok
}

// code returns the code of a refusal.
func code(err error) string {
	r, _ := response(err)
	return r.Code
}

// plain adds the code of a refusal, which can be looked up, to its text.
func plain(err error) error {
	r, ok := response(err)
	if !ok || r.Code == "" || strings.Contains(r.Error(), r.Code) {
		return err
	}
	return fmt.Errorf("%s: %w", r.Code, err)
}

// noTLS is what the HTTP client makes of an answer without TLS.
const noTLS = "server gave HTTP response to HTTPS client"

// isCertificate returns whether a connection could not be made safe.
func isCertificate(err error) bool {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	return errors.As(err, &verify) || errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid) ||
		errors.As(err, &record) || errors.As(err, &alert) || strings.HasSuffix(err.Error(), noTLS)
}
