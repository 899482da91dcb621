package logging

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// measureGiven measures on a running server.
func measureGiven(ctx context.Context, o *Options, p *progress.Phases) (r *result.Result, err error) {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, err
	}
	g, err := openGiven(ctx, installation, o.DSN)
	if err != nil {
		return nil, err
	}
	defer g.close()
	if err := g.recall(ctx, o, true); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.end()) }()
	can, not := g.about.possible(o.variants)
	if err := o.checkLeft(can, not); err != nil {
		return nil, err
	}
	if err := g.check(ctx, o); err != nil {
		return nil, err
	}
	if err := g.find(ctx); err != nil {
		return nil, err
	}
	if err := o.ask(ctx, g, can); err != nil {
		return nil, err
	}
	p.Phase("testing the load")
	if err := g.try(ctx, o); err != nil {
		return nil, err
	}
	if err := g.begin(ctx, can); err != nil {
		return nil, err
	}
	var version string
	if err := g.conn.QueryRow(ctx, "SELECT 'PostgreSQL ' || "+
		"current_setting('server_version')").Scan(&version); err != nil {
		return nil, err
	}
	m := &measurement{o: o, place: g, variants: can, result: o.newResult(version, not), started: time.Now()}
	m.result.Notes = g.limits()
	return m.result, m.run(ctx, p)
}

// recall restores what an earlier program left changed. Without goOn, that is
// all there is to do.
func (g *given) recall(ctx context.Context, o *Options, goOn bool) error {
	old, err := g.remember(ctx, o.stateDir)
	if err != nil {
		return err
	}
	if old == nil {
		if !goOn {
			fmt.Fprintln(o.IO.Out, "nothing to restore: no measurement of this server was interrupted")
		}
		return nil
	}
	left, err := restore(o.DSN, old)
	if err != nil {
		return errors.Join(err, g.journal.keep())
	}
	to := o.IO.Out
	if goOn {
		to = o.IO.ErrOut
	}
	fmt.Fprintf(to, "restored settings that an interrupted measurement had changed at %s: %s\n",
		old.Time.Format("2006-01-02 15:04:05 MST"), strings.Join(names(old.Settings), ", "))
	if left != nil {
		fmt.Fprintf(to, "not restored, because they have been changed since: %s\n", strings.Join(left, ", "))
	}
	return nil
}

func names(lines []journaledLine) []string {
	var all []string
	for _, line := range lines {
		all = append(all, line.Name)
	}
	return all
}

// restoreOnly is "steno bench logging --restore".
func restoreOnly(ctx context.Context, o *Options) error {
	g, err := openGiven(ctx, nil, o.DSN)
	if err != nil {
		return err
	}
	defer g.close()
	if err := g.recall(ctx, o, false); err != nil {
		return err
	}
	return g.journal.remove()
}

// ask tells what will be done to the server, and asks whether it may.
func (o *Options) ask(ctx context.Context, g *given, list []variant) error {
	if o.Yes {
		return nil
	}
	var all []string
	for _, s := range g.about.reloadable() {
		all = append(all, s.Name)
	}
	var titles []string
	for _, p := range o.points {
		titles = append(titles, p.title())
	}
	config := g.conn.Config()
	fmt.Fprintf(o.IO.ErrOut, `This changes what the whole server at %s logs, up to %d times, with ALTER SYSTEM and a reload:
%s.
Meanwhile its log and its audit trail lack what it usually writes there. A reload
also brings into force what was changed in its configuration files before.
In database "%s" it runs: %s.
`, config.Host, o.Rounds*len(o.points)*len(list), strings.Join(all, ", "), config.Database, strings.Join(titles, "; "))
	for _, p := range o.points {
		if p.workload.writes {
			fmt.Fprintln(o.IO.ErrOut, "Some of this writes to the database's tables.")
			break
		}
	}
	fmt.Fprint(o.IO.ErrOut, "At the end, also after Ctrl-C, the settings are restored.\nContinue? [y/N] ")
	answer, err := readLine(ctx, o.IO.In)
	if err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed (use --yes to skip the question)")
	}
	return nil
}

// readLine reads an answer, but waits for it no longer than the context lives.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case text := <-line:
		return text, nil
	}
}

// try makes one transaction of each client and script: what cannot work fails
// before a setting is changed.
func (g *given) try(ctx context.Context, o *Options) error {
	for _, p := range o.points {
		args := p.args(1)
		args[len(args)-1] = "--transactions=1" // instead of --time
		if _, err := g.pgbench(ctx, args...); err != nil {
			return fmt.Errorf("%s does not work here: %w", p.title(), err)
		}
	}
	return nil
}

// limits are what a server that is given cannot show.
func (g *given) limits() []string {
	notes := []string{"All variants shared one server and its tables; only settings that a reload can change were compared."}
	for _, library := range g.about.preloaded {
		if library == "pgaudit" || library == "pg_steno" {
			notes = append(notes, library+" was loaded all the time, so \"none\" includes its hooks, which "+
				"record nothing or "+
				"only mandatory classes: compare throw-away servers to see the whole cost.")
		}
	}
	if g.target.processes == nil {
		notes = append(notes, "The server's processes are not on this machine, or cannot be seen: no CPU time "+
			"and no context "+
			"switches were measured. The latency includes the network.")
	}
	if g.target.written == nil {
		notes = append(notes, "The server's log does not go through its logging collector: what it writes was "+
			"not measured.")
	}
	return notes
}
