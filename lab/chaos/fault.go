// The table of faults, and how each is injected and ended.

package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/lab/machine"
)

// A fault is something that goes wrong. When inflict returns, the server is running or starting by itself, and no
// process is stopped any more.
type fault struct {
	name    string
	weight  int // 0: only if a mode or the command line requests it
	inflict func(r *round, ctx context.Context) error
}

// faults is initialized below, because some faults use others.
var faults []fault

func init() {
	faults = []fault{
		// processes
		{"backend killed", 8, func(r *round, _ context.Context) error { r.killOneOf(r.backends()); return nil }},
		{"writer killed", 8, func(r *round, _ context.Context) error { r.killOneOf(r.writers()); return nil }},
		{"any child killed", 4, func(r *round, _ context.Context) error { r.killOneOf(r.children()); return nil }},
		{"server killed", 6, (*round).killServer},
		{"killed while it recovers", 6, (*round).killWhileRecovering},
		{"killed while it starts", 5, (*round).killWhileStarting},
		{"writer killed again and again", 4, (*round).killWriterAgain},
		{"writer killed at a write", 6, (*round).killAtWrite},
		{"killed at a rotation", 5, (*round).killAtRotation},
		{"terminated and canceled", 5, (*round).signalBackends},
		{"immediate stop", 4, func(r *round, ctx context.Context) error { return r.stopBy(ctx, syscall.SIGQUIT) }},
		{"fast stop", 4, func(r *round, ctx context.Context) error { return r.stopBy(ctx, syscall.SIGINT) }},
		{"writer terminated", 6, (*round).terminateWriter},
		{"writer stopped", 6, (*round).stopWriter},
		{"fast stop of a stopped writer", 3, (*round).stopServerWithStoppedWriter},
		{"fast stop while it recovers", 4, (*round).stopServerWhileRecovering},
		{"session stopped", 4, (*round).stopSessions},
		// what processes need
		{"writer without descriptors", 4, (*round).exhaustDescriptors},
		{"sessions without memory", 4, (*round).exhaustMemory},
		{"writer without memory", 3, (*round).exhaustWriterMemory},
		// the disk
		{"disk full", 5, (*round).fullDisk},
		{"killed while the disk is full", 4, (*round).killWithFullDisk},
		{"write stops short", 3, lasting("write_stops")},
		{"sync fails", 4, lasting("sync_fails")},
		{"writer replaced after a failed sync", 5, (*round).replaceAfterFailedSync},
		{"sync is slow", 4, lasting("hold_sync")},
		{"write hangs", 4, lasting("hold_write")},
		{"killed while a sync is slow", 4, (*round).killWhileSyncing},
		{"segment cannot be begun", 3, (*round).failRotation},
		{"trail moved away", 4, (*round).moveTrail},
		{"power loss", 0, (*round).powerLoss},
		// actions of administrators
		{"rotation", 4, func(r *round, ctx context.Context) error {
			r.request(ctx, "SELECT steno.rotate()")
			return nil
		}},
		{"reload", 4, (*round).reload},
		{"rules", 3, (*round).changeRules},
	}
}

func faultNames() []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

func findFault(name string) *fault {
	for i := range faults {
		if faults[i].name == name {
			return &faults[i]
		}
	}
	return nil
}

func (r *round) chooseFault() *fault {
	if n := len(r.options.Faults); n > 0 {
		return findFault(r.options.Faults[r.rng.IntN(n)])
	}
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	n := r.rng.IntN(total)
	for i := range faults {
		if n -= faults[i].weight; n < 0 {
			return &faults[i]
		}
	}
	panic("unreachable")
}

// ---- kills ----

// killServer kills the postmaster first, its children first, only the postmaster, or all at once.
func (r *round) killServer(ctx context.Context) error {
	switch r.rng.IntN(4) {
	case 0:
		r.kill(r.server.PID())
	case 1:
		r.kill(r.server.PID())
		r.killRest()
	case 2:
		// while it is stopped, it cannot restart processes that die
		_ = r.server.Signal(syscall.SIGSTOP)
		family := r.children()
		for _, i := range r.rng.Perm(len(family)) {
			_ = syscall.Kill(family[i].pid, syscall.SIGKILL)
		}
		r.kill(r.server.PID())
		r.killRest()
	default:
		r.killAll()
	}
	if err := r.waitEnded(ctx); err != nil {
		return err
	}
	return r.relaunch(ctx)
}

// killWhileRecovering kills processes again that start after a kill, or that drain the rings of the last run.
func (r *round) killWhileRecovering(ctx context.Context) error {
	r.killOneOf(r.backends())
	for range 1 + r.rng.IntN(3) {
		time.Sleep(r.moment(400))
		if r.rng.IntN(2) == 0 {
			r.killOneOf(r.writers())
		} else {
			r.killOneOf(r.children())
		}
	}
	return nil
}

// killWhileStarting kills all processes, and again at a random moment of the next start.
func (r *round) killWhileStarting(ctx context.Context) error {
	for n := 1 + r.rng.IntN(3); n >= 0; n-- {
		r.killAll()
		if err := r.waitEnded(ctx); err != nil {
			return err
		}
		if n > 0 {
			if err := r.server.Launch(); err != nil {
				return err
			}
			time.Sleep(r.moment(400))
		}
	}
	return r.relaunch(ctx)
}

// endWriters ends a writer and its successors, each as soon as it runs or shortly after, this many in all.
func (r *round) endWriters(ctx context.Context, times int, end func(pid int)) error {
	last := 0
	for range times {
		var p process
		err := r.until(ctx, "a writer is running again", func() bool {
			var ok bool
			p, ok = r.oneOf(r.writers())
			return ok && p.pid != last
		})
		if err != nil {
			return err
		}
		time.Sleep(r.moment(60))
		end(p.pid)
		last = p.pid
	}
	return nil
}

// killWriterAgain kills a writer and each of its successors.
func (r *round) killWriterAgain(ctx context.Context) error {
	return r.endWriters(ctx, 2+r.rng.IntN(4), r.kill)
}

// dieAt makes a writer, and its successors, die at a place in its code.
func (r *round) dieAt(ctx context.Context, place string, then func()) error {
	stream := r.rng.IntN(r.config.writers)
	name := fmt.Sprintf("%s.%d", place, stream)
	kills := 1 + r.rng.IntN(3)
	if err := r.shim.set(name, kills); err != nil {
		return err
	}
	then()
	err := r.until(ctx, place+" has occurred", func() bool { return !r.shim.isSet(name) })
	if err == nil {
		r.killed += kills
	}
	return err
}

func (r *round) killAtWrite(ctx context.Context) error {
	return r.dieAt(ctx, pick(r.rng, "kill_before_write", "kill_in_write", "kill_after_write"), func() {})
}

func (r *round) killAtRotation(ctx context.Context) error {
	return r.dieAt(ctx, pick(r.rng, "kill_before_begin", "kill_after_begin"), func() {
		// there must be something to rotate; the session dies with the writer
		go r.request(ctx, "SELECT steno.rotate()")
	})
}

// signalBackends terminates and cancels some backends.
func (r *round) signalBackends(_ context.Context) error {
	for _, p := range r.backends() {
		switch r.rng.IntN(6) {
		case 0:
			_ = syscall.Kill(p.pid, syscall.SIGTERM)
		case 1, 2:
			_ = syscall.Kill(p.pid, syscall.SIGINT)
		}
	}
	return nil
}

// ---- stops ----

func (r *round) stopBy(ctx context.Context, sig syscall.Signal) error {
	_ = r.server.Signal(sig) // it may have stopped by itself because of steno.on_failure
	if err := r.waitEnded(ctx); err != nil {
		return err
	}
	return r.relaunch(ctx)
}

// terminateWriter terminates a writer, and sometimes its successor, too, while the server keeps running: the
// postmaster starts another one.
func (r *round) terminateWriter(ctx context.Context) error {
	return r.endWriters(ctx, 1+r.rng.IntN(2), func(pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) })
}

func (r *round) stopWriter(_ context.Context) error {
	if p, ok := r.oneOf(r.writers()); ok {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
		r.hold(200)
		_ = syscall.Kill(p.pid, syscall.SIGCONT)
	}
	return nil
}

// stopServerWithStoppedWriter requests a fast shutdown while a writer is suspended.
func (r *round) stopServerWithStoppedWriter(ctx context.Context) error {
	for _, p := range r.writers() {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	}
	time.Sleep(r.moment(500))
	if err := r.server.Signal(syscall.SIGINT); err != nil {
		return err
	}
	time.Sleep(r.moment(1000))
	r.resume()
	if err := r.waitEnded(ctx); err != nil {
		return err
	}
	return r.relaunch(ctx)
}

// stopServerWhileRecovering requests a fast shutdown at a random time of a restart after a crash, sometimes with a
// suspended writer. A fast shutdown of PostgreSQL that is requested before its recovery has begun to redo may never
// complete: it waits for a checkpointer that was not told to stop. After a while, the server is killed, as an
// administrator would do.
func (r *round) stopServerWhileRecovering(ctx context.Context) error {
	r.killOneOf(r.backends())
	time.Sleep(r.moment(300))
	if p, ok := r.oneOf(r.writers()); ok && r.rng.IntN(4) > 0 {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	}
	time.Sleep(r.moment(200))
	if err := r.server.Signal(syscall.SIGINT); err != nil {
		return err
	}
	time.Sleep(r.moment(1000))
	r.resume()
	select {
	case <-r.server.Ended():
	case <-time.After(20 * time.Second):
		if left := r.writers(); len(left) > 0 {
			return fmt.Errorf("a writer does not exit\n%s", stacks(left))
		}
		if err := r.server.Signal(syscall.SIGQUIT); err != nil {
			return err
		}
	}
	if err := r.waitEnded(ctx); err != nil {
		return err
	}
	return r.relaunch(ctx)
}

// stopSessions suspends some sessions; some of them are killed then.
func (r *round) stopSessions(_ context.Context) error {
	all := r.backends()
	if len(all) == 0 {
		return nil
	}
	stopped := all[:1+r.rng.IntN(min(len(all), 4))]
	for _, p := range stopped {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	}
	r.hold(200)
	if r.rng.IntN(4) == 0 {
		r.killOneOf(stopped)
	}
	for _, p := range stopped {
		_ = syscall.Kill(p.pid, syscall.SIGCONT)
	}
	return nil
}

// ---- what processes need ----

// exhaustDescriptors leaves a writer no file descriptor, while it begins segments.
func (r *round) exhaustDescriptors(ctx context.Context) error {
	p, ok := r.oneOf(r.writers())
	if !ok {
		return nil
	}
	defer setLimit(p.pid, unix.RLIMIT_NOFILE, 3)()
	r.request(ctx, "SELECT steno.rotate()")
	r.hold(200)
	if r.rng.IntN(3) == 0 {
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	}
	return nil
}

// exhaustMemory lets some sessions allocate hardly any memory.
func (r *round) exhaustMemory(_ context.Context) error {
	for _, p := range r.backends() {
		if r.rng.IntN(3) == 0 {
			defer setLimit(p.pid, unix.RLIMIT_AS, addressSpace(p.pid)+uint64(r.rng.IntN(4)<<18))()
		}
	}
	r.hold(200)
	return nil
}

func (r *round) exhaustWriterMemory(ctx context.Context) error {
	p, ok := r.oneOf(r.writers())
	if !ok {
		return nil
	}
	defer setLimit(p.pid, unix.RLIMIT_AS, addressSpace(p.pid))()
	r.request(ctx, "SELECT steno.rotate()")
	r.hold(200)
	return nil
}

// setLimit sets a limit of a process; the returned function restores it.
func setLimit(pid, resource int, limit uint64) func() {
	var before unix.Rlimit
	if unix.Prlimit(pid, resource, nil, &before) != nil {
		return func() {}
	}
	_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(limit, before.Max), Max: before.Max}, nil)
	return func() { _ = unix.Prlimit(pid, resource, &before, nil) }
}

// addressSpace returns how many bytes a process has mapped.
func addressSpace(pid int) uint64 {
	var pages uint64
	text, _ := os.ReadFile(machine.Here.File(pid, "statm"))
	_, _ = fmt.Sscan(string(text), &pages)
	return pages * uint64(os.Getpagesize())
}

// ---- disks ----

// replaceAfterFailedSync makes a sync fail, and ends its writer: the next one must not believe that what the failed
// one has lost is on disk.
func (r *round) replaceAfterFailedSync(ctx context.Context) error {
	if err := r.shim.set("sync_fails", 1); err != nil {
		return err
	}
	defer r.shim.unset("sync_fails")
	// a reload may have disabled syncs
	for end := time.Now().Add(3 * time.Second); r.shim.isSet("sync_fails") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(r.moment(100))
	switch r.rng.IntN(4) {
	case 0:
		return r.stopBy(ctx, syscall.SIGQUIT)
	case 1:
		r.killOneOf(r.writers())
		return nil
	default:
		if p, ok := r.oneOf(r.writers()); ok {
			_ = syscall.Kill(p.pid, syscall.SIGTERM)
		}
		return nil
	}
}

// lasting returns a fault of the shim that lasts for a while.
func lasting(name string) func(*round, context.Context) error {
	return func(r *round, _ context.Context) error {
		if err := r.shim.set(name, 0); err != nil {
			return err
		}
		r.hold(100)
		r.shim.unset(name)
		return nil
	}
}

// noRoom makes the disk full, really if the trail has a file system of its own; the returned function ends that.
func (r *round) noRoom() (func(), error) {
	if r.config.tmpfs && r.rng.IntN(4) > 0 {
		return r.fillDisk()
	}
	return func() { r.shim.unset("write_fails") }, r.shim.set("write_fails", 0)
}

func (r *round) fullDisk(_ context.Context) error {
	room, err := r.noRoom()
	if err != nil {
		return err
	}
	defer room()
	r.hold(200)
	return nil
}

// killWithFullDisk kills a process, or stops the server, while the disk is full.
func (r *round) killWithFullDisk(ctx context.Context) error {
	room, err := r.noRoom()
	if err != nil {
		return err
	}
	time.Sleep(r.moment(400))
	switch r.rng.IntN(4) {
	case 0:
		r.killOneOf(r.backends())
	case 1:
		r.killOneOf(r.writers())
	case 2:
		err = r.killServer(ctx)
	default:
		err = r.stopBy(ctx, syscall.SIGQUIT)
	}
	time.Sleep(r.moment(1500))
	room()
	return err
}

func (r *round) killWhileSyncing(_ context.Context) error {
	if err := r.shim.set("hold_sync", 0); err != nil {
		return err
	}
	defer r.shim.unset("hold_sync")
	time.Sleep(r.moment(1500))
	r.killOneOf(pick(r.rng, r.writers(), r.backends()))
	time.Sleep(r.moment(300))
	return nil
}

func (r *round) failRotation(ctx context.Context) error {
	if err := r.shim.set("begin_fails", 1+r.rng.IntN(2)); err != nil {
		return err
	}
	defer r.shim.unset("begin_fails")
	r.request(ctx, "SELECT steno.rotate()")
	return nil
}

// moveTrail moves the directory away, and then its contents back. The writers are running meanwhile, and continue with
// new segments.
func (r *round) moveTrail(ctx context.Context) error {
	if r.config.retention {
		return nil // it also contains the slots and the state of retention
	}
	err := r.until(ctx, "the last kill is noticed", func() bool {
		_, err := machine.Here.Process(r.lastKilled)
		return err != nil
	})
	if err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	if _, err := r.runSQL(ctx, "SELECT steno.flush()"); err != nil {
		return err
	}
	away := r.trail() + ".away"
	if err := os.Rename(r.trail(), away); err != nil {
		return err
	}
	r.hold(200)
	return putBack(away, r.trail())
}

// putBack moves the segments of a trail back, where their successors may be already.
func putBack(away, trail string) error {
	files, err := filepath.Glob(filepath.Join(away, "*", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		name, err := filepath.Rel(away, file)
		if err != nil {
			return err
		}
		to := filepath.Join(trail, name)
		if _, err := os.Stat(filepath.Dir(to)); err != nil {
			// the folder as a whole, unless its writer creates one at this moment
			if err := os.Mkdir(trail, 0o700); err == nil {
				err = chownLike(away, trail)
				if err != nil {
					return err
				}
			}
			if os.Rename(filepath.Dir(file), filepath.Dir(to)) == nil {
				continue
			}
		}
		if _, err := os.Stat(file); err != nil {
			continue // already moved with its folder
		}
		if _, err := os.Stat(to); err == nil {
			return fmt.Errorf("\"%s\" is duplicated", name)
		}
		if err := os.Rename(file, to); err != nil {
			return err
		}
	}
	return os.RemoveAll(away)
}

// chownLike changes the owner of a file to that of another.
func chownLike(other, file string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(other, &st); err != nil {
		return err
	}
	return os.Chown(file, int(st.Uid), int(st.Gid))
}

// powerLoss kills all processes at once, and removes what was not synced. The load runs undisturbed for a while
// before, so that earlier stops have no influence.
func (r *round) powerLoss(ctx context.Context) error {
	r.load.calm.Store(true)
	defer r.load.calm.Store(false)
	time.Sleep(r.window() + r.moment(1000))
	r.killAll()
	r.lost = time.Now()
	if err := r.waitEnded(ctx); err != nil {
		return err
	}
	if err := r.losePower(); err != nil {
		return err
	}
	r.back = time.Now()
	return r.relaunch(ctx)
}

// ---- administrators ----

func (r *round) reload(ctx context.Context) error {
	settings := [][2]string{
		{"steno.segment_size", pick(r.rng, "1MB", "64MB")},
		{"steno.compression", pick(r.rng, "lz4", "none")},
		{"steno.start_after", pick(r.rng, "50", "1000", "-1")},
		{"steno.log_start", pick(r.rng, "none", "write", "read")},
		{"steno.log_relation", pick(r.rng, "on", "off")},
		{"steno.log_catalog", "on"},
	}
	if r.config.mode.last == "" {
		settings = append(settings, [2]string{"steno.flush_interval", pick(r.rng, "1", "50", "200", "1000")},
			[2]string{"steno.fsync_interval", pick(r.rng, "0", "100", "1000", "-1")})
	}
	var sql strings.Builder
	for range 1 + r.rng.IntN(3) {
		s := pick(r.rng, settings...)
		fmt.Fprintf(&sql, "ALTER SYSTEM SET %s = '%s';\n", s[0], s[1])
	}
	r.request(ctx, sql.String())
	return r.server.Signal(syscall.SIGHUP)
}

// changeRules loads other rules, or invalid ones that are refused. None of them applies to the load.
func (r *round) changeRules(_ context.Context) error {
	path := filepath.Join(r.dataDir(), "pg_steno_rules.conf")
	var rules strings.Builder
	for range r.rng.IntN(5) {
		fmt.Fprintf(&rules, "%s nobody_%d all all all %s\n", pick(r.rng, "skip", "record"), r.rng.IntN(100),
			pick(r.rng, "all", "read", "read,write public.*"))
	}
	if r.rng.IntN(4) == 0 {
		rules.WriteString("forget everything\n")
	}
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		return err
	}
	if err := r.lab.Own(path); err != nil {
		return err
	}
	return r.server.Signal(syscall.SIGHUP)
}
