// Package profile is "steno profile": where the time of a running server goes, and how much of it could be saved.
//
// The data flow like this: a Target is the server (attach.go), with a connection to it
// if there is one (connect.go). perf (record.go), or /proc and the wait events (watch.go),
// fill a Profile with stacks. Each stack is attributed to a cause (attribute.go) in the
// list of causes, which also has their advice (causes.go). The results are a Report with
// the causes ranked, the frames that prove them, and advice (report.go), and files of the
// stacks (flame.go, files.go).
//
// The flame graph is drawn by our own script (flame.js), in one file that needs no server, because it is coloured by
// cause, which other flame graphs do not support. For other programs there are folded.txt and profile.pb.gz, by
// google/pprof.
package profile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/lab/perf"
)

// Stack is a stack of processes of one kind, with the number of times it was seen.
type Stack struct {
	Process string       // kind of process, such as "client backend"
	Frames  []perf.Frame // innermost first; may be empty
	Wait    string       // the server's wait event, such as "IPC:SyncRep", if known
	Waiting bool         // off the processor
	Preempt bool         // off the processor although it could run
	Samples int
	Seconds float64

	cause *Cause
}

// key identifies a stack.
func (s *Stack) key() string {
	var b strings.Builder
	b.WriteString(s.Process)
	b.WriteByte(0)
	b.WriteString(s.Wait)
	if s.Waiting {
		b.WriteByte(1)
	}
	if s.Preempt {
		b.WriteByte(2)
	}
	for _, f := range s.Frames {
		b.WriteByte(0)
		b.WriteString(f.Symbol)
		b.WriteByte(0)
		b.WriteString(f.Object)
	}
	return b.String()
}

// Profile is the set of all samples.
type Profile struct {
	// CPUSeconds and WaitSeconds are how long processors and waits were sampled; 0 if they were not.
	CPUSeconds, WaitSeconds float64
	Stacks                  []*Stack

	index map[string]*Stack
}

// Add counts a stack; its frames are copied if the stack is new.
func (p *Profile) Add(s Stack) {
	if p.index == nil {
		p.index = map[string]*Stack{}
	}
	key := s.key()
	known := p.index[key]
	if known == nil {
		n := s
		n.Frames, n.Samples, n.Seconds = slices.Clone(s.Frames), 0, 0
		n.cause = Attribute(&n)
		known = &n
		p.index[key] = known
		p.Stacks = append(p.Stacks, known)
	}
	known.Samples += s.Samples
	known.Seconds += s.Seconds
}

// average returns the average number of processors or sessions with this stack.
func (p *Profile) average(s *Stack) float64 {
	over := p.CPUSeconds
	if s.Waiting {
		over = p.WaitSeconds
	}
	if over <= 0 {
		return 0
	}
	return s.Seconds / over
}

// sorted returns the stacks, those with the most time first.
func (p *Profile) sorted() []*Stack {
	return slices.SortedFunc(slices.Values(p.Stacks), func(a, b *Stack) int {
		return cmp.Or(cmp.Compare(p.average(b), p.average(a)), strings.Compare(a.key(), b.key()))
	})
}
