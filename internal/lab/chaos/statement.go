package chaos

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// told is what a client was told of a statement.
type told int

const (
	unanswered told = iota // nothing: it may have run or not
	succeeded
	failed
	skipped // it was not run, because one before it had failed
)

func (t told) String() string { return [...]string{"unanswered", "ok", "error", "skipped"}[t] }

// statement is one statement of a client.
type statement struct {
	marker    string // in its text, or in its first parameter
	session   *session
	text      digest // of what was sent
	parameter digest
	began     time.Time
	ended     time.Time
	told      told
	sqlstate  string
	flush     bool // it waits for all before to be on disk
	leaves    bool // a row with its marker, if it commits
	alone     bool // a transaction of its own
	warned    bool // a wait for its record was canceled
	early     bool // answered, and the end of its transaction was not
	undoes    bool // a rollback
	assured   bool // answered after a wait for the disk
}

// digest stands for a string that need not be kept.
type digest struct {
	length int
	hash   uint64
}

func digestOf(s string) digest {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return digest{len(s), h.Sum64()}
}

// answer takes what the client was told.
func (s *statement) answer(err error) {
	s.ended = time.Now()
	var e *pgconn.PgError
	switch {
	case err == nil:
		s.told = succeeded
	case errors.As(err, &e) && e.Severity != "FATAL" && e.Severity != "PANIC":
		s.told, s.sqlstate = failed, e.Code
	default:
		s.told = unanswered // also the farewell to a session that was idle
	}
}

// session is one connection of a client.
type session struct {
	name      string // its application name
	began     time.Time
	connected bool
	pid       uint32
}
