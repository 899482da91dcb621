// The ends of transactions that were prepared for a two-phase commit.

package trail

import (
	"context"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// A prepared transaction is ended by COMMIT PREPARED or ROLLBACK PREPARED, perhaps much later and by another
// session. The record of that has its transaction ID. All these records are collected, once, when the first
// statement of a prepared transaction is found: from the blocks that may have some according to indexes.

// maxPreparedEnds bounds the ends that are kept. Effects of further transactions are unknown. It suffices for
// the last hours of a server that does nothing else.
const maxPreparedEnds = 256 << 10

// preparedKey identifies a transaction of any session.
type preparedKey struct {
	system, xid uint64
}

// preparedEnd is the end of a prepared transaction. A server that was restored to an earlier time assigns
// transaction IDs again, so an ID may have several ends.
type preparedEnd struct {
	time   int64
	effect format.Effect
}

type preparedEnds struct {
	once sync.Once
	of   map[preparedKey][]preparedEnd
}

// find returns the effect of a prepared transaction that had a statement at a time.
func (p *preparedEnds) find(x *Index, key preparedKey, after int64) format.Effect {
	p.once.Do(func() { p.collect(x) })
	next := preparedEnd{time: format.MaxTime, effect: format.EffectUnknown}
	for _, end := range p.of[key] {
		if end.time >= after && end.time < next.time {
			next = end
		}
	}
	return next.effect
}

func (p *preparedEnds) collect(x *Index) {
	p.of = map[preparedKey][]preparedEnd{}
	scan := x.Scan(context.Background(), ScanOptions{
		Since: format.MinTime, Until: format.MaxTime, Raw: true, Contents: selectPreparedEnds,
		Warn: func(error) {}, // the trail's reader reports these
	})
	defer scan.Close()
	kept := 0
	for r := scan.Reader(); kept < maxPreparedEnds && r.Next(); {
		rec := &r.Record
		if rec.Kind != format.KindTransaction || rec.XID == 0 {
			continue
		}
		effect := format.EffectCommitted
		switch event, _ := rec.ExtraValue("event"); string(event) {
		case format.EventCommitPrepared.String():
		case format.EventRollbackPrepared.String():
			effect = format.EffectRolledBack
		default:
			continue
		}
		key := preparedKey{r.Ref.Segment.Header.SystemID, rec.XID}
		p.of[key] = append(p.of[key], preparedEnd{rec.Time, effect})
		kept++
	}
}

// selectPreparedEnds selects the groups of an index that may have ends of prepared transactions, by the command
// tags of statements. The record of the end follows that of the statement, and may be the first one of the next
// group, or the next index.
func selectPreparedEnds(c *format.Contents) format.Groups {
	g := c.Select(format.TermsCommands, func(v []byte) bool {
		return slices.Contains([]string{"COMMIT PREPARED", "ROLLBACK PREPARED"}, string(v))
	})
	for i := c.Len() - 1; i >= 0; i-- {
		if i == 0 || g.Has(i-1) {
			g[i/8] |= 1 << (i % 8)
		}
	}
	g.And(c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindTransaction }))
	return g
}
