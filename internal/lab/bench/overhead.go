// Package bench measures what recording costs a server.
//
// The servers to compare are all up at the same time and get short slices of
// load in turn, in a new order each round. A round's slices are close in time,
// so that their ratios cancel what the machine's other work does to all of
// them; the median over the rounds is quoted with its interval. What is too
// small for throughput to show, the share of CPU samples does (profile.go).
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

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/seal"
)

// Options say what to measure.
type Options struct {
	Load     Load
	Compare  []string // names of variants; the first is the base
	Rounds   int
	Seconds  int               // of a slice
	Settings []cluster.Setting // further ones of every server
	Pause    time.Duration     // after a slice, for writers and the log to catch up
	Renew    int               // after so many rounds the servers are made anew; 0: never
	Budget   time.Duration     // no round begins after it but the first few; 0: no limit
	Profile  ProfileOptions

	Command string // how it was called, for the archive
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
	bytes        int64 // that the servers before this one wrote
	bytesBefore  int64 // of this one, when its rounds began
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
	fast := []cluster.Setting{{Name: "fsync", Value: "off"}, {Name: "shared_buffers", Value: "256MB"}, {Name: "max_wal_size", Value: "8GB"}}
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

// warm makes new servers ready for their first round.
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

// renew puts new servers in the place of all. Where a server's memory and files
// happen to lie makes it faster or slower for as long as it lives, and no number
// of its rounds shows that.
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
	err := b.startServers(ctx, round/b.Options.Renew, func(what string, _ int) { b.progress(what, round*n, b.Options.Rounds*n) })
	if err != nil {
		return err
	}
	return b.warm(ctx, load)
}

// Order says which of n is at a position, from zero, of a round. The order is
// rotated, and turned round in every other round: nobody has always the same
// neighbour or is always first.
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

// settle waits until logs and trails hold what was recorded, and writes a
// checkpoint, so that none comes by itself soon.
func (b *Bench) settle(ctx context.Context) error {
	for _, c := range b.contenders {
		if _, err := c.server.Psql(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	return Sleep(ctx, 1500*time.Millisecond)
}

// TrailDir is where the server's trail is by default.
func TrailDir(s *cluster.Server) string { return filepath.Join(s.DataDir, "pg_steno") }

// written is the size of the variant's log or trail.
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

// TreeSize adds up the bytes of the files below dir; one that goes away meanwhile is none.
func TreeSize(dir string) (int64, error) { return addUp(dir, func(string) int64 { return 0 }) }

// TrailSize is the same of a trail, without the zeros at the end of its segments:
// room for blocks to come.
func TrailSize(dir string) (int64, error) { return addUp(dir, zerosAtEnd) }

// zerosAtEnd is how many bytes of zeros a file ends with; 0 if it cannot be read.
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

// addUp adds up the bytes of the files below dir, but for so many of each.
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

// Sleep waits, but no longer than the context lives.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
