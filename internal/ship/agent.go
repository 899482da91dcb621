// All sinks of a configuration, and what changes when it is read again.

package ship

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/query"
)

// Agent runs the sinks of a configuration.
type Agent struct {
	Log  Log
	Once bool // end when everything is shipped that the trail has

	mu      sync.Mutex
	config  *Config
	running map[string]*running // by the names of the sinks
	failed  map[string]Status   // those that have ended with an error
	ended   chan struct{}       // a sink has ended
}

type running struct {
	runner *Runner
	stop   context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error
}

// Run ships until the context ends. A sink that cannot begin ends, and the others go on. Each configuration that comes
// from reload takes the place of the one before.
func (a *Agent) Run(ctx context.Context, c *Config, reload <-chan *Config) error {
	a.running, a.failed, a.ended = map[string]*running{}, map[string]Status{}, make(chan struct{}, 1)
	if err := os.MkdirAll(c.StateDirectory, 0o700); err != nil {
		return fmt.Errorf("the directory for states, which state_directory names: %w", err)
	}
	a.apply(ctx, c)
	var failed error
	for {
		if err := a.collect(); err != nil {
			failed = err
		}
		switch {
		case len(a.running) == 0 && ctx.Err() != nil:
			return nil
		case len(a.running) == 0:
			return failed
		}
		select {
		case c := <-reload:
			a.apply(ctx, c)
		case <-a.ended:
		}
	}
}

// collect removes the sinks that have ended, and returns an error if one has failed.
func (a *Agent) collect() (failed error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, r := range a.running {
		select {
		case <-r.done:
			delete(a.running, name)
			if r.err != nil {
				a.Log(Error, name, r.err.Error())
				status := r.runner.Status()
				status.Failing = r.err.Error()
				a.failed[name] = status
				failed = errors.New("a sink has ended: see above")
			}
		default:
		}
	}
	return failed
}

// apply ends the sinks that a configuration no longer has, or has otherwise, and begins the new ones.
func (a *Agent) apply(ctx context.Context, c *Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.config
	a.config = c
	all := was != nil && (was.Trail != c.Trail || was.StateDirectory != c.StateDirectory ||
		!slices.Equal(was.EncryptionKeyFile, c.EncryptionKeyFile) ||
		!slices.Equal(was.EncryptionKeyCommand, c.EncryptionKeyCommand))
	for name := range a.failed {
		if c.Sinks[name] == nil {
			delete(a.failed, name)
		}
	}
	for name, r := range a.running {
		if s := c.Sinks[name]; all || s == nil || !same(s, r.runner.Config) {
			r.stop()
			<-r.done
			delete(a.running, name)
		}
	}
	keys := (&query.KeyOptions{Files: c.EncryptionKeyFile, Commands: c.EncryptionKeyCommand}).Keys()
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		if a.running[name] == nil {
			delete(a.failed, name)
			a.running[name] = a.start(ctx, &Runner{Config: c.Sinks[name], Trail: c.Trail, State: c.StateDirectory,
				Keys: keys, Log: a.Log, Once: a.Once})
		}
	}
}

func (a *Agent) start(ctx context.Context, runner *Runner) *running {
	ctx, stop := context.WithCancel(ctx)
	r := &running{runner: runner, stop: stop, done: make(chan struct{})}
	go func() {
		r.err = runner.Run(ctx)
		close(r.done)
		select {
		case a.ended <- struct{}{}:
		default: // Run will look at all
		}
	}()
	return r
}

// same returns whether two configurations of a sink are the same. Kinds have functions, which cannot be compared.
func same(a, b *SinkConfig) bool {
	x, y := *a, *b
	sameKind := x.Kind == y.Kind
	x.Kind, y.Kind = nil, nil
	return sameKind && reflect.DeepEqual(x, y)
}

// Statuses returns how far the sinks are, by name.
func (a *Agent) Statuses() (all []Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.running)) {
		all = append(all, a.running[name].runner.Status())
	}
	for _, name := range slices.Sorted(maps.Keys(a.failed)) {
		all = append(all, a.failed[name])
	}
	return all
}
