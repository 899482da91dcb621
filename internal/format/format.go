// Package format decodes the format of a trail: bytes become headers, records and values. It was written from
// format/FORMAT.md and format/records.def alone and shares no code with the server's writer, so that each checks
// the other. It opens no files: package trail reads them. It imports no other package of this program.
//
//	segment.go  the segment header; whether copied bytes are as they were written
//	block.go    the block header, checksums, chain, decompression
//	keys.go     encryption keys and data keys
//	decode.go   the items of a block, of which only the wanted ones are returned
//	tally.go    plain records, which verify only counts
//	record.go   definitions, records, data parts; further.go: relations and objects in data parts
//	ends.go     how transactions ended, found without decoding all records
//	contents.go the indexes of the server, which say what blocks contain
//	encoding.go conversion of texts to UTF-8
//	param.go    parameter values as PostgreSQL prints them
//	setting.go  values of settings
//	names.go    names of numbers; format_gen.go: the numbers, generated from records.def
//	span.go     ranges of numbers, and IDs of records
//	problem.go  everything that can be wrong with a trail
//
// What must stay true: nothing here trusts its input. Each length is checked against the bytes before anything
// is allocated, and what is wrong becomes a *Problem, never a panic.
package format

//go:generate go run ./gen
