// Runs a script as a session, and keeps the server's answers.

package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// answerTimeout is how long an answer may take before the round counts as hung.
const answerTimeout = 60 * time.Second

// session is a script that is running or has run, and the answers to it.
type session struct {
	script *script
	name   string // application name
	conn   net.Conn
	front  *pgproto3.Frontend
	pid    uint32
	key    []byte
	socket string

	portals map[string]*statement // portals that the client has bound
	parsed  map[string]*statement // named statements that it has parsed
	block   []*statement          // answered statements of the transaction that a Sync will end
	ran     map[string]bool       // nested statements that reported that they ran
	cursors map[string]*cursor    // by name
	opened  map[string]*cursor    // by the marker of the nested statement that a function left open
	done    int                   // number of steps that were answered
	ended   string                // how it ended, unless as its script defines
	hung    bool
	story   []string // the answers, a line for each step

	running   func(pid uint32) string // what the server says that a session is running
	whileIdle []string                // what it said while the session was idle
}

var errEnded = errors.New("the session has ended")

// connect opens the session.
func connect(socket, name string, s *script) (*session, error) {
	c := &session{script: s, name: name, socket: socket, portals: map[string]*statement{},
		parsed: map[string]*statement{}, ran: map[string]bool{},
		cursors: map[string]*cursor{}, opened: map[string]*cursor{}}
	var err error
	if c.conn, err = net.Dial("unix", socket); err != nil {
		return nil, err
	}
	_ = c.conn.SetDeadline(time.Now().Add(answerTimeout))
	c.front = pgproto3.NewFrontend(c.conn, c.conn)
	c.front.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{
		"user": "postgres", "database": "postgres", "application_name": name,
	}})
	if err := c.front.Flush(); err != nil {
		return nil, err
	}
	for {
		m, err := c.front.Receive()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return nil, fmt.Errorf("%s %s", m.Code, m.Message)
		case *pgproto3.BackendKeyData:
			c.pid, c.key = m.ProcessID, append([]byte{}, m.SecretKey...)
		case *pgproto3.ReadyForQuery:
			return c, nil
		}
	}
}

// run executes the script's steps, and ends the session if they have not.
func (c *session) run(stop <-chan struct{}) {
	defer c.conn.Close()
	for _, st := range c.script.steps {
		select {
		case <-stop:
			_ = c.send(&pgproto3.Terminate{})
			c.ended = "stopped"
			return
		default:
		}
		if err := c.do(st); err != nil {
			if !errors.Is(err, errEnded) {
				c.ended = err.Error()
			}
			return
		}
		c.done++
	}
	_ = c.send(&pgproto3.Terminate{})
}

func (c *session) send(messages ...pgproto3.FrontendMessage) error {
	var b []byte
	var err error
	for _, m := range messages {
		if b, err = m.Encode(b); err != nil {
			return err
		}
	}
	_, err = c.conn.Write(b)
	return err
}

// cancel sends a cancel request for the session.
func (c *session) cancel() {
	conn, err := net.Dial("unix", c.socket)
	if err != nil {
		return
	}
	defer conn.Close()
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(c.key)))
	b = binary.BigEndian.AppendUint32(b, 80877102)
	b = binary.BigEndian.AppendUint32(b, c.pid)
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := conn.Write(append(b, c.key...)); err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

func (st *step) encode() []pgproto3.FrontendMessage {
	var all []pgproto3.FrontendMessage
	if len(st.query) > 0 {
		var texts []string
		for _, s := range st.query {
			s.sent = true
			texts = append(texts, s.text)
		}
		return append(all, &pgproto3.Query{String: strings.Join(texts, "; ")})
	}
	for _, m := range st.messages {
		switch m.op {
		case 'P':
			m.statement.sent = true
			all = append(all, &pgproto3.Parse{Name: m.prepared, Query: m.text})
		case 'B':
			m.statement.sent = true
			var values [][]byte
			for _, p := range m.params {
				values = append(values, []byte(p))
			}
			all = append(all, &pgproto3.Bind{DestinationPortal: m.name, PreparedStatement: m.prepared,
				Parameters: values})
		case 'D':
			all = append(all, &pgproto3.Describe{ObjectType: 'P', Name: m.name})
		case 'E':
			all = append(all, &pgproto3.Execute{Portal: m.name, MaxRows: m.rows})
		case 'C':
			all = append(all, &pgproto3.Close{ObjectType: 'P', Name: m.name})
		case 'c':
			all = append(all, &pgproto3.Close{ObjectType: 'S', Name: m.prepared})
		case 'H':
			all = append(all, &pgproto3.Flush{})
		}
	}
	return append(all, &pgproto3.Sync{})
}

// do executes a step and reads the answers.
func (c *session) do(st *step) error {
	_ = c.conn.SetDeadline(time.Now().Add(answerTimeout))
	if len(st.query)+len(st.messages) == 0 {
		time.Sleep(st.delay)
		switch st.leave {
		case terminate:
			_ = c.send(&pgproto3.Terminate{})
			return errEnded
		case vanish:
			return errEnded
		}
		if st.move == "pause" && c.running != nil {
			if text := c.running(c.pid); text != "" {
				c.whileIdle = append(c.whileIdle, text)
			}
		}
		return nil
	}
	messages := st.encode()
	begin := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- c.send(messages...) }()
	if st.leave == vanish {
		<-sent
		time.Sleep(st.delay)
		return errEnded
	}
	if st.cancel {
		canceled := make(chan struct{})
		go func() {
			defer close(canceled)
			time.Sleep(st.delay)
			c.cancel()
		}()
		defer func() { <-canceled }()
	}
	a := &answers{session: c, step: st}
	defer func() { c.story = append(c.story, st.move+": "+strings.Join(a.seen, " ")) }()
	for {
		m, err := c.front.Receive()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.hung = true
				return fmt.Errorf("no answer within %s", answerTimeout)
			}
			return fmt.Errorf("connection lost: %w", err)
		}
		ready, err := a.addMessage(m)
		if err != nil {
			return err
		}
		if ready {
			st.took = time.Since(begin)
			return nil
		}
	}
}

// answers assigns a step's answers to its statements.
type answers struct {
	session *session
	step    *step
	next    int // statement of the query, or message, whose answer is next
	rows    int64
	failed  bool
	seen    []string
}

func (a *answers) addMessage(m pgproto3.BackendMessage) (ready bool, err error) {
	switch m := m.(type) {
	case *pgproto3.NoticeResponse:
		if marker, ok := strings.CutPrefix(m.Message, "ran "); ok {
			a.session.ran[marker] = true
		}
	case *pgproto3.DataRow:
		a.rows++
	case *pgproto3.CopyInResponse:
		return false, a.copyIn()
	case *pgproto3.CommandComplete:
		a.seen = append(a.seen, string(m.CommandTag))
		a.completed(string(m.CommandTag), succeeded)
	case *pgproto3.EmptyQueryResponse:
		a.next++
	case *pgproto3.PortalSuspended:
		a.seen = append(a.seen, fmt.Sprintf("suspended(%d)", a.rows))
		a.completed("", suspended)
	case *pgproto3.ParseComplete, *pgproto3.CloseComplete:
		if m := a.message(); m != nil && m.prepared != "" {
			if delete(a.session.parsed, m.prepared); m.op == 'P' {
				a.session.parsed[m.prepared] = m.statement
			}
		}
	case *pgproto3.BindComplete:
		if m := a.message(); m != nil {
			a.session.portals[m.name] = m.statement
			a.session.instantiate(m)
			m.statement.cursor = &cursor{}
			a.session.cursors[m.name] = m.statement.cursor
			m.statement.outcome = bound
		}
	case *pgproto3.RowDescription, *pgproto3.NoData:
		if len(a.step.messages) > 0 {
			a.message()
		}
	case *pgproto3.ErrorResponse:
		a.seen = append(a.seen, m.Code)
		if m.Severity == "FATAL" || m.Severity == "PANIC" {
			return false, fmt.Errorf("%s %s %s", m.Severity, m.Code, m.Message)
		}
		a.fail(m.Code)
	case *pgproto3.ReadyForQuery:
		a.ready(m.TxStatus)
		return true, nil
	}
	return false, nil
}

// message returns the message that was answered, and advances to the next; nil if none is left.
func (a *answers) message() *message {
	for a.next < len(a.step.messages) && a.step.messages[a.next].op == 'H' {
		a.next++
	}
	if a.next >= len(a.step.messages) {
		return nil
	}
	a.next++
	return &a.step.messages[a.next-1]
}

func (a *answers) completed(tag string, how outcome) {
	rows := a.rows
	a.rows = 0
	words := strings.Fields(tag)
	var n int64 = -1
	if len(words) > 1 {
		if last, err := strconv.ParseInt(words[len(words)-1], 10, 64); err == nil {
			n = last
			for len(words) > 0 {
				if _, err := strconv.Atoi(words[len(words)-1]); err != nil {
					break
				}
				words = words[:len(words)-1]
			}
		}
	}
	var s *statement
	if len(a.step.query) > 0 {
		if a.next < len(a.step.query) {
			s = a.step.query[a.next]
		}
		a.next++
		if rows == 0 && n > 0 {
			rows = n
		}
	} else if m := a.message(); m != nil {
		s = a.session.portals[m.name]
		if rows == 0 && n > 0 {
			rows = n
		}
	}
	if s == nil {
		return
	}
	s.outcome = how
	s.rows += rows
	if tag != "" {
		s.tag = strings.Join(words, " ")
	}
	a.session.block = append(a.session.block, s)
	a.session.cursorOf(s, rows)
	if rows > 0 {
		for _, m := range s.acknowledges {
			a.session.ran[m] = true
		}
	}
	// its transaction has ended, or its part
	switch s.tag {
	case "COMMIT", "ROLLBACK":
		if len(a.step.messages) > 0 {
			a.session.portals = map[string]*statement{"": a.session.portals[""]}
		}
	}
}

var (
	declared = regexp.MustCompile(`^DECLARE (\w+) `)
	fetched  = regexp.MustCompile(`^FETCH .* "?(\w+)"?$`)
	opened   = regexp.MustCompile(`^SELECT .* opens\('(\w+)', '([^']+)'`)
)

// cursorOf notes which cursor a statement has opened, or that rows were fetched from it.
func (c *session) cursorOf(s *statement, rows int64) {
	if m := declared.FindStringSubmatch(s.text); m != nil {
		s.cursor = &cursor{}
		c.cursors[m[1]] = s.cursor
	} else if m := opened.FindStringSubmatch(s.text); m != nil {
		c.opened[m[2]] = &cursor{}
		c.cursors[m[1]] = c.opened[m[2]]
	} else if m := fetched.FindStringSubmatch(s.text); m != nil && c.cursors[m[1]] != nil {
		c.cursors[m[1]].fetched += rows
	}
}

func (a *answers) fail(code string) {
	if a.failed {
		return
	}
	a.failed = true
	if len(a.step.query) > 0 {
		if a.next == 0 && len(a.step.query) > 1 && code == "42601" {
			for _, s := range a.step.query {
				s.outcome, s.code = whole, code
			}
			return
		}
		for i, s := range a.step.query {
			if i == a.next {
				s.outcome, s.code = failed, code
			} else if i > a.next {
				s.outcome = skipped
			}
		}
		if a.next >= len(a.step.query) {
			a.transactionFailed(code)
		}
		return
	}
	m := a.message()
	for _, later := range a.step.messages[min(a.next, len(a.step.messages)):] {
		if later.statement != nil && later.op == 'B' && later.statement.outcome == unanswered {
			later.statement.outcome = skipped
		}
		if later.op == 'P' && later.statement.outcome == unanswered {
			later.statement.outcome = skipped
		}
	}
	if m == nil {
		a.transactionFailed(code)
		return
	}
	switch m.op {
	case 'P', 'B':
		if code == "26000" && m.prepared != "" { // the prepared statement does not exist, so there is no text
			m.statement.outcome = skipped
			return
		}
		if m.op == 'B' {
			a.session.instantiate(m)
		}
		m.statement.outcome, m.statement.code = failed, code
	case 'E':
		s := a.session.portals[m.name]
		switch {
		case s == nil || code == "34000":
		case s.outcome == bound && code != "25P02", s.outcome == suspended && code != "25P02" && code != "55000":
			s.outcome, s.code = failed, code
		default:
			s.extra = append(s.extra, code)
		}
	}
}

// instantiate makes an execution one of the statement that the name refers to: if a Parse failed, that is an earlier
// one.
func (c *session) instantiate(m *message) {
	if m.prepared == "" {
		return
	}
	if p := c.parsed[m.prepared]; p != nil {
		s := m.statement
		s.alias, s.text, s.reads, s.ran, s.known = p.marker, p.text, p.reads, p.ran, p.known
	}
}

func (a *answers) transactionFailed(code string) {
	for _, s := range a.session.block {
		s.may = code
	}
}

func (a *answers) ready(status byte) {
	c := a.session
	a.step.status = status
	if status == 'I' {
		c.block = nil
		c.portals = map[string]*statement{}
	}
	if len(a.step.query) > 0 {
		delete(c.portals, "")
	}
}

func (a *answers) copyIn() error {
	var all []pgproto3.FrontendMessage
	if a.step.copyIn != "" {
		all = append(all, &pgproto3.CopyData{Data: []byte(a.step.copyIn)})
	}
	if a.step.copyFail {
		all = append(all, &pgproto3.CopyFail{Message: "the client has no more"})
	} else {
		all = append(all, &pgproto3.CopyDone{})
	}
	return a.session.send(all...)
}
