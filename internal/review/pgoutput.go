// Reads files of changes: messages of pgoutput as pg_recvlogical writes them, and Debezium's JSON lines.

package review

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// rowChange is a change of a row, or the truncation of a table.
type rowChange struct {
	db    string // empty: not known
	table string // with its schema, as SQL writes it
	op    string // insert, update, delete, truncate
	old   []cell
	new   []cell
	xid   uint32
	// commit is the WAL position of the commit record; 0 if only at, the position of the change itself, is known.
	commit, at uint64
}

// cell is a value of a row. known is false for a value that was not sent, because it is large and has
// not changed.
type cell struct {
	column      string
	value       string
	null, known bool
}

// readChanges reads the changes of a file in one of the two forms.
func readChanges(in io.Reader, take func(*rowChange) error) error {
	b := bufio.NewReaderSize(in, 1<<16)
	start, err := b.Peek(1)
	if err == io.EOF {
		return errors.New("the file of changes is empty")
	}
	if err != nil {
		return err
	}
	if strings.ContainsAny(string(start), "{ \t\r\nn") {
		return readDebezium(b, take)
	}
	if text, _ := b.Peek(6); string(text) == "BEGIN " {
		return errors.New("it is the output of test_decoding: use the plugin pgoutput, with proto_version=1")
	}
	p := &pgoutput{in: b, take: take, relations: map[uint32]*pgRelation{}}
	return p.read()
}

// ---- pgoutput ----

// pgRelation is pgoutput's description of a table, which it sends before the table's first change.
type pgRelation struct {
	name    string
	columns []string
}

// pgoutput reads messages of protocol version 1. Each is followed by a line feed, which
// pg_recvlogical writes; the messages are binary, so their ends are found by reading them.
type pgoutput struct {
	in        *bufio.Reader
	take      func(*rowChange) error
	relations map[uint32]*pgRelation
	offset    int64
	xid       uint32
	commit    uint64
	err       error
}

// longestValue is the largest value that a server can send, in bytes.
const longestValue = 1 << 30

func (p *pgoutput) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("offset %d: %s", p.offset, fmt.Sprintf(format, args...))
	}
}

func (p *pgoutput) readBytes(n int) []byte {
	if p.err != nil || n < 0 || n > longestValue {
		p.fail("invalid length %d", n)
		return nil
	}
	var b bytes.Buffer // grows with the bytes read, so that a forged length allocates nothing
	got, err := io.CopyN(&b, p.in, int64(n))
	p.offset += got
	if err != nil {
		p.fail("the file ends inside a message")
	}
	return b.Bytes()
}

func (p *pgoutput) readNumber(n int) (v uint64) {
	for _, c := range p.readBytes(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (p *pgoutput) readString() string {
	if p.err != nil {
		return ""
	}
	s, err := p.in.ReadString(0)
	p.offset += int64(len(s))
	if err != nil {
		p.fail("the file ends inside a name")
	}
	return strings.TrimSuffix(s, "\x00")
}

func (p *pgoutput) read() error {
	for p.err == nil {
		kind, err := p.in.ReadByte()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p.offset++
		if err := p.readMessage(kind); err != nil {
			return err
		}
		if p.err != nil {
			break
		}
		end, err := p.in.ReadByte()
		p.offset++
		if err == nil && end != '\n' {
			p.fail("a message does not end where it should: the file is not one of pg_recvlogical with pgoutput, or " +
				"is damaged")
		}
	}
	return p.err
}

// readMessage reads a message of a kind.
func (p *pgoutput) readMessage(kind byte) error {
	switch kind {
	case 'B':
		p.commit = p.readNumber(8)
		p.readNumber(8)
		p.xid = uint32(p.readNumber(4))
	case 'C':
		p.readNumber(1)
		p.readNumber(8)
		p.readNumber(8)
		p.readNumber(8)
		p.xid, p.commit = 0, 0
	case 'O':
		p.readNumber(8)
		p.readString()
	case 'R':
		p.readRelation()
	case 'Y':
		p.readNumber(4)
		p.readString()
		p.readString()
	case 'M':
		p.readNumber(1)
		p.readNumber(8)
		p.readString()
		p.readBytes(int(p.readNumber(4)))
	case 'I', 'U', 'D':
		return p.readRow(kind)
	case 'T':
		return p.readTruncate()
	case 'S', 'E', 'c', 'A':
		p.fail("it has parts of transactions that were streamed before their end, which this program does not read: " +
			"use proto_version=1, without streaming")
	case 'b', 'P', 'K', 'r', 'p':
		p.fail("it has messages of two-phase decoding, which this program does not read: use proto_version=1, and a " +
			"slot without two_phase")
	default:
		p.fail("there is no message of pgoutput with the first byte 0x%02x", kind)
	}
	return nil
}

func (p *pgoutput) readRelation() {
	id := uint32(p.readNumber(4))
	schema, name := p.readString(), p.readString()
	if schema == "" {
		schema = "pg_catalog"
	}
	p.readNumber(1)
	r := &pgRelation{name: QuoteName(schema) + "." + QuoteName(name)}
	for range p.readNumber(2) {
		p.readNumber(1)
		r.columns = append(r.columns, QuoteName(p.readString()))
		p.readNumber(4)
		p.readNumber(4)
		if p.err != nil {
			return
		}
	}
	p.relations[id] = r
}

func (p *pgoutput) readRow(kind byte) error {
	r := p.relations[uint32(p.readNumber(4))]
	if r == nil {
		p.fail("a change of a table that was not described before")
		return nil
	}
	c := &rowChange{table: r.name, xid: p.xid, commit: p.commit,
		op: map[byte]string{'I': "insert", 'U': "update", 'D': "delete"}[kind]}
	part := byte(p.readNumber(1))
	if part == 'K' || part == 'O' {
		c.old = p.readTuple(r, part == 'K')
		if kind == 'D' {
			part = 0
		} else {
			part = byte(p.readNumber(1))
		}
	}
	if part == 'N' {
		c.new = p.readTuple(r, false)
	} else if part != 0 {
		p.fail("a change with an unknown part 0x%02x", part)
	}
	if p.err != nil {
		return nil
	}
	return p.take(c)
}

// readTuple reads a row. A row that has only the key has NULL for all other columns, so these are not known.
func (p *pgoutput) readTuple(r *pgRelation, key bool) (cells []cell) {
	n := int(p.readNumber(2))
	if n > len(r.columns) {
		p.fail("a row has %d columns, and its table %d", n, len(r.columns))
		return nil
	}
	for i := range n {
		c := cell{column: r.columns[i], known: true}
		switch kind := byte(p.readNumber(1)); kind {
		case 'n':
			c.null = true
		case 'u':
			c.known = false
		case 't':
			c.value = string(p.readBytes(int(p.readNumber(4))))
		case 'b':
			p.fail("values are binary: do not use the option binary")
		default:
			p.fail("a value of an unknown kind 0x%02x", kind)
		}
		if p.err != nil {
			return nil
		}
		if !key || !c.null {
			cells = append(cells, c)
		}
	}
	return cells
}

func (p *pgoutput) readTruncate() error {
	n := p.readNumber(4)
	p.readNumber(1)
	for range n {
		r := p.relations[uint32(p.readNumber(4))]
		if r == nil || p.err != nil {
			p.fail("a change of a table that was not described before")
			return nil
		}
		if err := p.take(&rowChange{table: r.name, op: "truncate", xid: p.xid, commit: p.commit}); err != nil {
			return err
		}
	}
	return nil
}

// ---- Debezium ----

// debeziumEvent is a change as Debezium's connector for PostgreSQL writes it.
type debeziumEvent struct {
	Op     string                     `json:"op"`
	Before map[string]json.RawMessage `json:"before"`
	After  map[string]json.RawMessage `json:"after"`
	Source *struct {
		DB     string      `json:"db"`
		Schema string      `json:"schema"`
		Table  string      `json:"table"`
		TxID   json.Number `json:"txId"`
		LSN    json.Number `json:"lsn"`
	} `json:"source"`
}

func readDebezium(in *bufio.Reader, take func(*rowChange) error) error {
	d := json.NewDecoder(in)
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("event %d: invalid JSON: %w", n, err)
		}
		var envelope struct {
			Payload *debeziumEvent `json:"payload"`
			debeziumEvent
		}
		if err := json.Unmarshal(raw, &envelope); err != nil {
			return fmt.Errorf("event %d: not an event of Debezium: %w", n, err)
		}
		e := &envelope.debeziumEvent
		if envelope.Payload != nil {
			e = envelope.Payload
		}
		if e.Source == nil || e.Source.Table == "" || e.Op == "r" {
			continue // a tombstone, a heartbeat, the end of a transaction, or a row of a snapshot
		}
		c, err := e.change()
		if err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
		if c == nil {
			continue
		}
		if err := take(c); err != nil {
			return err
		}
	}
}

func (e *debeziumEvent) change() (*rowChange, error) {
	op := map[string]string{"c": "insert", "u": "update", "d": "delete", "t": "truncate"}[e.Op]
	if op == "" {
		return nil, nil // a message
	}
	xid, err := strconv.ParseUint(e.Source.TxID.String(), 10, 64)
	if err != nil {
		return nil, errors.New("its source has no txId")
	}
	lsn, err := strconv.ParseUint(e.Source.LSN.String(), 10, 64)
	if err != nil {
		return nil, errors.New("its source has no lsn")
	}
	return &rowChange{
		db: e.Source.DB, table: QuoteName(e.Source.Schema) + "." + QuoteName(e.Source.Table), op: op,
		old: debeziumCells(e.Before), new: debeziumCells(e.After), xid: uint32(xid), at: lsn,
	}, nil
}

func debeziumCells(row map[string]json.RawMessage) (cells []cell) {
	for _, name := range slices.Sorted(maps.Keys(row)) {
		c := cell{column: QuoteName(name), known: true, null: string(row[name]) == "null"}
		if err := json.Unmarshal(row[name], &c.value); err != nil {
			c.value = string(row[name])
		}
		if c.value == "__debezium_unavailable_value" {
			c.known = false
		}
		cells = append(cells, c)
	}
	return cells
}

// lsnText returns a position as pg_lsn shows it.
func lsnText(lsn uint64) string {
	return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn))
}
