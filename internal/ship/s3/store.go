// One PUT, never over something else.

package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// put stores an object, unless it is there already.
func (s *store) put(ctx context.Context, key string, b *body, sum [32]byte) error {
	err := s.putOnce(ctx, key, b, sum)
	if code(err) == minio.PreconditionFailed {
		return s.compare(ctx, key, b.size, sum)
	}
	return s.explain(err)
}

// putOnce stores an object if there is none of this name. It must be a single request: the condition is not part of
// the several ones of an upload in parts.
func (s *store) putOnce(ctx context.Context, key string, b *body, sum [32]byte) error {
	o := s.putOptions(sum)
	o.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.bucket, key, b.reader(), b.size, o)
	return err
}

func (s *store) putOptions(sum [32]byte) minio.PutObjectOptions {
	o := minio.PutObjectOptions{
		DisableMultipart: true, ServerSideEncryption: s.sse, StorageClass: s.options.StorageClass,
		UserMetadata: map[string]string{checksumHeader: base64.StdEncoding.EncodeToString(sum[:])},
	}
	if s.lock != "" {
		o.Mode, o.RetainUntilDate = s.lock, time.Now().UTC().AddDate(0, 0, s.options.ObjectLock.Days)
	}
	return o
}

// checksumHeader is checked by the service, and kept with the object.
const checksumHeader = "x-amz-checksum-sha256"

// compare returns whether an object that is there already is the one that was to be stored. Equal is success: it was
// stored by an attempt whose answer did not arrive, or by another process. If this login may not look, the name has to
// do, which follows from the content.
func (s *store) compare(ctx context.Context, key string, size int64, sum [32]byte) error {
	info, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{Checksum: true})
	if err == nil && info.Size == size && info.ChecksumSHA256 == "" {
		var got [32]byte
		if got, err = s.sumOf(ctx, key); err == nil && got == sum {
			return nil
		}
	}
	switch {
	case isDenied(err):
		return nil
	case err != nil:
		return s.explain(err)
	case info.Size == size && info.ChecksumSHA256 == base64.StdEncoding.EncodeToString(sum[:]):
		return nil
	}
	return &ship.PermanentError{
		What: fmt.Sprintf("object %q in bucket %q", key, s.bucket),
		Err:  errors.New("it is there already, with other content"),
	}
}

// isDenied returns whether a service refuses to show something. Those who may not list are told the same of objects
// that do not exist.
func isDenied(err error) bool {
	r, ok := response(err)
	return ok && (r.StatusCode == 403 || r.Code == minio.AccessDenied)
}

// sumOf reads an object.
func (s *store) sumOf(ctx context.Context, key string) (sum [32]byte, err error) {
	object, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return sum, err
	}
	defer object.Close()
	h := sha256.New()
	_, err = io.Copy(h, object)
	h.Sum(sum[:0])
	return sum, err
}
