// A simulation of writers that drain rings, and of a disk that stops for a while.

package scaling

import (
	"math"
	"math/rand/v2"
)

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

// writer is one that drains the rings of its sessions, as extension/writer/writer.c does: it takes what there is, frees
// it when all of it is written, and sleeps, until the interval has passed or a ring is half full.
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
