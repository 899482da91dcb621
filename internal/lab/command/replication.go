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
		Short: "Measure the cost of commits that wait for a standby",
		Long: `Start a throw-away primary with two standbys, one of which must confirm
(synchronous_standby_names = 'ANY 1 (...)'), and let pgbench insert rows with
every value of synchronous_commit. The figures are transactions and inserts per
second and their latency, paired with "local"; the idle share of the processors;
what sessions waited for; and the primary's system calls and latches per commit.
If the installation has pg_steno, a second primary records everything; with
--steno sync, each writing statement and its commit also wait for the trail's
disk.

System calls and latches are counted with the kernel's perf events, which needs
root or CAP_PERFMON; otherwise, system calls are counted by strace, if it is
permitted. All servers and pgbench share this machine. A machine with few cores
shows what commits wait for and which calls they make, but not how many cores
queue for one lock. On a large machine:

  steno bench replication --full --clients 16,64,256 --cores all,10,16,32`,
		Example: `  steno bench replication --quick
  steno bench replication --clients 8,64 --inserts 1,10 --output bench/results/replication
  steno bench replication --sync local,on --cores all,1 --steno off`,
	}, replication.New(e))
}
