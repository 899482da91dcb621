package cluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func installation(t *testing.T) *Installation {
	t.Helper()
	i, err := Find("")
	if err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	return i
}

func TestServersAreCopiesOfTheTemplateWithTheirOwnSettings(t *testing.T) {
	ctx := context.Background()
	lab, err := NewLab(ctx, installation(t))
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()

	err = lab.Prepare(ctx, nil, func(s *Server) error {
		_, err := s.Psql(ctx, "CREATE TABLE t AS SELECT 42 AS n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"3MB", "it's"} {
		s, err := lab.Start(ctx, "server-"+size, []Setting{{Name: "application_name", Value: size}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Psql(ctx, "SELECT n, current_setting('listen_addresses'), (SELECT reset_val FROM pg_settings WHERE name = 'application_name') FROM t")
		if err != nil {
			t.Fatal(err)
		}
		// psql names itself in application_name.
		if want := "42||psql"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		text, _ := os.ReadFile(filepath.Join(s.DataDir, "lab.conf"))
		if want := fmt.Sprintf("application_name = '%s'", strings.ReplaceAll(size, "'", "''")); !strings.Contains(string(text), want) {
			t.Errorf("settings lack %q:\n%s", want, text)
		}
	}
	dir := lab.Dir
	if err := lab.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the lab's folder is still there: %v", err)
	}
}

func TestStartReportsWhatTheServerSays(t *testing.T) {
	ctx := context.Background()
	lab, err := NewLab(ctx, installation(t))
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	_, err = lab.Start(ctx, "bad", []Setting{{Name: "shared_buffers", Value: "none"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "shared_buffers": "none"`) {
		t.Errorf("got error %v", err)
	}
}

func TestStandbysStreamFromTheirPrimary(t *testing.T) {
	ctx := context.Background()
	lab, err := NewLab(ctx, installation(t))
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	primary, err := lab.Start(ctx, "primary", []Setting{{Name: "synchronous_standby_names", Value: "ANY 1 (one, two)"}})
	if err != nil {
		t.Fatal(err)
	}
	var standbys []*Server
	for _, name := range []string{"one", "two"} {
		s, err := lab.StartStandby(ctx, name, primary, nil)
		if err != nil {
			t.Fatal(err)
		}
		standbys = append(standbys, s)
	}
	if _, err := primary.Psql(ctx, "CREATE TABLE t AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, primary.Conninfo("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := WaitCaughtUp(ctx, conn, 2); err != nil {
		t.Fatal(err)
	}
	for _, s := range standbys {
		if got, err := s.Psql(ctx, "SELECT n, pg_is_in_recovery() FROM t"); got != "42|t" || err != nil {
			t.Errorf("standby \"%s\" answers %q, %v", s.Name, got, err)
		}
	}
	names, err := primary.Psql(ctx, "SELECT string_agg(application_name || ' ' || sync_state, ', ' ORDER BY application_name) FROM pg_stat_replication")
	if want := "one quorum, two quorum"; names != want || err != nil {
		t.Errorf("the primary has standbys %q, %v, want %q", names, err, want)
	}
}

func TestCheckDiskRefusesWhatDoesNotFit(t *testing.T) {
	i := &Installation{}
	if err := i.CheckDisk(1); err != nil {
		t.Error(err)
	}
	if err := i.CheckDisk(1 << 62); err == nil || !strings.Contains(err.Error(), "not enough disk space: about 4398046511104 MB are needed in") {
		t.Errorf("got %v", err)
	}
}

// The test starts itself as a process that starts a server and is killed.
func TestServersAndFilesGoWhenTheirParentIsKilled(t *testing.T) {
	if os.Getenv("STENO_TEST_PARENT") != "" {
		lab, err := NewLab(context.Background(), installation(t))
		if err != nil {
			t.Fatal(err)
		}
		s, err := lab.Start(context.Background(), "orphan", nil)
		if err != nil {
			t.Fatal(err)
		}
		standby, err := lab.StartStandby(context.Background(), "orphan-2", s, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("servers %d %d %s\n", s.PID(), standby.PID(), lab.Dir)
		time.Sleep(time.Minute)
		return
	}
	installation(t)
	parent := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	parent.Env = append(os.Environ(), "STENO_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var primary, standby int
	var dir string
	for in := bufio.NewScanner(out); in.Scan(); {
		if n, _ := fmt.Sscanf(in.Text(), "servers %d %d %s", &primary, &standby, &dir); n == 3 {
			break
		}
	}
	_ = parent.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = parent.Wait()
	if standby == 0 {
		t.Fatal("the child started no servers")
	}
	for _, pid := range []int{primary, standby} {
		if !eventually(func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH || zombie(pid) }) {
			t.Errorf("server %d outlives its parent", pid)
		}
	}
	gone := func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) }
	if !eventually(gone) {
		t.Errorf("\"%s\" outlives its maker", dir)
		os.RemoveAll(dir)
	}
}

func eventually(so func() bool) bool {
	for range 1000 {
		if so() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func zombie(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return strings.Contains(string(stat), ") Z ")
}
