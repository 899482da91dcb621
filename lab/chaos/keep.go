// Seals, encryption, retention and steno.on_failure of a round.

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// keeping is the configuration of a round's trail: seals, encryption, retention, and what happens to statements while
// it cannot be written.
type keeping struct {
	sealed    bool
	encrypted bool
	retention bool
	slot      bool // a slot that needs everything, so that nothing may be deleted
	onFailure string
}

func (k *keeping) choose(rng *rand.Rand, set func(name, value string)) {
	k.sealed = rng.IntN(2) == 0
	k.encrypted = rng.IntN(3) == 0
	k.retention = rng.IntN(4) == 0
	k.slot = k.retention && rng.IntN(3) == 0
	k.onFailure = pick(rng, "wait", "wait", "wait", "error", "continue", "shutdown")
	set("steno.seal_interval", pick(rng, "60s", "1s", "0"))
	set("steno.on_failure", k.onFailure)
	if k.retention {
		// small, because the big strings of the load compress well
		set("steno.retention_size", "2MB")
		set("steno.segment_size", "1MB")
		set("steno.compression", "none")
	}
}

func (k *keeping) describe() string {
	var s string
	for _, part := range []struct {
		on   bool
		text string
	}{
		{k.sealed, "sealed"}, {k.encrypted, "encrypted"},
		{k.retention && k.slot, "retention, a slot that needs everything"}, {k.retention && !k.slot, "retention"},
		{k.onFailure != "wait", "on_failure " + k.onFailure},
	} {
		if part.on {
			s += ", " + part.text
		}
	}
	return s
}

// ---- keys, the same for all rounds of a lab ----

func signingKey(lab *cluster.Lab) string { return filepath.Join(lab.Dir, "seal.key") }

func encryptionKey(lab *cluster.Lab) string { return filepath.Join(lab.Dir, "encryption.key") }

func makeKeys(lab *cluster.Lab, steno string) error {
	if out, err := exec.Command(steno, "keygen", "--out", signingKey(lab)).CombinedOutput(); err != nil {
		return fmt.Errorf("steno keygen: %w\n%s", err, out)
	}
	if err := lab.Own(signingKey(lab)); err != nil {
		return err
	}
	if err := os.WriteFile(encryptionKey(lab), []byte(strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600); err != nil {
		return err
	}
	return lab.Own(encryptionKey(lab))
}

// keySettings returns the settings that name files.
func (r *round) keySettings() []cluster.Setting {
	var settings []cluster.Setting
	if r.config.sealed {
		settings = append(settings, cluster.Setting{Name: "steno.signing_key_file", Value: signingKey(r.lab)})
	}
	if r.config.encrypted {
		settings = append(settings, cluster.Setting{Name: "steno.encryption_key_command",
			Value: "cat " + encryptionKey(r.lab)})
	}
	return settings
}

// steno prepares a command of the steno program that can read the trail.
func (r *round) steno(ctx context.Context, args ...string) *exec.Cmd {
	if r.config.encrypted {
		args = append(args, "--encryption-key-file", encryptionKey(r.lab))
	}
	return exec.CommandContext(ctx, r.options.Steno, append(args, r.trail())...)
}

// ---- retention ----

// keepAll creates the slot before the load starts.
func (r *round) keepAll(ctx context.Context) error {
	if r.config.retention && !r.config.slot && r.rng.IntN(2) == 0 {
		// a writer dies during the first deletion
		if err := r.shim.set("kill_before_unlink", 1); err != nil {
			return err
		}
		r.killsAtUnlink = 1
	}
	if !r.config.slot {
		return nil
	}
	if _, err := r.runSQL(ctx, "SELECT steno.flush()"); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, r.options.Steno, "slot", "create", "all",
		r.trail()).CombinedOutput(); err != nil {
		return fmt.Errorf("steno slot create: %w\n%s", err, out)
	}
	return nil
}

// takeDeletion notes what was deleted, by a server record.
func (k *checker) takeDeletion(r *record) {
	if r.Extra["event"] != "deleted" || r.Extra["repeated"] != "" {
		return
	}
	n, err := strconv.ParseUint(r.Extra["records"], 10, 64)
	if err != nil {
		k.complain("a deletion record contains %v", r.Extra)
		return
	}
	k.round.result.deleted += n
	if r.Time.After(k.deletion) {
		k.deletion = r.Time
	}
	if k.round.config.slot {
		k.complain("segments %s to %s of stream %s were deleted, although a slot needs them", r.Extra["first_segment"],
			r.Extra["last_segment"], r.Extra["stream"])
	} else if !k.round.config.retention {
		k.complain("segments were deleted without retention: %v", r.Extra)
	}
}

// deleted reports whether the record of a statement that ended at this time may be in a segment that was deleted by
// policy.
func (k *checker) deleted(ended time.Time) bool {
	return !k.deletion.IsZero() && ended.Before(k.deletion.Add(time.Second))
}

// ---- a server that stops when its trail cannot be written ----

const asksForShutdown = "requests a fast shutdown of the server"

func (r *round) shutdownsAsked() int {
	text, _ := os.ReadFile(r.server.LogFile())
	return bytes.Count(text, []byte(asksForShutdown))
}

// recoverFromShutdown restarts the server if a writer has stopped it. All faults have been lifted, and a successful
// flush shows that no writer has noticed one.
func (r *round) recoverFromShutdown(ctx context.Context) error {
	if r.config.onFailure != "shutdown" {
		return nil
	}
	begun := time.Now()
	for end := begun.Add(limit); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		select {
		case <-r.server.Ended():
			if err := r.waitEnded(ctx); err != nil {
				return err
			}
			if r.shutdownsAsked() == r.shutdowns {
				return nil // another reason, which progress handles
			}
			r.shutdowns = r.shutdownsAsked()
			return r.relaunch(ctx)
		default:
		}
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := r.server.Psql(asking, "SELECT steno.flush()")
		cancel()
		if err == nil && r.shutdownsAsked() == r.shutdowns {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the server neither continues nor stops: %w", err)
		}
		// a fast shutdown of PostgreSQL that is requested during recovery may never complete
		if time.Since(begun) > 20*time.Second && len(r.writers()) == 0 {
			_ = r.server.Signal(syscall.SIGQUIT)
		}
	}
	return ctx.Err()
}
