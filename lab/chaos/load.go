// The clients of a round, and what each keeps about its statements.

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// answerTimeout is how long a statement may take before the round counts as hung.
const answerTimeout = 2 * time.Minute

// prepare creates the tables and functions that the statements use.
func prepare(ctx context.Context, lab *cluster.Lab) error {
	return lab.Prepare(ctx, []cluster.Setting{{Name: "shared_preload_libraries", Value: "pg_steno"}},
		func(s *cluster.Server) error {
			_, err := s.Psql(ctx, `
CREATE EXTENSION pg_steno;
CREATE TABLE accounts (id int PRIMARY KEY, balance int);
INSERT INTO accounts SELECT i, 0 FROM generate_series(1, 1000) i;
CREATE TABLE marks (marker text PRIMARY KEY);
CREATE TABLE wide AS SELECT i AS a, repeat('x', 100) AS b FROM generate_series(1, 5000) i;
CREATE TABLE audited (a int);
CREATE TABLE history (a int);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO history VALUES (NEW.a); RETURN NEW; END$$;
CREATE TRIGGER audit AFTER INSERT ON audited FOR EACH ROW EXECUTE FUNCTION audit();
CREATE FUNCTION nested(n int) RETURNS int LANGUAGE plpgsql AS
	$$BEGIN IF n <= 0 THEN RETURN 0; END IF; PERFORM count(*) FROM accounts WHERE id = n; RETURN nested(n - 1) + 1; END$$;
CREATE FUNCTION survives(n int) RETURNS int LANGUAGE plpgsql AS
	$$BEGIN PERFORM 1 / (n - n); RETURN 0; EXCEPTION WHEN division_by_zero THEN RETURN n; END$$;
CREATE FUNCTION shouts(n int) RETURNS int LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION '%', repeat('e', n); END$$;
CREATE PROCEDURE commits(n int) LANGUAGE plpgsql AS
	$$BEGIN FOR i IN 1..n LOOP UPDATE accounts SET balance = balance + 1 WHERE id = i; COMMIT; END LOOP; END$$;
CREATE ROLE clerk LOGIN;
GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk;
GRANT ALL ON SCHEMA public TO clerk;
`)
			return err
		})
}

// load is the clients of a round.
type load struct {
	round    *round
	clients  []*client
	wait     sync.WaitGroup
	stopping chan struct{}
	acks     atomic.Int64 // number of answers so far

	mu   sync.Mutex
	hung string // the first statement without answer for too long

	calm atomic.Bool // clients no longer call steno.flush()
}

// client makes one connection after the other. Only its goroutine uses it until the load has stopped.
type client struct {
	load       *load
	number     int
	rng        *rand.Rand
	conn       *pgconn.PgConn
	session    *session
	sessions   []*session
	statements []*statement
	prepared   bool
	inserts    bool       // whether the insert is prepared, too
	synced     bool       // the transaction has a statement of steno.sync
	first      int        // its first statement
	warned     bool       // a wait for the disk or for space was canceled
	answered   *statement // the last answered statement
}

func (r *round) startLoad() *load {
	l := &load{round: r, stopping: make(chan struct{})}
	for i := range r.config.clients {
		c := &client{load: l, number: i, rng: rounds.Random(r.options.Seed, r.number, fmt.Sprintf("client %d", i))}
		l.clients = append(l.clients, c)
		l.wait.Add(1)
		go func() {
			defer l.wait.Done()
			c.run()
		}()
	}
	return l
}

// stop lets every client finish its current action.
func (l *load) stop() {
	close(l.stopping)
	l.wait.Wait()
}

func (l *load) stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

func (l *load) hang(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hung == "" {
		l.hung = what
	}
}

func (l *load) hanging() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung
}

// pause waits a moment, or until the load is to stop.
func (c *client) pause(d time.Duration) {
	select {
	case <-c.load.stopping:
	case <-time.After(d):
	}
}

func (c *client) run() {
	ctx := context.Background()
	for !c.load.stopped() {
		if c.conn == nil && !c.connect(ctx) {
			c.pause(time.Duration(10+c.rng.IntN(50)) * time.Millisecond)
			continue
		}
		c.act(ctx)
		if c.conn != nil && c.conn.IsClosed() {
			c.conn = nil
		}
		// many clients take turns
		if n := len(c.load.clients); n > 50 {
			c.pause(time.Duration(c.rng.IntN(n)) * time.Millisecond)
		}
	}
	c.disconnect(ctx)
}

// connect opens a session with a unique name; it is kept even if the connection fails.
func (c *client) connect(ctx context.Context) bool {
	s := &session{name: fmt.Sprintf("chaos %d.%d", c.number, len(c.sessions)), began: time.Now()}
	c.sessions = append(c.sessions, s)
	// superusers are never refused
	user := "postgres"
	if c.load.round.config.onFailure == "error" && c.number%4 != 0 {
		user = "clerk"
	}
	config, err := pgconn.ParseConfig(c.load.round.server.Conninfo(user, "postgres") + " sslmode=disable")
	if err != nil {
		panic(err)
	}
	config.RuntimeParams["application_name"] = s.name
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		c.warned = c.warned || strings.HasPrefix(n.Message, "cancel")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		if ctx.Err() != nil {
			c.load.hang("connection of " + s.name)
		}
		return false
	}
	c.conn, c.session, c.prepared, c.inserts, c.synced, c.warned = conn, s, false, false, false, false
	c.first = len(c.statements)
	s.connected, s.pid = true, conn.PID()
	return true
}

func (c *client) disconnect(ctx context.Context) {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_ = c.conn.Close(ctx)
	c.conn = nil
}

// vanish closes the socket without a Terminate message.
func (c *client) vanish() {
	_ = c.conn.Conn().Close()
	c.conn = nil
}

// begin numbers a statement. Its marker replaces /**/ in the template.
func (c *client) begin(template string) (*statement, string) {
	s := &statement{rollsBack: strings.HasPrefix(template, "ROLLBACK"),
		commits: committingCommand.MatchString(template),
		session: c.session, marker: fmt.Sprintf("m%d.%d", c.number, len(c.statements)+1), began: time.Now()}
	text := strings.Replace(template, "/**/", "/*"+s.marker+"*/", 1)
	text = strings.ReplaceAll(text, "@marker", s.marker)
	s.text = digestOf(text)
	c.statements = append(c.statements, s)
	c.synced = c.synced || c.load.round != nil && isSynced(c.load.round.config.sync, template)
	return s, text
}

func (c *client) answer(s *statement, err error) error {
	s.answer(err)
	c.load.acks.Add(1)
	return err
}

// within abandons a statement that takes too long, and reports that.
func (c *client) within(ctx context.Context, s *statement, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := do(ctx)
	if ctx.Err() != nil {
		c.load.hang(fmt.Sprintf("statement %s of %s", s.marker, s.session.name))
	}
	c.assure(err)
	return err
}

// simple sends statements as one simple query.
func (c *client) simple(ctx context.Context, templates ...string) error {
	var all []*statement
	var texts []string
	for _, template := range templates {
		s, text := c.begin(template)
		all, texts = append(all, s), append(texts, text)
	}
	return c.within(ctx, all[0], func(ctx context.Context) error {
		results := c.conn.Exec(ctx, strings.Join(texts, ";"))
		return c.answers(all, results)
	})
}

// answers reads the answers to statements that were sent together.
func (c *client) answers(all []*statement, results *pgconn.MultiResultReader) error {
	i := 0
	for results.NextResult() {
		if _, err := results.ResultReader().Close(); err == nil && i < len(all) {
			_ = c.answer(all[i], nil)
			i++
		}
	}
	err := results.Close()
	if i < len(all) && err != nil {
		_ = c.answer(all[i], err)
		for _, s := range all[i+1:] {
			if s.ended = time.Now(); all[i].outcome == failed {
				s.outcome = skipped
			}
		}
	}
	return err
}

// leaving marks the last n statements as leaving their marker in table marks.
func (c *client) leaving(n int) {
	for _, s := range c.statements[len(c.statements)-n:] {
		s.leaves = true
	}
}

func (c *client) extended(ctx context.Context, template string, params ...string) error {
	s, text := c.begin(template)
	var values [][]byte
	for i, p := range params {
		p = strings.ReplaceAll(p, "@marker", s.marker)
		if i == 0 {
			s.parameter = digestOf(p)
		}
		values = append(values, []byte(p))
	}
	return c.within(ctx, s, func(ctx context.Context) error {
		_, err := c.conn.ExecParams(ctx, text, values, nil, nil, nil).Close()
		return c.answer(s, err)
	})
}

var committingCommand = regexp.MustCompile(`^(COMMIT|PREPARE TRANSACTION)\b`)

var syncedCommand = regexp.MustCompile(`^(INSERT|UPDATE|COPY [^(]* FROM|CREATE|ALTER|DROP)\b`)

// isSynced reports whether steno.sync certainly applies to the statement.
func isSynced(sync, template string) bool {
	return sync != "" && (syncedCommand.MatchString(template) ||
		sync == "all" && strings.HasPrefix(template, "SELECT"))
}

// assure marks statements as durable: if steno.sync applies, the answer to a commit promises that every statement of
// the session so far is on disk, and every transaction before this one. The records of COMMIT and of the transaction,
// which are made after the commit, are promised only with class transaction.
func (c *client) assure(err error) {
	for i := len(c.statements) - 1; c.warned && i >= 0 && c.statements[i].session == c.session &&
		c.statements[i] != c.answered; i-- {
		c.statements[i].warned = true
	}
	c.answered = c.statements[len(c.statements)-1]
	if c.conn == nil || c.conn.IsClosed() || c.conn.TxStatus() != 'I' {
		return
	}
	last := c.statements[len(c.statements)-1]
	if c.synced && !c.warned && err == nil && !last.rollsBack {
		c.promise()
	}
	c.synced, c.warned, c.first = false, false, len(c.statements)
}

// promise marks what the trail on disk contains after the answer to a commit that has waited.
func (c *client) promise() {
	all := c.load.round.config.sync == "all"
	for i := len(c.statements) - 1; i >= 0 && c.statements[i].session == c.session && !c.statements[i].closed; i-- {
		s := c.statements[i]
		s.closed = all || i < c.first
		s.assured = s.closed || !s.commits
	}
}

// repeat executes prepared statements so often that they get generic plans.
func (c *client) repeat(ctx context.Context) {
	const text = "INSERT INTO marks VALUES ($1)"
	if !c.inserts {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if _, err := c.conn.Prepare(ctx, "insert", text, nil); err != nil {
			return
		}
		c.inserts = true
	}
	for range 3 + c.rng.IntN(15) {
		if c.rng.IntN(2) == 0 {
			if c.execute(ctx) != nil {
				return
			}
			continue
		}
		s, _ := c.begin(text)
		s.text, s.parameter, s.leaves, s.ownTransaction = digestOf(text), digestOf(s.marker), true, true
		err := c.within(ctx, s, func(ctx context.Context) error {
			_, err := c.conn.ExecPrepared(ctx, "insert", [][]byte{[]byte(s.marker)}, nil, nil).Close()
			return c.answer(s, err)
		})
		if err != nil {
			return
		}
	}
}

// execute runs the session's prepared statement, whose first parameter is the
// marker.
func (c *client) execute(ctx context.Context) error {
	const text = "SELECT $1::text, balance FROM accounts WHERE id = $2::int"
	if !c.prepared {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		// if it is canceled, its record is not checked, because its text has no marker
		if _, err := c.conn.Prepare(ctx, "find", text, nil); err != nil {
			return err
		}
		c.prepared = true
	}
	s, _ := c.begin("")
	s.text = digestOf(text)
	s.parameter = digestOf(s.marker)
	return c.within(ctx, s, func(ctx context.Context) error {
		_, err := c.conn.ExecPrepared(ctx, "find", [][]byte{[]byte(s.marker), []byte("17")}, nil, nil).Close()
		return c.answer(s, err)
	})
}

// batch sends statements of the extended protocol together, with one Sync.
func (c *client) batch(ctx context.Context, templates ...string) error {
	var all []*statement
	b := &pgconn.Batch{}
	for _, template := range templates {
		s, text := c.begin(template)
		all = append(all, s)
		b.ExecParams(text, nil, nil, nil, nil)
	}
	return c.within(ctx, all[0], func(ctx context.Context) error {
		err := c.answers(all, c.conn.ExecBatch(ctx, b))
		// A statement ends when the next one is bound, or at the Sync.  A server process that
		// is told to quit sends the answers that it has, so they may overtake that end.
		for _, s := range all {
			s.answeredEarly = err != nil && c.conn.IsClosed()
		}
		return err
	})
}

func (c *client) copyIn(ctx context.Context, template string, data string, fail bool) error {
	s, text := c.begin(template)
	var from interface{ Read([]byte) (int, error) } = strings.NewReader(data)
	if fail {
		from = &brokenReader{from: from}
	}
	return c.within(ctx, s, func(ctx context.Context) error {
		_, err := c.conn.CopyFrom(ctx, from, text)
		return c.answer(s, err)
	})
}

// brokenReader returns its data, and then an error.
type brokenReader struct {
	from interface{ Read([]byte) (int, error) }
}

func (b *brokenReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil {
		err = fmt.Errorf("the client has no more")
	}
	return n, err
}

func (c *client) copyOut(ctx context.Context, template string) error {
	s, text := c.begin(template)
	return c.within(ctx, s, func(ctx context.Context) error {
		_, err := c.conn.CopyTo(ctx, discard{}, text)
		return c.answer(s, err)
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// saveLogs writes the statements and answers of each client to a file.
func (l *load) saveLogs(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, c := range l.clients {
		file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d.jsonl", c.number)))
		if err != nil {
			return err
		}
		e := json.NewEncoder(file)
		for _, s := range c.statements {
			err = e.Encode(map[string]any{
				"marker": s.marker, "application": s.session.name, "bytes": s.text.length, "began": s.began,
				"ended": s.ended,
				"told":  s.outcome.String(), "sqlstate": s.sqlstate,
			})
			if err != nil {
				break
			}
		}
		if err := file.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outcome is the answer that a client got to a statement.
type outcome int

const (
	unanswered outcome = iota // no answer: it may have run or not
	succeeded
	failed
	skipped // not run, because an earlier one had failed
)

func (t outcome) String() string { return [...]string{"unanswered", "ok", "error", "skipped"}[t] }

// statement is one statement of a client.
type statement struct {
	marker         string // in its text or its first parameter
	session        *session
	text           digest // of the sent text
	parameter      digest
	began          time.Time
	ended          time.Time
	outcome        outcome
	sqlstate       string
	flush          bool // waits until everything before it is on disk
	leaves         bool // leaves a row with its marker if it commits
	ownTransaction bool // is a transaction of its own
	warned         bool // a wait for its record was canceled
	answeredEarly  bool // answered, but the end of its transaction was not
	lastAnswered   bool // nothing was answered after it in its session
	rollsBack      bool // a rollback
	commits        bool // COMMIT or PREPARE TRANSACTION
	assured        bool // answered after a wait for the disk
	closed         bool // and so is the end of its transaction
}

// digest identifies a string that is not kept.
type digest struct {
	length int
	hash   uint64
}

func digestOf(s string) digest {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return digest{len(s), h.Sum64()}
}

// answer notes the answer that the client got.
func (s *statement) answer(err error) {
	s.ended = time.Now()
	var e *pgconn.PgError
	switch {
	case err == nil:
		s.outcome = succeeded
	case errors.As(err, &e) && e.Severity != "FATAL" && e.Severity != "PANIC":
		s.outcome, s.sqlstate = failed, e.Code
	default:
		s.outcome = unanswered // including the message that terminates an idle session
	}
}

// session is one connection of a client.
type session struct {
	name      string // its application name
	began     time.Time
	connected bool
	pid       uint32
}
