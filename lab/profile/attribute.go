// Attributes stacks and waits to causes, by patterns of function names.

package profile

import (
	"path"
	"strings"

	"github.com/pg-steno/pg_steno/lab/perf"
)

// backend is the kind of process that runs a client's statements. Waits are counted only for these and their parallel
// workers: other processes sleep most of the time.
const (
	backend        = "client backend"
	parallelWorker = "parallel worker"
)

// patterns are names or prefixes of names.
type patterns struct {
	exact    map[string]*Cause
	prefixes []prefix
}

type prefix struct {
	text   string
	suffix string // what must also end the name, as in "pgaudit*.so"
	cause  *Cause
}

func (p *patterns) add(c *Cause, names []string) {
	for _, name := range names {
		if start, end, ok := strings.Cut(name, "*"); ok {
			p.prefixes = append(p.prefixes, prefix{start, end, c})
			continue
		}
		if p.exact == nil {
			p.exact = map[string]*Cause{}
		}
		if p.exact[name] == nil {
			p.exact[name] = c
		}
	}
}

// find prefers whole names, then the longest prefix.
func (p *patterns) find(name string) *Cause {
	if c := p.exact[name]; c != nil {
		return c
	}
	best := prefix{}
	for _, q := range p.prefixes {
		if len(name) >= len(q.text)+len(q.suffix) && strings.HasPrefix(name, q.text) && strings.HasSuffix(name,
			q.suffix) &&
			(best.cause == nil || len(q.text) > len(best.text)) {
			best = q
		}
	}
	return best.cause
}

// All patterns of the list of causes, by what they are about.
var (
	owners, generics, objects, processes, waits patterns
	causeByID                                   = map[string]*Cause{}

	isWriting, isPreempted, isReading patterns
)

func init() {
	for _, c := range Causes {
		causeByID[c.ID] = c
		owners.add(c, c.Owner)
		generics.add(c, c.Generic)
		objects.add(c, c.Objects)
		processes.add(c, c.Processes)
		waits.add(c, c.Waits)
	}
	isWriting.add(causeByID[logWrite], writing)
	isPreempted.add(causeByID[starved], preempted)
	isReading.add(causeByID[idle], reading)
}

// Attribute returns the cause of a stack's time.
//
// In a client's backend, the innermost function that a cause owns decides: the clock owns the time of a statement that
// reads it, and the server owns the time of a statement's execution again when the hook of an audit extension has
// called the server. Functions that serve many causes, such as locks, decide only if no owner except the statement's
// own work is around them: the time of a lock for writing WAL belongs to WAL.
func Attribute(s *Stack) *Cause {
	if s.Wait != "" {
		if c := waits.find(s.Wait); c != nil {
			return c
		}
	}
	if s.Waiting {
		if c := attributeWait(s); c != nil {
			return c
		}
	}
	owner, generic := walk(s.Frames)
	if own := processes.find(s.Process); own != nil && (owner == nil || !owner.Strong) {
		return own
	}
	switch {
	case len(s.Frames) == 0 && !s.Waiting:
		return causeByID[running]
	case owner == nil && generic == nil:
		return causeByID[other]
	case owner == nil, generic != nil && (owner.ID == "executor" || owner.ID == "planner"):
		return generic
	}
	return owner
}

// attributeWait handles waits that are not attributed by the functions around them.
func attributeWait(s *Stack) *Cause {
	if s.Preempt {
		return causeByID[starved]
	}
	for _, f := range s.Frames {
		if f.Object == "[kernel.kallsyms]" && isPreempted.find(name(f)) != nil {
			return causeByID[starved]
		}
	}
	for _, f := range s.Frames {
		if c := isReading.find(name(f)); c != nil {
			return c
		}
		if owners.find(name(f)) != nil && !strings.HasPrefix(f.Symbol, "pq_") && !isSystemCall(f) {
			return nil
		}
	}
	return nil
}

// isSystemCall recognizes frames of recv in the C library and the kernel, which do not tell who reads.
func isSystemCall(f perf.Frame) bool {
	return strings.HasPrefix(f.Symbol, "__") || f.Symbol == "recv" || f.Symbol == "send"
}

// walk searches from the innermost frame outwards, up to the first owner.
func walk(stack []perf.Frame) (owner, generic *Cause) {
	wrote := false
	for _, f := range stack {
		symbol := name(f)
		wrote = wrote || isWriting.find(symbol) != nil
		if c := objects.find(path.Base(f.Object)); c != nil {
			owner = c
		} else {
			owner = owners.find(symbol)
		}
		if owner != nil {
			if owner.ID == logFormat && wrote {
				owner = causeByID[logWrite]
			}
			return owner, generic
		}
		if c := generics.find(symbol); c != nil {
			generic = c
		}
	}
	return nil, generic
}

// name returns a function's name without the suffixes that compilers and linkers add.
func name(f perf.Frame) string {
	symbol, _, _ := strings.Cut(f.Symbol, "@@")
	for _, mark := range []string{".constprop.", ".isra.", ".part.", ".cold", ".lto_priv."} {
		symbol, _, _ = strings.Cut(symbol, mark)
	}
	return symbol
}
