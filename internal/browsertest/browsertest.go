//go:build unix

// Package browsertest looks at generated pages in a real browser, for tests.
package browsertest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Open opens "/" of a handler in Chromium, in the light or the dark color scheme and in a window of this size
// (WIDTH,HEIGHT). It returns the page as it is after its scripts have run, the browser's log with what the page wrote
// to the console, and the paths that were requested. The browser has no network except this machine's own. The test is
// skipped where there is no Chromium.
func Open(t *testing.T, handler http.Handler, size string, dark bool) (dom, log string, asked []string) {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium: Debian's package chromium has it")
	}
	var lock sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	profile, err := os.MkdirTemp("", "steno-browser-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile)
	scheme := 1
	if dark {
		scheme = 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--enable-logging=stderr", "--log-level=0", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir="+profile, "--window-size="+size, "--hide-scrollbars",
		"--blink-settings=preferredColorScheme="+strconv.Itoa(scheme), "--dump-dom", server.URL+"/")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	// All processes of its group are killed with it, including those that it leaves behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = group, 5*time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		_ = group()
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &errOut)
	}
	server.Close()
	slices.Sort(asked)
	return out.String(), errOut.String(), asked
}
