// Package trail reads the trails of pg_steno servers: it finds files and their order, reads records, and reports
// what is wrong. Package format, the only one that it builds on, decodes the bytes.
//
// From the disk to a block:
//
//	reader.go   a trail's streams and segments
//	walk.go     the blocks of a segment in order, also after damage; resync.go: the next block after damage;
//	            window.go: a part of the file in memory; holes_*.go: sparse files
//	files.go    opening files, and reading blocks from them
//	index.go    where the blocks are, and which times they cover; copied.go: those of a proof
//	skip.go     blocks that need not be read, by the indexes of the server
//	crypt.go    data keys of encrypted segments, and missing keys
//	parts.go    joining big records with their data parts
//
// From blocks to the records that a caller wants:
//
//	merge.go    all streams in one order; scan.go: without an order, by many goroutines
//	live.go     following a trail that is being written; feed.go: reading in parts;
//	            feed_blocks.go: block by block, for those who pass a trail on; last.go: the last records
//	rollback.go which statements were rolled back; prepared.go: with transactions that were prepared
//	servers.go  which server wrote a trail; branch.go: streams that replace others
//	other_trail.go runs that had recorded in another trail
//	duplicate.go    blocks that several trails have that are read together
//	deleted.go  what the server deleted by policy
//
// What must stay true: nothing here trusts its input. Each length is checked against the file before anything
// is allocated. Whatever is wrong becomes a *format.Problem, after which reading continues where it can. No file
// of a trail is ever changed or locked.
package trail
