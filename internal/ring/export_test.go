package ring

import (
	"bytes"
	"maps"
)

// ReadBytes reads a ring file in memory.
func ReadBytes(b []byte) (*File, error) { return Read("memory", bytes.NewReader(b), int64(len(b))) }

// Fields are offset and size of all fields that the reader knows, by structure and
// name, of a version, and the sizes of the structures.
func Fields(version uint32) (fields map[string]map[string][2]int, sizes map[string]int) {
	plain := func(m map[string]field) map[string][2]int {
		out := map[string][2]int{}
		for name, f := range m {
			out[name] = [2]int{f.offset, f.size}
		}
		return out
	}
	l := layouts[version]
	fields = map[string]map[string][2]int{
		"StenoRingFile": plain(l.file), "StenoIntent": plain(l.intent), "StenoRing": plain(l.ring), "StenoInFlight": plain(l.inFlight),
	}
	if l.template != nil {
		fields["StenoTemplate"] = plain(l.template)
	}
	return fields, map[string]int{
		"StenoRingFile": l.fileSize, "StenoIntent": l.intentSize, "StenoRing": l.ringSize, "StenoInFlight": l.inFlightSize,
		"StenoMessage": messageFixed, "StenoSessionMessage": sessionFixed, "StenoRecordMessage": recordFixed,
		"StenoParts": partsFixed, "StenoCut": cutFixed, "StenoDataMessage": dataFixed, "StenoChunkNumber": chunkFixed, "StenoBriefMessage": briefFixed, "StenoBriefNumbers": numbersFixed, "StenoBriefNesting": nestingFixed, "StenoTimes": timesFixed, "StenoCommitMessage": commitFixed, "StenoEnding": endingFixed, "StenoLongBriefMessage": longBrief, "StenoTemplate": version6.templateSize,
	}
}

// Versions are those that can be read.
func Versions() map[uint32]bool {
	known := map[uint32]bool{}
	for v := range maps.Keys(layouts) {
		known[v] = true
	}
	return known
}
