// Package trail reads the trails of pg_steno servers: files, their order, and what is wrong with them. What
// their bytes mean, package format knows.
//
// From the disk to a block:
//
//	reader.go   a trail's streams and segments
//	walk.go     the blocks of a segment, in their order, also behind damage; resync.go: the next block behind it; window.go:
//	            a part of the file in memory; holes_*.go: sparse files
//	files.go    files, and blocks that are read from them
//	index.go    where the blocks are, and which times they cover; copied.go: those of a proof
//	skip.go     blocks that need not be read, by the indexes of the server
//	crypt.go    data keys of encrypted segments, and keys that are missing
//	parts.go    big records put together from their data parts
//
// From records to what a reader asks for:
//
//	merge.go    all streams in one order; scan.go: in no order, by many goroutines
//	live.go     a trail that is being written; feed.go: how far a reader has got; last.go: the last records
//	rollback.go which statements were rolled back
//	prepared.go of those that were prepared
//	servers.go  which server wrote a trail; branch.go: streams that begin beside others
//	other_trail.go runs that had recorded in another trail
//	twice.go    blocks of trails that are read together with their copies
//	deleted.go  what the server deleted by policy
//
// Nothing here trusts its input: a length is checked against the file before anything is allocated, and what is
// wrong is a *format.Problem, after which reading goes on where it can.
package trail
