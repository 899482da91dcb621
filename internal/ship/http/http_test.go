//go:build linux

package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/pg-steno/pg_steno/internal/ship"
	shiphttp "github.com/pg-steno/pg_steno/internal/ship/http"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
)

// server is a server that takes lines, and fails at random.
type server struct {
	mu      sync.Mutex
	r       *rand.Rand
	lines   []string
	most    int // bytes of a request; 0: any
	trouble bool
	poison  string
	t       testing.TB
	login   string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.login != "" && r.Header.Get("Authorization") != s.login {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "no: %q", r.Header)
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return // cut
		}
		body = z
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return
	}
	if r.ContentLength != 0 && r.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Errorf("type %q", r.Header.Get("Content-Type"))
	}
	if s.most > 0 && len(text) > s.most {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if s.trouble {
		switch s.r.IntN(12) {
		case 0:
			w.Header().Set("Retry-After", []string{"1", "Mon, 02 Jan 2040 15:04:05 GMT", "soon"}[s.r.IntN(3)])
			w.WriteHeader([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[s.r.IntN(2)])
			return
		case 1:
			w.WriteHeader([]int{500, 502, 504, 408}[s.r.IntN(4)])
			return
		case 2:
			panic(http.ErrAbortHandler)
		case 3: // stored, but the answer does not arrive
			defer panic(http.ErrAbortHandler)
		}
	}
	if s.poison != "" && strings.Contains(string(text), s.poison) {
		w.WriteHeader([]int{400, 422}[s.r.IntN(2)])
		fmt.Fprintf(w, `{"error": "poison"}`)
		return
	}
	for line := range strings.Lines(string(text)) {
		s.lines = append(s.lines, strings.TrimSuffix(line, "\n"))
	}
	w.WriteHeader([]int{200, 201, 202, 204}[s.r.IntN(4)])
}

func transient(t *testing.T) func(error) bool {
	return func(err error) bool {
		var wrong *ship.PermanentError
		return !errors.As(err, &wrong)
	}
}

// TestEverythingArrives sends random events over a network that is cut, to a server that fails.
func TestEverythingArrives(t *testing.T) {
	certs := recordtest.Certificates(t)
	for _, encrypted := range []bool{false, true} {
		for _, zip := range []bool{false, true} {
			t.Run(fmt.Sprintf("tls %v gzip %v", encrypted, zip), func(t *testing.T) {
				r := recordtest.Rand(t)
				events := recordtest.Events(t, r, 1500, "json")
				s := &server{r: rand.New(rand.NewPCG(r.Uint64(), 1)), trouble: true, t: t, most: 700 << 10,
					poison: string(events[r.IntN(len(events))].Line[:60])}
				there := httptest.NewUnstartedServer(s)
				there.Config.ErrorLog = nil
				there.EnableHTTP2 = true
				scheme := "http"
				if encrypted {
					there.StartTLS()
					scheme = "https"
				} else {
					there.Start()
				}
				defer there.Close()
				// the certificate of the test server of Go
				ca := filepath.Join(certs, "ca.pem")
				if encrypted {
					ca = writeCertificate(t, there)
				}
				p := recordtest.Cutting(t, r, there.Listener.Addr().String(), 4<<20)
				sink := recordtest.Open(t, shiphttp.Kind, "to: "+scheme+"://"+p.Address+"/in?token=hunter2",
					fmt.Sprintf("gzip: %v", zip), "timeout: 20s", "tls: {ca: "+ca+", server_name: example.com}")
				refused := recordtest.Deliver(t, r, sink, events, func(err error) bool {
					if strings.Contains(err.Error(), "hunter2") {
						t.Errorf("the error has the secret of the query: %v", err)
					}
					return transient(t)(err)
				})
				isRefused := map[string]bool{}
				for _, one := range refused {
					isRefused[string(one.Event.Line)] = true
					if !strings.Contains(one.Reason, "400 Bad") && !strings.Contains(one.Reason, "413 Request") &&
						!strings.Contains(one.Reason, "422 Unproc") {
						t.Errorf("reason %q", one.Reason)
					}
				}
				var sent []string
				for _, line := range recordtest.Lines(events) {
					if bad := strings.Contains(line, s.poison) || len(line)+1 > s.most; bad != isRefused[line] {
						t.Errorf("refused: %v, and not %v: %.100s", isRefused[line], bad, line)
					} else if !bad {
						sent = append(sent, line)
					}
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				recordtest.InOrder(t, sent, s.lines)
				t.Logf("%d connections were cut, %d events refused", p.Cuts, len(refused))
				if p.Cuts == 0 {
					t.Error("no connection was cut")
				}
			})
		}
	}
}

func writeCertificate(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	recordtest.WriteCertificate(t, path, s.Certificate().Raw)
	return path
}

func TestWhatAStatusMeans(t *testing.T) {
	status, header := 0, http.Header{}
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "echo %s %s %q", r.Header.Get("Authorization"), r.URL, r.Header.Get("X-Key"))
	}))
	defer there.Close()
	t.Setenv("TEST_TOKEN", "hunter2")
	t.Setenv("TEST_KEY", "hunter3")
	for _, c := range []struct {
		status           int
		name, value      string
		permanent, after bool
		wants            string
	}{
		{status: 200}, {status: 204}, {status: 299},
		{status: 301, name: "Location", value: "https://other/x?key=hunter2", permanent: true, wants: "https://other/x"},
		{status: 401, permanent: true, wants: "check bearer"}, {status: 403, permanent: true, wants: "403 Forbidden"},
		{status: 404, permanent: true, wants: "/in: 404 Not Found"}, {status: 405, permanent: true, wants: "405"},
		{status: 415, permanent: true, wants: "gzip: false"},
		{status: 408, wants: "408"}, {status: 500, wants: "500"}, {status: 502, wants: "502"},
		{status: 503, wants: "503"}, {status: 503, name: "Retry-After", value: "7", after: true, wants: "503"},
		{status: 429, wants: "429"}, {status: 429, name: "Retry-After", value: "7", after: true, wants: "429"},
	} {
		status, header = c.status, http.Header{}
		if c.name != "" {
			header.Set(c.name, c.value)
		}
		sink := recordtest.Open(t, shiphttp.Kind, "to: "+there.URL+"/in?key=hunter4", "bearer: {env: TEST_TOKEN}",
			"secret_headers: {X-Key: {env: TEST_KEY}}", "headers: {X-Plain: a}")
		refused, err := sink.SendEvents(context.Background(), []ship.Event{{Line: []byte("{}")}})
		if len(refused) > 0 || c.wants == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%+v: %v, %v", c, refused, err)
		}
		var permanent *ship.PermanentError
		var after *ship.AfterError
		if errors.As(err, &permanent) != c.permanent || errors.As(err, &after) != c.after {
			t.Errorf("%+v: %#v", c, err)
		}
		if after != nil && after.After != 7*time.Second {
			t.Errorf("%+v: after %s", c, after.After)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%d: the error has a secret: %v", c.status, err)
		}
	}
}

func TestErrorsNameTheThingAndNotTheSecret(t *testing.T) {
	certs := recordtest.Certificates(t)
	there := httptest.NewTLSServer(http.NotFoundHandler())
	defer there.Close()
	there.Config.ErrorLog = nil
	closed := "127.0.0.1:" + recordtest.FreePort(t)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	t.Setenv("TEST_TOKEN", "hunter2\nx")
	for _, c := range []struct{ to, more, wants string }{
		{"https://" + closed + "/x?k=hunter2", "gzip: true", "https://" + closed + "/x: dial tcp " + closed +
			": connect: connection refused"},
		{there.URL + "/?k=hunter2", "gzip: true", "the certificate of " + there.Listener.Addr().String() +
			": x509: certificate signed by unknown authority"},
		{there.URL + "/?k=hunter2", "tls: {ca: " + certs + "/ca.pem}", "signed by unknown authority"},
		{there.URL + "/", "bearer: {env: TEST_TOKEN}", "bearer: the secret contains characters"},
		{there.URL + "/", "bearer: {file: /does/not/exist}", "bearer: stat /does/not/exist"},
		{silent.URL + "/a", "timeout: 100ms", "/a: no answer within 100ms"},
		{"https://no-such-host.invalid/", "gzip: true", "no-such-host.invalid"},
	} {
		sink := recordtest.Open(t, shiphttp.Kind, "to: "+c.to, c.more)
		_, err := sink.SendEvents(context.Background(), []ship.Event{{Line: []byte("{}")}})
		if err == nil || !strings.Contains(err.Error(), c.wants) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s, %s:\n got %v\nwant %s", c.to, c.more, err, c.wants)
		}
		if text := recordtest.Findings(sink.Check(context.Background())); strings.Contains(text, "hunter") ||
			!strings.Contains(text, "err=") {
			t.Errorf("%s: %s", c.to, text)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct{ keys, wants string }{
		{"to: https://h/x", ""}, {"to: http://127.0.0.1/x", ""}, {"to: http://[::1]/x", ""},
		{"to: http://localhost:9/x", ""}, {"to: http://h/x", "use TLS, or set insecure"},
		{"to: http://h/x|insecure: true", ""}, {"to: https:///x", "name a host"}, {"to: https:x", "name a host"},
		{"to: https://h|method: GET", "neither POST nor PUT"}, {"to: https://h|bearer: abc", "not written into"},
		{"to: https://h|bearer: {env: A}|user: u", "name one of them"}, {"to: https://h|user: u", "belong together"},
		{"to: https://u@h|password: {env: A}", ""}, {"to: https://u@h|user: x|password: {env: A}", "an option, too"},
		{"to: https://h|headers: {Authorization: x}", "use bearer"}, {"to: https://h|headers: {a b: x}", "not a valid"},
		{"to: https://h|headers: {A: x}|secret_headers: {a: {env: B}}", "there twice"},
		{"to: https://h|secret_headers: {Authorization: {env: B}}", ""},
		{"to: https://h|secret_headers: {Content-Type: {env: B}}", "not set here"},
		{"to: https://h|bearr: {env: A}", "nearest: bearer"}, {"to: https://h|gzip: 3", "right type"},
		{"to: https://h|format: blocks", "HTTP takes json"},
	} {
		_, err := recordtest.TryOpen(shiphttp.Kind, strings.Split(c.keys, "|")...)
		if c.wants == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s:\n got %v\nwant %s", c.keys, err, c.wants)
		}
	}
}

// TestASinkDoesNotChangeItsConfiguration: a configuration that is read again is compared with it.
func TestASinkDoesNotChangeItsConfiguration(t *testing.T) {
	parse := func() *ship.SinkConfig {
		c, err := ship.Parse([]byte("sinks:\n  s:\n    to: http://u@127.0.0.1:1/\n    password: {command: echo x}\n"),
			[]*ship.Kind{shiphttp.Kind})
		if err != nil {
			t.Fatal(err)
		}
		return c.Sinks["s"]
	}
	used := parse()
	sink, err := shiphttp.Kind.Open(used)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = sink.(ship.EventSink).SendEvents(context.Background(), []ship.Event{{Line: []byte("{}")}})
	if before, after := fmt.Sprintf("%+v", parse().Options), fmt.Sprintf("%+v", used.Options); before != after {
		t.Errorf("%s\n%s", before, after)
	}
}

func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	const variable = "STENO_TEST_PROXY"
	if as := os.Getenv(variable); as != "" { // in a process of its own: the library reads the environment once
		sink := recordtest.Open(t, shiphttp.Kind, "to: http://sink.invalid/x", "insecure: true")
		_, err := sink.SendEvents(context.Background(), []ship.Event{{Line: []byte("{}")}})
		text := recordtest.Findings(sink.Check(context.Background()))
		if as == "good" != (err == nil) || strings.Contains(fmt.Sprint(err, text), "hunter2") {
			t.Errorf("%s: %v\n%s", as, err, text)
		}
		return
	}
	s := &server{r: recordtest.Rand(t), t: t}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "http://sink.invalid/x" || r.Header.Get("Proxy-Authorization") == "" {
			t.Errorf("%s %q", r.URL, r.Header)
		}
		s.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	for as, url := range map[string]string{
		"good": "http://u:hunter2@" + proxy.Listener.Addr().String(),
		"bad":  "http://u:hunter2@127.0.0.1:no-port",
		"dead": "http://u:hunter2@127.0.0.1:" + recordtest.FreePort(t),
	} {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), variable+"="+as, "HTTP_PROXY="+url)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if len(s.lines) != 1 {
		t.Errorf("%q arrived", s.lines)
	}
}

// TestNginx has nginx in front of a server: TLS 1.3 with HTTP/2, a login by password, a limit of 100 kB a request.
func TestNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if nginx = "/usr/sbin/nginx"; !exists(nginx) {
			t.Skip("nginx is not installed")
		}
	}
	r := recordtest.Rand(t)
	s := &server{r: r, t: t}
	there := httptest.NewServer(s)
	defer there.Close()
	certs, dir, port := recordtest.Certificates(t), t.TempDir(), recordtest.FreePort(t)
	config := fmt.Sprintf(`daemon off; master_process off; error_log %[1]s/error.log; pid %[1]s/pid;
events {}
http {
  access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f;
  uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen 127.0.0.1:%[2]s ssl http2; ssl_certificate %[3]s/server.pem; ssl_certificate_key %[3]s/server.key;
    ssl_protocols TLSv1.3; client_max_body_size 100k;
    location /in { auth_basic trail; auth_basic_user_file %[1]s/users; proxy_pass %[4]s; }
  }
}`, dir, port, certs, there.URL)
	write(t, filepath.Join(dir, "users"), "steno:{PLAIN}hunter2\n")
	write(t, filepath.Join(dir, "nginx.conf"), config)
	write(t, filepath.Join(dir, "password"), "hunter2\n")
	write(t, filepath.Join(dir, "wrong"), "hunter3\n")
	c := exec.Command(nginx, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	recordtest.WaitForPort(t, port)
	url := "https://localhost:" + port + "/in"
	tls := "tls: {ca: " + certs + "/ca.pem}"
	sink := recordtest.Open(t, shiphttp.Kind, "to: "+url, tls, "user: steno", "password: {file: "+dir+"/password}", "gzip: false")
	findings := recordtest.Findings(sink.Check(context.Background()))
	for _, want := range []string{"resolve localhost: err=<nil>", "TLS with localhost:" + port + `: err=<nil> note="TLS 1.3`,
		"POST without records to " + url + ": err=<nil>", "it agrees with that of this machine"} {
		if !strings.Contains(findings, want) {
			t.Errorf("%s is missing:\n%s", want, findings)
		}
	}
	wrong := recordtest.Open(t, shiphttp.Kind, "to: "+url, tls, "user: steno", "password: {file: "+dir+"/wrong}")
	if text := recordtest.Findings(wrong.Check(context.Background())); !strings.Contains(text, "401 Unauthorized") {
		t.Error(text)
	}
	if _, err := wrong.SendEvents(context.Background(), []ship.Event{{Line: []byte("{}")}}); err == nil ||
		!strings.Contains(err.Error(), "POST "+url+": 401 Unauthorized") || strings.Contains(err.Error(), "hunter") {
		t.Error(err)
	}
	events := recordtest.Events(t, r, 2000, "json")
	refused := recordtest.Deliver(t, r, sink, events, func(error) bool { return false })
	var sent []string
	large := 0
	for _, line := range recordtest.Lines(events) {
		if len(line)+1 > 100<<10 {
			large++
		} else {
			sent = append(sent, line)
		}
	}
	if len(refused) != large {
		t.Errorf("%d are refused, and %d too large", len(refused), large)
	}
	recordtest.InOrder(t, sent, s.lines)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
