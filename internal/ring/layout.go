// Package ring reads the ring file of a server, usually one that has crashed. It was written from format/RING.md
// alone, and shares no code with the server.
//
//	layout.go   the positions of fields, by version
//	file.go     the file: header, intents, rings
//	message.go  the messages in a ring
//	live.go     rings of a running server
//
// What must stay true: nothing here trusts its input, and nothing is written.
package ring

import "maps"

// layout has the positions of fields in files of one version. Offsets are those in format/RING.md, with which a
// test compares them.
type layout struct {
	file     map[string]field
	intent   map[string]field
	ring     map[string]field
	inFlight map[string]field
	template map[string]field
	// sizes
	fileSize, intentSize, ringSize, inFlightSize, templateSize int
	templates                                                  int  // in each ring
	chunks                                                     bool // data parts may be in chunks
}

type field struct{ offset, size int }

const (
	magic      = 0x474e49524e455453 // "STENRING"
	page       = 4096
	maxWriters = 64
	minSize    = 16 << 10 // of a ring
	maxSize    = 64 << 20
	sessionMax = 1000
	chunkSize  = 64 << 10
	maxChunks  = 1024
	// maxFile bounds the size of the file: no server has more than 2^18 rings of 64 MiB.
	maxFile = 1 << 44
)

// recoveryIntent is the index of the intent for recovery.
const recoveryIntent = maxWriters - 1

// Kinds of valid intents: a block of messages, or, from intentEnds on, a block that ends the sessions of kind -
// intentEnds rings.
const (
	intentMessages = 1
	intentEnds     = 2
)

var version2 = layout{
	fileSize: 4224, intentSize: 64, ringSize: 4096, inFlightSize: 296,
	file: map[string]field{
		"magic": {0, 8}, "version": {8, 4}, "nrings": {12, 4}, "size": {16, 4}, "nwriters": {20, 4},
		"ring_stride": {24, 4}, "postmaster": {28, 4}, "system_identifier": {32, 8}, "created": {40, 8},
		"rings_offset": {48, 8}, "data_offset": {56, 8}, "total": {64, 8}, "intents": {128, 4096},
	},
	intent: map[string]field{
		"valid": {0, 4}, "stream": {4, 4}, "segment": {8, 8}, "offset": {16, 8}, "block": {24, 8}, "hash": {32, 32},
	},
	ring: map[string]field{
		"head": {0, 8}, "records": {8, 8}, "waits": {16, 8}, "drops": {24, 8}, "wait_us": {32, 8}, "asleep": {40, 4},
		"gap": {48, 8}, "gap_first": {56, 8}, "gap_last": {64, 8},
		"tail": {128, 8}, "pending": {136, 8}, "session_len": {144, 4}, "session_seq": {152, 8},
		"session_statement": {160, 8},
		"owner":             {192, 4}, "owner_flags": {196, 4},
		"inflight": {256, 296}, "session": {576, 1000}, "own": {1600, 2496},
	},
	inFlight: map[string]field{
		"version": {0, 4}, "active": {4, 4}, "done": {8, 8}, "statement": {16, 8}, "time": {24, 8},
		"text_len": {32, 4}, "text_kept": {36, 4}, "staged": {40, 4}, "position": {48, 8},
		"announced": {56, 8}, "text": {64, 232},
	},
}

// version3 adds fields, one of which moves others.
var version3 = func() layout {
	l := version2
	l.ring = maps.Clone(l.ring)
	l.ring["gap_reason"] = field{44, 4}
	l.ring["gap_start"] = field{72, 8}
	l.ring["gap_pid"] = field{80, 4}
	l.ring["own_gap"] = field{88, 8}
	l.ring["own_first"] = field{96, 8}
	l.ring["own_last"] = field{104, 8}
	l.ring["owner_start"] = field{112, 8}
	l.ring["durable"] = field{144, 8}
	l.ring["session_len"] = field{152, 4}
	l.ring["session_seq"] = field{160, 8}
	l.ring["session_statement"] = field{168, 8}
	l.ring["orphan_drops_recorded"] = field{176, 8}
	l.ring["orphan_drops_pending"] = field{184, 8}
	l.ring["orphan_drops"] = field{200, 8}
	l.ring["orphan_drops_next"] = field{208, 8}
	l.ring["orphan_drops_reason"] = field{216, 4}
	return l
}()

// version4 adds templates, to which brief records refer.
var version4 = func() layout {
	l := version3
	l.file = maps.Clone(l.file)
	l.file["templates_offset"] = field{72, 8}
	l.templates, l.templateSize = 6, 320
	l.template = map[string]field{
		"version": {0, 2}, "shape_len": {2, 2}, "text_len": {4, 2}, "needed_until": {8, 8}, "bytes": {16, 304},
	}
	return l
}()

// version5 has longer templates.
var version5 = func() layout {
	l := version4
	l.templateSize = 1024
	l.template = maps.Clone(l.template)
	l.template["bytes"] = field{16, 1008}
	return l
}()

// version6 adds chunks, to which data parts refer.
var version6 = func() layout {
	l := version5
	l.file = maps.Clone(l.file)
	l.file["chunks_offset"] = field{80, 8}
	l.file["chunks"] = field{88, 4}
	l.file["chunk_size"] = field{92, 4}
	l.chunks = true
	return l
}()

// version8 adds templates for statements of functions.
var version8 = func() layout {
	l := version6
	l.templates = 10
	return l
}()

// version9 adds templates for statements that clients repeat, perhaps with other constants.
var version9 = func() layout {
	l := version8
	l.templates = 16
	l.template = maps.Clone(l.template)
	l.template["own_at"] = field{6, 2}
	return l
}()

// version10 adds StenoTimes, in-flight entries of portals that wait for their client, the ends of sessions
// whose disconnect record had no space, and which gaps the trail has.
var version10 = func() layout {
	l := version9
	l.ring = maps.Clone(l.ring)
	l.ring["gap_sqlstate"] = field{84, 4}
	l.ring["gaps_left"] = field{120, 8}
	l.ring["gap_ended"] = field{224, 8}
	l.ring["gaps_recorded"] = field{232, 8}
	l.ring["gaps_pending"] = field{240, 8}
	return l
}()

// layouts are the layouts of the versions that can be read.
var layouts = map[uint32]*layout{
	2:  &version2,
	3:  &version3,
	4:  &version4,
	5:  &version5,
	6:  &version6,
	7:  &version6,
	8:  &version8,
	9:  &version9,
	10: &version10,
}
