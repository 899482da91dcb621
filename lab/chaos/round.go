// A round: its server, clients and faults, and the evidence of a failed one.

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

const (
	faultsInRound = 6
	// limit is the time limit for anything that the server does by itself.
	limit = 90 * time.Second
)

// round is a server, its load, its faults and the results.
type round struct {
	options *Options
	lab     *cluster.Lab
	number  int
	config  *config
	rng     *rand.Rand // random source of the faults

	name   string
	server *cluster.Server
	disk   string // folder or file system of the trail
	rings  string // folder of the ring files
	shim   shim
	load   *load

	done   []string // names of the faults
	killed int
	// requested kills that the shim has not been seen to make
	killsAtUnlink int
	shutdowns     int // shutdowns that writers requested
	lastKilled    int
	lost          time.Time // time of the power loss; zero: none
	back          time.Time // time of the restart after it
	committed     map[string]bool
	result        result
}

func newRound(lab *cluster.Lab, o *Options, n int) (*round, error) {
	r := &round{
		options: o, lab: lab, number: n, config: newConfig(o, n), rng: rounds.Random(o.Seed, n, "faults"),
		name: fmt.Sprintf("round-%d", n), committed: map[string]bool{},
	}
	r.disk = filepath.Join(lab.Dir, fmt.Sprintf("disk-%d", n))
	r.shim = shim{folder: filepath.Join(lab.Dir, fmt.Sprintf("faults-%d", n)), own: lab.Own}
	memory := "/dev/shm"
	if syscall.Access(memory, 2) != nil {
		memory = lab.Dir
	}
	var err error
	if r.rings, err = os.MkdirTemp(memory, "steno-chaos-"); err != nil {
		return nil, err
	}
	for _, dir := range []string{r.disk, r.shim.folder, filepath.Join(r.shim.folder, "durable"),
		filepath.Join(r.shim.folder, "memory")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if r.config.tmpfs && !r.mount() {
		r.config.tmpfs = false
	}
	for _, dir := range []string{r.disk, r.rings, r.shim.folder, filepath.Join(r.shim.folder, "durable"),
		filepath.Join(r.shim.folder, "memory")} {
		if err := lab.Own(dir); err != nil {
			return nil, err
		}
	}
	lab.Env = []string{"LD_PRELOAD=" + faultLibrary(lab), "STENO_FAULTS=" + r.shim.folder}
	return r, nil
}

func (r *round) trail() string { return filepath.Join(r.disk, "trail") }

func (r *round) dataDir() string { return filepath.Join(r.lab.Dir, r.name) }

// Describe returns the settings.
func (r *round) Describe() string {
	s := fmt.Sprintf("mode %s, %d clients, %d writers, rings of %d kB, flush %s, sync %s",
		r.config.mode.name, r.config.clients, r.config.writers, r.config.ringSize, r.config.flush, r.config.fsync)
	if r.config.tmpfs {
		s += ", trail on a small file system"
	}
	if r.config.sync != "" {
		s += ", steno.sync " + r.config.sync
	}
	s += r.config.describe()
	if r.config.parallel {
		s += ", parallel workers, autovacuum"
	}
	return s
}

// Counts returns the counts.
func (r *round) Counts() string {
	s := fmt.Sprintf("%d kills, %s", r.killed, &r.result)
	return s + " (" + strings.Join(r.done, ", ") + ")"
}

// RepeatCommand returns the command that repeats the round.
func (r *round) RepeatCommand() string {
	s := fmt.Sprintf("scripts/chaos --seed %d --first %d --rounds 1", r.options.Seed, r.number)
	if r.options.Mode != "" {
		s += " --mode " + r.options.Mode
	}
	if len(r.options.Faults) > 0 {
		s += fmt.Sprintf(" --fault '%s'", strings.Join(r.options.Faults, ","))
	}
	if r.options.Clients > 0 {
		s += fmt.Sprintf(" --clients %d", r.options.Clients)
	}
	return s
}

// Run runs the round.
func (r *round) Run(ctx context.Context) (wrong string) {
	if err := r.run(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// run does that; the error describes everything that was wrong.
func (r *round) run(ctx context.Context) error {
	settings := append(append([]cluster.Setting{}, fixed...), r.config.settings...)
	settings = append(settings,
		cluster.Setting{Name: "steno.directory", Value: r.trail()},
		cluster.Setting{Name: "steno.ring_directory", Value: r.rings})
	settings = append(settings, r.keySettings()...)
	var err error
	if r.server, err = r.lab.Start(ctx, r.name, settings); err != nil {
		return err
	}
	if err := r.keepAll(ctx); err != nil {
		return err
	}
	r.load = r.startLoad()
	err = r.disturb(ctx)
	if err != nil {
		err = fmt.Errorf("after %s: %w\n%s", strings.Join(r.done, ", "), err, r.processes())
	}
	err = errors.Join(err, r.finish(ctx))
	if r.server != nil && ctx.Err() == nil {
		err = errors.Join(err, r.check(ctx))
	}
	return err
}

// disturb injects one fault after the other while the load is running.
func (r *round) disturb(ctx context.Context) error {
	if err := r.progress(ctx, 20+r.rng.IntN(100)); err != nil {
		return err
	}
	for range 1 + r.rng.IntN(2*faultsInRound-1) {
		if err := r.inflict(ctx, r.chooseFault()); err != nil {
			return err
		}
	}
	if name := r.config.mode.last; name != "" {
		return r.inflict(ctx, findFault(name))
	}
	return nil
}

func (r *round) inflict(ctx context.Context, f *fault) error {
	r.done = append(r.done, f.name)
	if r.options.Verbose {
		fmt.Fprintf(r.options.Out, "  %s %s\n", time.Now().UTC().Format("15:04:05.000"), f.name)
	}
	if err := f.inflict(r, ctx); err != nil {
		return err
	}
	if err := r.recoverFromShutdown(ctx); err != nil {
		return err
	}
	return r.progress(ctx, 20+r.rng.IntN(200))
}

// finish lifts all faults, and ends the load and the server cleanly.
func (r *round) finish(ctx context.Context) error {
	if r.killsAtUnlink > 0 && !r.shim.isSet("kill_before_unlink") {
		r.killed += r.killsAtUnlink
	}
	var wrong []error
	if r.shim.isSet("lied") {
		wrong = append(wrong, fmt.Errorf("what a failed sync had lost was taken for written by a later one"))
	}
	r.shim.lift()
	r.resume()
	select {
	case <-r.server.Ended():
		wrong = append(wrong, r.relaunch(ctx))
	default:
	}
	stopped := make(chan struct{})
	go func() { r.load.stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(answerTimeout + limit):
		wrong = append(wrong, fmt.Errorf("the clients do not finish\n%s", r.processes()))
	}
	if hung := r.load.hanging(); hung != "" {
		wrong = append(wrong, fmt.Errorf("no answer within %s: %s", answerTimeout, hung))
	}
	if len(wrong) == 0 {
		wrong = append(wrong, r.settle(ctx))
	}
	return errors.Join(append(wrong, r.stop(ctx))...)
}

// settle waits until everything is in the trail, and queries what was committed.
func (r *round) settle(ctx context.Context) error {
	marks, err := r.runSQL(ctx, "SELECT steno.flush(); SELECT marker FROM marks")
	if err != nil {
		return err
	}
	for _, m := range strings.Fields(marks) {
		r.committed[m] = true
	}
	return r.until(ctx, "earlier ring files are drained", func() bool { return len(r.ringFiles()) <= 1 })
}

// stop stops the server. Afterwards the rings are empty, except for gaps that terminated sessions could not record any
// more; the next start records these.
func (r *round) stop(ctx context.Context) error {
	if err := r.server.Stop(); err != nil {
		return err
	}
	if len(r.ringFiles()) > 0 {
		err := r.relaunch(ctx)
		if err == nil {
			_, err = r.runSQL(ctx, "SELECT steno.flush()")
		}
		if err == nil {
			err = r.until(ctx, "earlier ring files are drained", func() bool { return len(r.ringFiles()) <= 1 })
		}
		if err = errors.Join(err, r.server.Stop()); err != nil {
			return err
		}
	}
	if left := r.ringFiles(); len(left) > 0 {
		return fmt.Errorf("a clean stop left ring files: %s", strings.Join(left, " "))
	}
	return nil
}

func (r *round) ringFiles() []string {
	files, _ := filepath.Glob(filepath.Join(r.rings, "pg_steno.*", "pg_steno.*"))
	return files
}

// runSQL runs SQL in a separate session, and retries if the server is not up yet or has just lost its sessions.
func (r *round) runSQL(ctx context.Context, sql string) (string, error) {
	for end := time.Now().Add(limit); ; {
		asking, cancel := context.WithDeadline(ctx, end)
		answer, err := r.server.Psql(asking, sql)
		cancel()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return answer, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// request runs SQL once, and ignores errors.
func (r *round) request(ctx context.Context, sql string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, _ = r.server.Psql(ctx, sql)
}

// until polls until the condition is true.
func (r *round) until(ctx context.Context, what string, condition func() bool) error {
	for end := time.Now().Add(limit); !condition(); {
		if time.Now().After(end) {
			return fmt.Errorf("timed out waiting until %s", what)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// progress waits for n answers. A postmaster whose startup process was killed exits, and is started again.
func (r *round) progress(ctx context.Context, n int) error {
	wanted := r.load.acks.Load() + int64(n)
	for again := true; again; {
		again = false
		err := r.until(ctx, "the clients continue", func() bool {
			select {
			case <-r.server.Ended():
				again = true
				return true
			default:
				return r.load.acks.Load() >= wanted
			}
		})
		if err != nil {
			return err
		}
		if !again {
			break
		}
		if tail := r.server.LogTail(20); r.shutdownsAsked() == r.shutdowns &&
			!strings.Contains(tail, "due to startup process failure") {
			return fmt.Errorf("the server exited unexpectedly; the end of its log:\n%s", tail)
		}
		if err := r.relaunch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hold waits for n answers, but not for long, because a fault that lasts may stop the load.
func (r *round) hold(n int) {
	wanted := r.load.acks.Load() + int64(n)
	for end := time.Now().Add(r.moment(1500)); time.Now().Before(end) && r.load.acks.Load() < wanted; {
		time.Sleep(5 * time.Millisecond)
	}
}

// moment returns a random time of at most that many milliseconds, usually a short one.
func (r *round) moment(most int) time.Duration {
	x := r.rng.Float64()
	return time.Duration(x * x * float64(most) * float64(time.Millisecond))
}

// window returns the loss window of the mode "power".
func (r *round) window() time.Duration { return 2*r.config.flush + r.config.fsync }

// flushed returns the beginning of the last steno.flush() that was answered before the power loss.
func (r *round) flushed() time.Time {
	var last time.Time
	for _, c := range r.load.clients {
		for _, s := range c.statements {
			if s.flush && s.outcome == succeeded && s.ended.Before(r.lost) && s.began.After(last) {
				last = s.began
			}
		}
	}
	return last
}

func (r *round) count(t *Totals) {
	t.Faults += len(r.done)
	t.Kills += r.killed
	t.Acknowledged += r.result.acknowledged
	t.Unanswered += r.result.unanswered
	t.Records += r.result.records
	t.Missing += r.result.missing
	t.Accounted += r.result.accounted
	t.Untold += r.result.untold
	t.OldestLost = max(t.OldestLost, r.result.oldestLost)
	t.perMode[r.config.mode.name]++
	t.killsInMode[r.config.mode.name] += r.killed
	t.acknowledgedInMode[r.config.mode.name] += r.result.acknowledged
	for _, name := range r.done {
		t.perFault[name]++
	}
}

// Save copies the evidence of the round to the evidence folder.
func (r *round) Save() (string, error) {
	to := filepath.Join(r.options.Evidence, fmt.Sprintf("%d-%s", r.options.Seed, r.name))
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return "", err
	}
	for name, from := range map[string]string{"trail": r.trail(), "rings": r.rings, "faults": r.shim.folder} {
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if out, err := exec.Command("cp", "-r", from, filepath.Join(to, name)).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	if r.server != nil {
		for name, from := range map[string]string{"server.log": r.server.LogFile(),
			"settings.conf": filepath.Join(r.dataDir(), "lab.conf")} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), text, 0o644)
			}
			if err != nil {
				return "", err
			}
		}
	}
	story := fmt.Sprintf("%s\n%s\n%s\n", r.Describe(), strings.Join(r.done, "\n"), r.RepeatCommand())
	if err := os.WriteFile(filepath.Join(to, "round.txt"), []byte(story), 0o644); err != nil {
		return "", err
	}
	if r.load == nil {
		return to, nil
	}
	return to, r.load.saveLogs(filepath.Join(to, "clients"))
}

// Abandon ends all processes of the round, and removes its files.
func (r *round) Abandon() {
	if r.server != nil {
		r.shim.lift()
		r.resume()
		_ = r.server.Stop()
		_ = os.Remove(r.server.LogFile())
	}
	if r.config.tmpfs {
		_ = syscall.Unmount(r.disk, 0)
	}
	for _, dir := range []string{r.dataDir(), r.disk, r.rings, r.shim.folder} {
		_ = os.RemoveAll(dir)
	}
}
