// The zone in which commands show times.

package flags

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// AddZone defines the flag for the zone in which a command shows the times of its text; see Zone.
func AddZone(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "time-zone", "UTC", "show times in this time `zone`: Europe/Berlin, +02:00, local")
}

// Zone returns the zone of --time-zone, which formats other than text refuse.
func Zone(zone, format string) (render.Zone, error) {
	location, err := query.ParseZone(zone)
	if err != nil {
		return render.Zone{}, cmdutil.FlagError("time-zone", err)
	}
	if format != "text" && location != time.UTC {
		return render.Zone{}, exit.Usagef("--time-zone requires --format text: the times of %s are in UTC", format)
	}
	return render.InZone(location), nil
}
