// Package scaling implements "steno bench scaling", which computes what recording would cost on a machine that is not
// at hand, from costs that were measured on another one.
//
// model.go is arithmetic: processor time, writers, memory and traffic. simulate.go lets writers drain rings with random
// arrivals, with and without a disk that stops. scaling.go has the flags and prints the tables. docs/scaling.md says
// which of the inputs were measured, and which are assumptions.
package scaling

import "math"

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
const ringOverhead = 4096 + 6*1024

// reserve is what a session that runs one statement leaves free of its ring, for short records
// (extension/delivery/room.c).
const reserve = 5592

// remoteShare is the share of rings whose session runs on another socket than their writer, if neither is bound to one.
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
