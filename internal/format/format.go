// Package format knows the format of a trail: how bytes become headers, records and values. It knows it from
// format/FORMAT.md and format/records.def alone and shares no code with the writer, so that each checks the other. It opens
// no file; package trail does.
//
//	segment.go  the segment header; whether copied bytes are as they were written
//	block.go    the block header, checksums, chain, decompression
//	keys.go     encryption keys and data keys
//	decode.go   the items of a block, of which only what is wanted is handed out
//	tally.go    plain records, which verify only counts
//	record.go   what they become: definitions, records, data parts; further.go: relations and objects in data parts
//	ends.go     how transactions ended, in a walk that decodes little
//	contents.go the indexes of the server, which say what blocks contain
//	encoding.go texts of other encodings as UTF-8
//	param.go    parameter values as PostgreSQL prints them
//	setting.go  values of settings
//	names.go    names of numbers; format_gen.go: the numbers, generated from records.def
//	span.go     runs of numbers, and what identifies a record
//	problem.go  what can be wrong with a trail
//
// Nothing here trusts its input: a length is checked against the bytes before anything is allocated.
package format

//go:generate go run ./gen
