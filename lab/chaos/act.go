// The actions of a client: one or more statements each, in the table of actions.

package chaos

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// An action is one or more statements of a client. The statements themselves keep their outcomes.
type action struct {
	weight int
	do     func(c *client, ctx context.Context)
}

var actions = []action{
	{20, func(c *client, ctx context.Context) { _ = c.simple(ctx, "SELECT /**/ 1") }},
	{15, func(c *client, ctx context.Context) { _ = c.execute(ctx) }},
	{4, (*client).repeat},
	{10, func(c *client, ctx context.Context) {
		_ = c.extended(ctx, "SELECT /**/ balance FROM accounts WHERE id = $1::int", c.account())
	}},
	{15, (*client).write},
	{8, (*client).transaction},
	{5, (*client).savepoints},
	{6, (*client).errors},
	{4, (*client).big},
	{3, (*client).copies},
	{4, (*client).nested},
	{3, (*client).twoPhase},
	{1, (*client).slow},
	{5, (*client).several},
	{2, (*client).definition},
	{2, (*client).cursor},
	{2, (*client).settings},
	{1, (*client).parallel},
	{1, (*client).flush},
	{2, (*client).leave},
}

// act performs a random action.
func (c *client) act(ctx context.Context) {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := c.rng.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			a.do(c, ctx)
			// end a transaction that the action has left open
			if c.conn != nil && !c.conn.IsClosed() && c.conn.TxStatus() != 'I' {
				_ = c.simple(ctx, "ROLLBACK /**/")
			}
			return
		}
	}
}

func (c *client) account() string { return fmt.Sprint(1 + c.rng.IntN(1000)) }

const (
	update = "UPDATE /**/ accounts SET balance = balance + 1 WHERE id = "
	mark   = "INSERT /**/ INTO marks VALUES ('@marker')"
)

func (c *client) write(ctx context.Context) {
	switch c.rng.IntN(3) {
	case 0:
		_ = c.simple(ctx, update+c.account())
	case 1:
		_ = c.simple(ctx, mark)
		c.leaving(1)
		c.statements[len(c.statements)-1].ownTransaction = true
	default:
		_ = c.extended(ctx, "INSERT /**/ INTO marks VALUES ($1)", "@marker")
		c.leaving(1)
		c.statements[len(c.statements)-1].ownTransaction = true
	}
}

// transaction updates accounts in a fixed order, so that deadlocks are possible only with one that has begun in the
// middle; a deadlock is as good as any other error.
func (c *client) transaction(ctx context.Context) {
	first := len(c.statements)
	if c.simple(ctx, "BEGIN /**/") != nil {
		return
	}
	for range 1 + c.rng.IntN(4) {
		err := c.simple(ctx, mark)
		if err == nil {
			c.leaving(1)
			err = c.extended(ctx, update+"$1::int", c.account())
		}
		if err != nil {
			return
		}
	}
	end := pick(c.rng, "COMMIT /**/", "COMMIT /**/", "ROLLBACK /**/")
	if c.simple(ctx, end) == nil && strings.HasPrefix(end, "COMMIT") {
		for _, s := range c.statements[first:] {
			s.ownTransaction = true // answered only after its transaction's end
		}
	}
}

func (c *client) savepoints(ctx context.Context) {
	if c.simple(ctx, "BEGIN /**/") != nil {
		return
	}
	for range 1 + c.rng.IntN(3) {
		if c.simple(ctx, "SAVEPOINT /**/ s") != nil || c.simple(ctx, mark) != nil {
			return
		}
		c.leaving(1)
		if c.simple(ctx, "SELECT /**/ 1 / 0") == nil || c.conn.IsClosed() {
			return
		}
		if c.rng.IntN(2) == 0 {
			_ = c.simple(ctx, "SELECT /**/ 'in vain'")
		}
		if c.simple(ctx, "ROLLBACK TO SAVEPOINT /**/ s") != nil || c.simple(ctx, update+c.account()) != nil {
			return
		}
	}
	_ = c.simple(ctx, "COMMIT /**/")
}

func (c *client) errors(ctx context.Context) {
	switch c.rng.IntN(6) {
	case 0:
		_ = c.simple(ctx, "SELEC /**/ 1")
	case 1:
		_ = c.simple(ctx, "SELECT /**/ * FROM nowhere")
	case 2:
		_ = c.simple(ctx, "INSERT /**/ INTO accounts VALUES (1, 0)")
	case 3:
		_ = c.extended(ctx, "SELECT /**/ $1::text::int", "no number")
	case 4:
		_ = c.extended(ctx, "SELECT /**/ $1::int", "no number")
	default:
		_ = c.simple(ctx, fmt.Sprintf("SELECT /**/ shouts(%d)", c.size()))
	}
}

// size returns the size of a big string: up to several rings, mostly near the limits of a message or a ring.
func (c *client) size() int {
	ring := c.load.round.config.ringSize * 1024
	switch c.rng.IntN(4) {
	case 0:
		return c.rng.IntN(1024)
	case 1:
		return ring/8 - 200 + c.rng.IntN(400)
	case 2:
		return c.rng.IntN(ring)
	default:
		return c.rng.IntN(4 * ring)
	}
}

func (c *client) big(ctx context.Context) {
	padding := strings.Repeat("x", c.size())
	switch c.rng.IntN(4) {
	case 0:
		_ = c.simple(ctx, "SELECT /**/ '"+padding+"'")
	case 1:
		_ = c.extended(ctx, "SELECT /**/ length($1)", padding)
	case 2:
		_ = c.extended(ctx, "SELECT /**/ length($1), '"+padding+"'", padding)
	default:
		_ = c.simple(ctx, "SELECT /**/ 1 / 0, '"+padding+"'")
	}
}

func (c *client) copies(ctx context.Context) {
	lines := strings.Repeat("1\n", 1+c.rng.IntN(20))
	switch c.rng.IntN(4) {
	case 0:
		_ = c.copyIn(ctx, "COPY /**/ audited FROM STDIN", lines, false)
	case 1:
		_ = c.copyIn(ctx, "COPY /**/ audited FROM STDIN", lines+"no number\n", false)
	case 2:
		_ = c.copyIn(ctx, "COPY /**/ audited FROM STDIN", lines, true)
	default:
		_ = c.copyOut(ctx, "COPY /**/ (SELECT * FROM accounts WHERE id < 100) TO STDOUT")
	}
}

func (c *client) nested(ctx context.Context) {
	switch c.rng.IntN(5) {
	case 0:
		_ = c.simple(ctx, fmt.Sprintf("SELECT /**/ nested(%d)", 1+c.rng.IntN(20)))
	case 1:
		_ = c.extended(ctx, "SELECT /**/ survives($1::int)", "5")
	case 2:
		_ = c.simple(ctx, "INSERT /**/ INTO audited SELECT generate_series(1, 5)")
	case 3:
		_ = c.simple(ctx, "CALL /**/ commits(3)")
	default:
		_ = c.simple(ctx, "DO /**/ $$BEGIN PERFORM nested(3); EXECUTE 'SELECT 1 / 0'; END$$")
	}
}

func (c *client) twoPhase(ctx context.Context) {
	gid := fmt.Sprintf("%d.%d", c.number, len(c.statements))
	if c.simple(ctx, "BEGIN /**/") != nil || c.simple(ctx, mark) != nil {
		return
	}
	c.leaving(1)
	if c.simple(ctx, "PREPARE TRANSACTION /**/ '"+gid+"'") != nil {
		return
	}
	_ = c.simple(ctx, pick(c.rng, "COMMIT", "ROLLBACK")+" PREPARED /**/ '"+gid+"'")
}

func (c *client) slow(ctx context.Context) {
	sleep := fmt.Sprintf("SELECT /**/ pg_sleep(0.%02d)", c.rng.IntN(100))
	if c.rng.IntN(3) == 0 {
		_ = c.simple(ctx, "SET /**/ statement_timeout = 20", sleep, "RESET /**/ statement_timeout")
		if c.conn != nil && !c.conn.IsClosed() {
			_ = c.simple(ctx, "RESET /**/ statement_timeout")
		}
		return
	}
	_ = c.simple(ctx, sleep)
}

// several sends several statements in one message, or with one Sync.
func (c *client) several(ctx context.Context) {
	var templates []string
	for range 2 + c.rng.IntN(6) {
		templates = append(templates, pick(c.rng, "SELECT /**/ 1", mark, update+c.account(), "SELECT /**/ nested(2)"))
	}
	if c.rng.IntN(4) == 0 {
		templates = append(templates, "SELECT /**/ 1 / 0", "SELECT /**/ 'never run'")
	}
	if c.rng.IntN(2) == 0 {
		_ = c.batch(ctx, templates...)
	} else {
		_ = c.simple(ctx, templates...)
	}
	for i, template := range templates {
		c.statements[len(c.statements)-len(templates)+i].leaves = template == mark
	}
}

func (c *client) definition(ctx context.Context) {
	table := fmt.Sprintf("made_%d", c.number)
	_ = c.simple(ctx, "CREATE /**/ TABLE IF NOT EXISTS "+table+" (a int PRIMARY KEY, b text)")
	if !c.conn.IsClosed() {
		_ = c.simple(ctx, "ALTER /**/ TABLE "+table+" ADD c int")
	}
	if !c.conn.IsClosed() {
		_ = c.simple(ctx, "DROP /**/ TABLE "+table)
	}
}

func (c *client) cursor(ctx context.Context) {
	if c.simple(ctx, "BEGIN /**/") != nil || c.simple(ctx, "DECLARE /**/ c CURSOR FOR SELECT * FROM accounts") != nil {
		return
	}
	for range c.rng.IntN(4) {
		if c.simple(ctx, "FETCH /**/ 10 FROM c") != nil {
			return
		}
	}
	_ = c.simple(ctx, "COMMIT /**/")
}

func (c *client) settings(ctx context.Context) {
	_ = c.simple(ctx, pick(c.rng, "SET /**/ work_mem = '1MB'", "SET /**/ steno.log_relation = off",
		"RESET /**/ steno.log_relation", "SET /**/ steno.log_rows = off", "SET /**/ steno.app_user = 'someone'",
		"VACUUM /**/ marks", "CHECKPOINT /**/"))
}

func (c *client) parallel(ctx context.Context) {
	_ = c.simple(ctx, "SELECT /**/ count(*) FROM wide WHERE b LIKE '%y%'")
}

// flush calls steno.flush(): everything that was answered to any client before is on disk then.
func (c *client) flush(ctx context.Context) {
	if c.load.calm.Load() {
		return
	}
	n := len(c.statements)
	_ = c.simple(ctx, "SELECT /**/ steno.flush()")
	c.statements[n].flush = true
}

func (c *client) leave(ctx context.Context) {
	switch c.rng.IntN(4) {
	case 0:
		c.vanish()
	case 1:
		// in the middle of a statement, whose end no client receives
		s, text := c.begin("SELECT /**/ count(*), pg_sleep(0.01) FROM wide")
		_ = c.conn.Conn().SetDeadline(s.began.Add(answerTimeout))
		c.conn.Frontend().SendQuery(&pgproto3.Query{String: text})
		_ = c.conn.Frontend().Flush()
		s.ended = s.began
		c.vanish()
	default:
		c.disconnect(ctx)
	}
}
