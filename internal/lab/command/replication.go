package command

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/lab/bench/replication"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdReplication returns "steno bench replication".
func newCmdReplication(e measure.Environment) *cobra.Command {
	return measuring(cobra.Command{
		Use:   "replication",
		Short: "Measure what commits cost that wait for a standby",
		Long: `Start a throw-away primary with two standbys, of which any one must confirm
(synchronous_standby_names = 'ANY 1 (...)'), and let pgbench insert rows, with
every synchronous_commit: transactions and inserts per second and their latency,
paired against "local", how idle the processors were, what sessions waited for,
and the system calls and latches of the primary for each commit. With pg_steno in
the installation, a second primary records everything, and then also makes each
writing statement and its commit wait for the trail's disk (--steno sync).

System calls and latches are counted by the kernel's perf events, which takes root
or CAP_PERFMON; else system calls by strace, where it is allowed; else not.

All servers and pgbench share this machine. A machine with few cores shows what
commits wait for and what they call, but not how many cores queue for one lock.
On a large one:

  steno bench replication --full --clients 16,64,256 --cores all,10,16,32`,
		Example: `  steno bench replication --quick
  steno bench replication --clients 8,64 --inserts 1,10 --output bench/results/replication
  steno bench replication --sync local,on --cores all,1 --steno off`,
	}, replication.New(e))
}
