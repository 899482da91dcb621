// Package scaling implements "steno bench scaling", which computes what recording would cost on a machine that is not
// at hand, from costs that were measured on another one.
//
// model.go has arithmetic (processor time, writers, memory and traffic), and a simulation, in which writers drain
// rings with random arrivals while a disk stops. scaling.go has the flags and prints the tables. docs/scaling.md says
// which of the inputs were measured, and which are assumptions.
package scaling

import (
	"math"
	"math/rand/v2"
)

// Costs are the inputs of the model: what one record costs.
type Costs struct {
	Rate       float64 // records per second and core
	Backend    float64 // processor time of the session for a record, in ns
	Writer     float64 // processor time of the writer for a record, in ns
	Pass       float64 // processor time of a writer's pass, in µs, without records
	Look       float64 // processor time to look at a ring in a pass, in ns
	RingBytes  float64 // bytes of a record in the ring
	TrailBytes float64 // bytes of a record in the trail
	Lines      float64 // cache lines of a record that move from the session's core to the writer's, and back
	Line       float64 // time of such a move where the costs were measured, in ns
	RemoteLine float64 // time of such a move between sockets, in ns
}

// Server is the machine and the settings that are asked about.
type Server struct {
	Cores    int
	Sockets  int
	Sessions int     // that run statements all the time
	Rings    int     // max_connections and the background processes
	RingSize int     // steno.ring_size in bytes
	Interval float64 // steno.flush_interval in ms
	Busy     float64 // share of a core that one writer may take: decides how many there are
}

// Forecast is what the model computes for a server.
type Forecast struct {
	Records      float64 // per second
	Backend      float64 // share of all processor time
	WriterShare  float64 // the same
	Writers      int     // that are needed
	WriterBusy   float64 // share of a core that each of them takes
	Passes       float64 // per second, of each writer
	Trail        float64 // bytes per second
	Between      float64 // bytes per second that move between sockets
	RingMemory   float64 // bytes
	HalfFull     float64 // ms until a session has filled half of its ring, which wakes the writer
	Full         float64 // ms until it has filled all of it
	StallCovered float64 // ms that a writer may stop at the worst moment, before a session of average rate has to wait
}

// A ring has a header and templates beside its data (core/ring/ring.h).
const ringOverhead = 4096 + 16*1024

// reserve is what a session that runs one statement leaves free of its ring, for short records
// (extension/delivery/room.c).
const reserve = 5592

// remoteShare is the share of rings whose session runs on another socket than their writer, if neither is bound to
// one.
func remoteShare(sockets int) float64 {
	return float64(sockets-1) / float64(sockets)
}

// extra is what a record costs one side more than where the costs were measured: its lines come from another socket,
// and neither prefetching nor out-of-order execution hides any of that.
func (c Costs) extra(sockets int) float64 {
	return c.Lines * remoteShare(sockets) * max(0, c.RemoteLine-c.Line)
}

// predict applies the costs to a server.
func predict(c Costs, s Server) Forecast {
	extra := c.extra(s.Sockets)
	f := Forecast{
		Records:    c.Rate * float64(s.Cores),
		RingMemory: float64(s.Rings) * float64(s.RingSize+ringOverhead),
	}
	f.Backend = c.Rate * (c.Backend + extra) / 1e9
	f.Trail = f.Records * c.TrailBytes
	// to the writer, and back when the session writes to these lines again
	f.Between = f.Records * c.Lines * 64 * 2 * remoteShare(s.Sockets)

	each := f.Records / float64(s.Sessions)
	f.HalfFull = float64(s.RingSize-reserve) / 2 / (each * c.RingBytes) * 1000
	f.Full = 2 * f.HalfFull
	// a pass comes after the interval, or when a ring is half full
	before := min(s.Interval, f.HalfFull)
	f.StallCovered = f.Full - before
	f.Passes = 1000 / before

	records := f.Records * (c.Writer + extra) / 1e9
	for f.Writers = 1; ; f.Writers++ {
		looks := float64(s.Sessions) / float64(f.Writers) * c.Look / 1e9
		f.WriterBusy = records/float64(f.Writers) + f.Passes*(c.Pass/1e6+looks)
		if f.WriterBusy <= s.Busy || f.Writers >= maxWriters {
			break
		}
	}
	f.WriterShare = f.WriterBusy * float64(f.Writers) / float64(s.Cores)
	return f
}

// maxWriters is the maximum of steno.writers.
const maxWriters = 32

// capacity is how many records per second a writer can drain that does nothing else.
func (c Costs) capacity(sockets int) float64 {
	return 1e9 / (c.Writer + c.extra(sockets))
}

// roundUp2 is the smallest power of two that is not less than n.
func roundUp2(n float64) int {
	return 1 << int(math.Ceil(math.Log2(max(n, 1))))
}

// ringFor is the smallest ring, in bytes, with which sessions of average rate do not wait while a writer stops for so
// many milliseconds.
func ringFor(c Costs, s Server, stall float64) int {
	each := c.Rate * float64(s.Cores) / float64(s.Sessions)
	perMs := each * c.RingBytes / 1000
	// full - min(interval, full/2) >= stall
	full := max(min(stall+s.Interval, 2*stall), 0)
	return max(16*1024, roundUp2(full*perMs+reserve))
}

// ---- simulation ----

// Load is what the simulation is about: sessions that put records into their rings, and the writers that drain them.
type Load struct {
	Sessions  int
	Writers   int
	Rate      float64 // records per second, of all sessions
	Skew      float64 // session i has a rate proportional to 1/(i+1)^Skew; 0: all the same
	RingBytes float64 // bytes of a record in the ring
	RingSize  float64
	Interval  float64 // ms
	Writer    float64 // ns for each record
	Pass      float64 // µs for each pass
	Look      float64 // ns for each ring and pass
	Seconds   float64
	StallAt   float64 // s
	Stall     float64 // ms for which no writer gets on
	Seed      uint64
}

// Outcome is what happened in a simulation.
type Outcome struct {
	Arrived    float64 // records that were put into rings
	Written    float64
	Left       float64 // in the rings at the end
	Busy       float64 // share of a core that a writer has taken, on average
	Fullest    float64 // share of the ring that was full at most, in any ring
	WaitShare  float64 // share of the sessions' time in which they waited for space
	Waited     int     // sessions that ever did
	LongestAge float64 // ms from a record's arrival in a ring until that ring was freed, at most
}

// The step of the simulation, in ms.
const step = 0.25

// writer is one that drains the rings of its sessions, as extension/writer/writer.c does: it takes what there is,
// frees it when all of it is written, and sleeps, until the interval has passed or a ring is half full.
type writer struct {
	rings   []int
	taken   []float64 // records of each ring in the pass that is running
	running bool
	left    float64 // ms until the pass ends
	sleeps  float64 // ms until the next pass
	nap     float64 // ms: steno.flush_interval, or less while rings are fuller
	busy    float64 // ms
}

// simulate runs a load. Equal loads have equal outcomes.
func simulate(l Load) Outcome {
	random := rand.New(rand.NewPCG(l.Seed, 1))
	rates := shares(l)
	room := math.Floor((l.RingSize - reserve) / l.RingBytes)
	used := make([]float64, l.Sessions)
	since := make([]float64, l.Sessions) // when the oldest record arrived that the next pass takes
	oldest := make([]float64, l.Sessions)
	blocked := make([]bool, l.Sessions) // by a full ring
	waited := make([]bool, l.Sessions)
	writers := make([]*writer, l.Writers)
	for i := range writers {
		writers[i] = &writer{sleeps: l.Interval * float64(i) / float64(l.Writers), nap: l.Interval}
	}
	for i := range used {
		w := writers[i%l.Writers]
		w.rings = append(w.rings, i)
	}
	for _, w := range writers {
		w.taken = make([]float64, len(w.rings))
	}

	var o Outcome
	for now := 0.0; now < l.Seconds*1000; now += step {
		for i := range used {
			n := poisson(random, rates[i]*step/1000)
			if blocked[i] {
				// it does nothing until there is space for the record that it has
				n = 1
			}
			if used[i] == 0 && n > 0 {
				since[i] = now
			}
			free := room - used[i]
			blocked[i] = n > free
			if blocked[i] {
				o.WaitShare += (n - free) / n
				waited[i] = true
				n = free
			}
			used[i] += n
			o.Arrived += n
			o.Fullest = max(o.Fullest, used[i]/room)
		}
		stalled := now >= l.StallAt*1000 && now < l.StallAt*1000+l.Stall
		for _, w := range writers {
			if !stalled {
				w.advance(l, now, room, used, since, oldest, &o)
			}
		}
	}
	for i := range used {
		o.Left += used[i]
		if waited[i] {
			o.Waited++
		}
	}
	o.WaitShare *= step / (l.Seconds * 1000 * float64(l.Sessions))
	for _, w := range writers {
		o.Busy += w.busy / (l.Seconds * 1000) / float64(l.Writers)
	}
	return o
}

// advance is one step of a writer.
func (w *writer) advance(l Load, now, room float64, used, since, oldest []float64, o *Outcome) {
	if !w.running {
		w.sleeps -= step
		if w.sleeps > 0 && !w.halfFull(room, used) {
			return
		}
		w.begin(l, now, room, used, since, oldest)
	}
	w.left -= step
	w.busy += min(step, w.left+step)
	if w.left > 0 {
		return
	}
	w.running = false
	w.sleeps = w.nap
	for k, i := range w.rings {
		if w.taken[k] > 0 {
			o.LongestAge = max(o.LongestAge, now+step-oldest[i])
		}
		used[i] -= w.taken[k]
		o.Written += w.taken[k]
	}
}

func (w *writer) halfFull(room float64, used []float64) bool {
	for _, i := range w.rings {
		if used[i] > room/2 {
			return true
		}
	}
	return false
}

// begin starts a pass over what the rings have now, and chooses the next nap by how full they are.
func (w *writer) begin(l Load, now, room float64, used, since, oldest []float64) {
	records, fullest := 0.0, 0.0
	for k, i := range w.rings {
		w.taken[k] = used[i]
		records += used[i]
		fullest = max(fullest, used[i]/room)
		oldest[i], since[i] = since[i], now
	}
	switch {
	case fullest > 0.5:
		w.nap = max(w.nap/2, 2)
	case fullest < 0.2:
		w.nap += w.nap/4 + 1
	}
	w.nap = min(w.nap, l.Interval)
	w.running = true
	w.left = l.Pass/1e3 + (float64(len(w.rings))*l.Look+records*l.Writer)/1e6
}

// shares are the rates of the sessions.
func shares(l Load) []float64 {
	rates := make([]float64, l.Sessions)
	sum := 0.0
	for i := range rates {
		rates[i] = math.Pow(float64(i+1), -l.Skew)
		sum += rates[i]
	}
	for i := range rates {
		rates[i] *= l.Rate / sum
	}
	return rates
}

// poisson is a random number of arrivals, if so many are expected.
func poisson(random *rand.Rand, expected float64) float64 {
	if expected > 50 {
		// close enough to a normal distribution
		return max(0, math.Round(expected+math.Sqrt(expected)*random.NormFloat64()))
	}
	n, p, limit := 0.0, random.Float64(), math.Exp(-expected)
	for p > limit {
		p *= random.Float64()
		n++
	}
	return n
}
