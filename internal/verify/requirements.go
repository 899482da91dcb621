// Requirements of a trail in addition to being intact.

package verify

import (
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Requirements are conditions that make a verification fail although nothing is damaged.
type Requirements struct {
	NoLoss bool          // no records were lost, according to gap records
	MaxAge time.Duration // maximum age of the last block; 0: any
	Now    time.Time
}

// checkDemands checks the demands for the trails of one server.
func (v *verifier) checkDemands(d *Requirements) {
	r := v.report
	if d.NoLoss && r.GapRecords > 0 {
		r.Fail("%s lost, according to %s", render.Plural(r.LostRecords, "record"),
			render.Plural(r.GapRecords, "gap record"))
	}
	if d.MaxAge == 0 {
		return
	}
	switch last := query.Moment(v.last); {
	case r.Records == 0:
		r.Fail("there is no block that could be as young as %s", age(d.MaxAge))
	case d.Now.Sub(last) > d.MaxAge:
		r.Fail("the last block ended at %s, %s ago, which is more than %s", render.Time(v.last),
			age(d.Now.Sub(last)), age(d.MaxAge))
	}
}

// age returns a duration in few words.
func age(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	if d < 48*time.Hour {
		return d.Round(time.Second).String()
	}
	return humanize.Comma(int64(d/(24*time.Hour))) + " days"
}
