// Package bench measures what recording costs a server.
//
// All servers run at the same time and get short slices of load in turn, in a new order in each round. The slices of a
// round are close in time, so that ratios between them cancel the influence of other load on the machine; the median
// over the rounds is quoted with its interval. Effects that are too small to show in the throughput show in the share
// of CPU samples (profile.go).
package bench

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// Options determine what is measured.
type Options struct {
	Load     Load
	Compare  []string // names of variants; the first is the base
	Rounds   int
	Seconds  int               // of a slice
	Settings []cluster.Setting // further ones of every server
	Pause    time.Duration     // after a slice, for writers and the log to catch up
	Renew    int               // number of rounds after which the servers are replaced by new ones; 0: never
	Budget   time.Duration     // only the first few rounds begin after it; 0: no limit
	Profile  ProfileOptions

	Command string // the command line, for the archive
	Version string // of steno
	// Progress is called when step done of all begins.
	Progress func(what string, done, all int)
}

// fewRounds are made whatever the budget.
const fewRounds = 3

// Bench is a set of servers that are compared.
type Bench struct {
	Lab     *cluster.Lab
	Options Options

	contenders []*contender
}

// contender is a server of one variant.
type contender struct {
	variant
	name   string // unique: the second "off" is "off-2"
	server *cluster.Server

	transactions int64
	bytes        int64 // written by the servers before this one
	bytesBefore  int64 // written by this one before its rounds began
}

// Open starts the servers. The lab's template is filled with pgbench's tables
// first.
func Open(ctx context.Context, lab *cluster.Lab, o Options) (*Bench, error) {
	b := &Bench{Lab: lab, Options: o}
	seen := map[string]int{}
	for _, name := range o.Compare {
		v, err := findVariant(name, lab.Installation)
		if err != nil {
			return nil, err
		}
		c := &contender{variant: v, name: name}
		if seen[name]++; seen[name] > 1 {
			c.name += "-" + strconv.Itoa(seen[name])
			c.title += " (" + strconv.Itoa(seen[name]) + ")"
		}
		b.contenders = append(b.contenders, c)
	}

	b.progress("pgbench -i, scale "+strconv.Itoa(o.Load.Scale), 0, len(b.contenders)+1)
	fast := []cluster.Setting{{Name: "fsync", Value: "off"}, {Name: "shared_buffers", Value: "256MB"},
		{Name: "max_wal_size", Value: "8GB"}}
	err := lab.Prepare(ctx, fast, func(s *cluster.Server) error {
		if err := writeKey(lab, filepath.Join(s.DataDir, sealKey)); err != nil {
			return err
		}
		_, err := s.Pgbench(ctx, "-iq", "--init-steps=dtgvp", "--scale="+strconv.Itoa(o.Load.Scale))
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, b.startServers(ctx, 0, func(what string, i int) { b.progress(what, i+1, len(b.contenders)+1) })
}

// startServers starts a set of servers, one for each contender, each set in
// another order.
func (b *Bench) startServers(ctx context.Context, set int, progress func(what string, i int)) error {
	n := len(b.contenders)
	for position := range n {
		c := b.contenders[Order(n, set, position)]
		name := c.name
		if set > 0 {
			name += "." + strconv.Itoa(set+1)
		}
		progress("starting "+c.title, position)
		var err error
		if c.server, err = b.Lab.Start(ctx, name, b.settings(c.variant)); err != nil {
			return err
		}
	}
	return nil
}

// sealKey is a file in each server's data folder, for variants with seals.
const sealKey = "steno.key"

func writeKey(lab *cluster.Lab, path string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	pem, err := seal.EncodePrivate(private)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, pem, 0o600); err != nil {
		return err
	}
	return lab.Own(path)
}

func (b *Bench) settings(v variant) []cluster.Setting {
	all := append([]cluster.Setting{}, BaseSettings...)
	all = append(all, v.settings...)
	return append(all, b.Options.Settings...)
}

func (b *Bench) progress(what string, done, all int) {
	if b.Options.Progress != nil {
		b.Options.Progress(what, done, all)
	}
}

// Server returns the server of a variant, or nil.
func (b *Bench) Server(name string) *cluster.Server {
	for _, c := range b.contenders {
		if c.name == name {
			return c.server
		}
	}
	return nil
}

// profiled is the variant whose server's CPU samples are counted, or nil.
func (b *Bench) profiled() *contender {
	for _, c := range b.contenders {
		if c.output == trail {
			return c
		}
	}
	return nil
}

// Measure runs the rounds. The caller summarizes the result.
func (b *Bench) Measure(ctx context.Context, load Load) (*result.Result, error) {
	o := &b.Options
	r := newResult(o, load, b.Lab.Version, append(append([]cluster.Setting{}, BaseSettings...), o.Settings...))
	for _, c := range b.contenders {
		c.transactions, c.bytes = 0, 0
		addVariant(r, c.name, c.title, c.settings)
	}
	if err := b.warm(ctx, load); err != nil {
		return nil, err
	}
	start := time.Now()
	rounds := o.Rounds
	for round := range o.Rounds {
		if o.Budget > 0 && round >= fewRounds && time.Since(start) > o.Budget {
			rounds = round
			break
		}
		if o.Renew > 0 && round > 0 && round%o.Renew == 0 {
			if err := b.renew(ctx, load, round); err != nil {
				return nil, err
			}
		}
		if err := b.round(ctx, load, round, r); err != nil {
			return nil, err
		}
	}
	if err := b.count(ctx); err != nil {
		return nil, err
	}
	for i, c := range b.contenders {
		if c.output != nothing {
			variant := result.Case{"variant": c.name}
			r.Add(rounds, i+1, variant, "written", float64(c.bytes))
			r.Add(rounds, i+1, variant, "bytes", float64(c.bytes)/float64(c.transactions))
		}
	}
	setParameters(r, o, load, rounds)
	return r, nil
}

// warm prepares new servers for their first round.
func (b *Bench) warm(ctx context.Context, load Load) error {
	for _, c := range b.contenders {
		// The first connections read the tables into the cache.
		if _, err := load.run(ctx, c.server, 1); err != nil {
			return err
		}
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	for _, c := range b.contenders {
		var err error
		if c.bytesBefore, err = c.written(); err != nil {
			return err
		}
	}
	return nil
}

// count adds up what the servers wrote in their rounds.
func (b *Bench) count(ctx context.Context) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	for _, c := range b.contenders {
		after, err := c.written()
		if err != nil {
			return err
		}
		c.bytes += after - c.bytesBefore
	}
	return nil
}

// renew replaces all servers by new ones. The placement of a server's memory and files makes it faster or slower for
// its whole life, which no number of rounds with it reveals.
func (b *Bench) renew(ctx context.Context, load Load, round int) error {
	if err := b.count(ctx); err != nil {
		return err
	}
	for _, c := range b.contenders {
		if err := errors.Join(c.server.Stop(), os.RemoveAll(c.server.DataDir)); err != nil {
			return err
		}
	}
	n := len(b.contenders)
	err := b.startServers(ctx, round/b.Options.Renew, func(what string, _ int) {
		b.progress(what, round*n, b.Options.Rounds*n)
	})
	if err != nil {
		return err
	}
	return b.warm(ctx, load)
}

// Order returns which of n is at a position, from zero, of a round. The order is rotated, and reversed in every other
// round, so that none always has the same neighbour or is always first.
func Order(n, round, position int) int {
	if round%2 == 1 {
		position = n - 1 - position
	}
	return (position + round/2) % n
}

// round gives every server a slice.
func (b *Bench) round(ctx context.Context, load Load, round int, r *result.Result) error {
	n := len(b.contenders)
	for position := range n {
		c := b.contenders[Order(n, round, position)]
		b.progress(c.title, round*n+position, b.Options.Rounds*n)
		s, err := load.run(ctx, c.server, b.Options.Seconds)
		if err != nil {
			return err
		}
		addSlice(r, round+1, position+1, c.name, s)
		c.transactions += s.Transactions
		if err := Sleep(ctx, b.Options.Pause); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until everything is in logs and trails, and forces a checkpoint, so that none occurs by itself soon.
func (b *Bench) settle(ctx context.Context) error {
	for _, c := range b.contenders {
		if _, err := c.server.Psql(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	return Sleep(ctx, 1500*time.Millisecond)
}

// TrailDir returns the default directory of the server's trail.
func TrailDir(s *cluster.Server) string { return filepath.Join(s.DataDir, "pg_steno") }

// written returns the size of the variant's log or trail.
func (c *contender) written() (int64, error) {
	switch c.output {
	case serverLog:
		return TreeSize(filepath.Join(c.server.DataDir, "log"))
	case trail:
		return TrailSize(TrailDir(c.server))
	default:
		return 0, nil
	}
}

// TreeSize returns the total size of the files below dir; files that are removed meanwhile are ignored.
func TreeSize(dir string) (int64, error) { return addUp(dir, func(string) int64 { return 0 }) }

// TrailSize does the same for a trail, without preallocated space at the end of its segments.
func TrailSize(dir string) (int64, error) { return addUp(dir, zerosAtEnd) }

// zerosAtEnd returns the number of zero bytes at the end of a file; 0 if it cannot be read.
func zerosAtEnd(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0
	}
	piece := make([]byte, 64<<10)
	for at := end; at > 0; {
		n := min(at, int64(len(piece)))
		at -= n
		if _, err := f.ReadAt(piece[:n], at); err != nil {
			return 0
		}
		if used := bytes.TrimRight(piece[:n], "\x00"); len(used) > 0 {
			return end - at - int64(len(used))
		}
	}
	return end
}

// addUp returns the total size of the files below dir, without the number of bytes that the function returns for each.
func addUp(dir string, without func(path string) int64) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		}
		size += info.Size() - without(path)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot measure \"%s\": %w", dir, err)
	}
	return size, nil
}

// Sleep waits until the time is over or the context ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
