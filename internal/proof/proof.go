// Package proof makes and checks proofs: files that stand alone and show that a record is
// in a trail, or which records of a range match a filter, and that there are no others.
// docs/proof.md says what they prove, and what is in the file.
//
//	question.go    what a proof answers
//	asked.go       what that asks of records, blocks and indexes
//	make.go        from a trail to a file
//	format.go      the file
//	check.go       from a file to a verdict
//	conditions.go  what its records tell about what the trail can lack
//	started.go     from which start on that has to be read
//	lives.go       that of each server, if a server and its copy were recorded
//	switched.go    sessions in which somebody became somebody else
//	causes.go      everything that can hide an answer, in one list
//	later.go       what records after a range tell of it
//	quiet.go       failures that leave no record
//	report.go      the verdict, and the records
//	exclusions.go  the same conditions, for answers that are no proofs
//	recorded.go    the verdict on whether everything was recorded, for a trail
//
// A seal signs the hash of a chain that includes the stored payload of each block. So a
// block is proved by all blocks from it to the next seal, as they are in the trail, and by
// that seal. Blocks between two seals can be left out without breaking what is proved: both
// seals are signed and have the numbers of their blocks. That nothing of the answer is in
// them is what the server's own indexes say, which are blocks of the proof.
package proof
