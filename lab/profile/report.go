// The report: causes by their share, evidence, advice, and limitations of the profile.

package profile

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/lab/machine"
)

// Report is the result of a profile.
type Report struct {
	Command  string            `json:"command"`
	Version  string            `json:"steno_version"`
	Machine  machine.Machine   `json:"machine"`
	Server   Server            `json:"server"`
	Settings map[string]string `json:"settings,omitempty"`
	// CPUBy and WaitsBy state how processors and waits were sampled.
	CPUBy   string `json:"cpu_by,omitempty"`
	WaitsBy string `json:"waits_by,omitempty"`
	// CPUSeconds and WaitSeconds state for how long.
	CPUSeconds  float64 `json:"cpu_seconds"`
	WaitSeconds float64 `json:"wait_seconds"`
	CPUSamples  int     `json:"cpu_samples"`
	// Processors is the average number of processors that the server kept busy, Waiting that of its waiting sessions,
	// and Idle that of sessions that waited for their clients.
	Processors float64 `json:"processors"`
	Waiting    float64 `json:"waiting_sessions"`
	Idle       float64 `json:"idle_sessions"`
	// FirstCause is the ID of the cost with the largest share, "" if none has at least FirstCausePercent.
	FirstCause string   `json:"first_cause"`
	Causes     []Share  `json:"causes"`
	Waits      []Wait   `json:"waits,omitempty"`
	Advice     []string `json:"advice,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

// Server is the server that was profiled.
type Server struct {
	PID     int    `json:"postmaster_pid,omitempty"`
	DataDir string `json:"data_directory,omitempty"`
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
}

// Share is a cause's part of the time, in per cent.
type Share struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Class Class  `json:"class"`
	// Active is the share of the combined time of running processes and waiting sessions; CPU and Waiting are the
	// shares of each of these.
	Active   float64    `json:"active_percent"`
	CPU      float64    `json:"cpu_percent"`
	Waiting  float64    `json:"waiting_percent"`
	Samples  int        `json:"samples"`
	Evidence []Evidence `json:"evidence"`
}

// Evidence is a short stack that is frequent in a cause.
type Evidence struct {
	Stack   string  `json:"stack"` // innermost function first
	Percent float64 `json:"active_percent"`
}

// Wait is a wait event of the server's sessions.
type Wait struct {
	Event    string  `json:"event"`
	Cause    string  `json:"cause"`
	Sessions float64 `json:"sessions"` // on average
	Percent  float64 `json:"percent"`  // of the sessions that were not idle
}

// FirstCausePercent is the minimum share of the active time for a cost to be named first.
const FirstCausePercent = 5

const (
	evidenceFrames = 4
	evidenceLines  = 3
)

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}

// summarize ranks the causes of a profile. waits are the sampled wait events, if there are any.
func summarize(r *Report, p *Profile, waits *Profile) {
	r.CPUSeconds, r.WaitSeconds = p.CPUSeconds, p.WaitSeconds
	byCause := map[*Cause]*Share{}
	for _, s := range p.Stacks {
		average := p.average(s)
		switch {
		case s.cause.Class == Idle:
			r.Idle += average
			continue
		case s.Waiting:
			r.Waiting += average
		default:
			r.Processors += average
			r.CPUSamples += s.Samples
		}
		share := byCause[s.cause]
		if share == nil {
			share = &Share{ID: s.cause.ID, Title: s.cause.Title, Class: s.cause.Class}
			byCause[s.cause] = share
		}
		share.Samples += s.Samples
		if s.Waiting {
			share.Waiting += average
		} else {
			share.CPU += average
		}
	}
	total := r.Processors + r.Waiting
	proofs := prove(p, total)
	evidences := gather(p, total, r.Settings)
	for c, share := range byCause {
		share.Active = percent(share.CPU+share.Waiting, total)
		share.CPU, share.Waiting = percent(share.CPU, r.Processors), percent(share.Waiting, r.Waiting)
		share.Evidence = proofs[c]
		r.Causes = append(r.Causes, *share)
	}
	slices.SortFunc(r.Causes, rank)
	if len(r.Causes) > 0 && r.Causes[0].Class == Cost && r.Causes[0].Active >= FirstCausePercent {
		r.FirstCause = r.Causes[0].ID
	}
	for _, share := range r.Causes {
		for _, text := range advise(causeByID[share.ID], evidences[causeByID[share.ID]]) {
			if !slices.Contains(r.Advice, text) {
				r.Advice = append(r.Advice, text)
			}
		}
	}
	r.Waits = tabulate(waits)
}

// rank puts costs before work, and more before less.
func rank(a, b Share) int {
	order := func(s Share) int {
		if s.Class == Cost {
			return 0
		}
		return 1
	}
	return cmp.Or(order(a)-order(b), cmp.Compare(b.Active, a.Active), strings.Compare(a.ID, b.ID))
}

// prove finds the most frequent short stacks of each cause.
func prove(p *Profile, total float64) map[*Cause][]Evidence {
	shares := map[*Cause]map[string]float64{}
	for _, s := range p.Stacks {
		if shares[s.cause] == nil {
			shares[s.cause] = map[string]float64{}
		}
		shares[s.cause][excerpt(s)] += percent(p.average(s), total)
	}
	found := map[*Cause][]Evidence{}
	for c, stacks := range shares {
		var list []Evidence
		for stack, share := range stacks {
			list = append(list, Evidence{stack, share})
		}
		slices.SortFunc(list, func(a, b Evidence) int {
			return cmp.Or(cmp.Compare(b.Percent, a.Percent), strings.Compare(a.Stack, b.Stack))
		})
		found[c] = list[:min(evidenceLines, len(list))]
	}
	return found
}

// dull are functions that are on many stacks and carry no information.
var dull patterns

func init() {
	dull.add(causeByAdvice, []string{
		"[unknown]", "do_syscall_64", "entry_SYSCALL_64*", "x64_sys_call", "asm_*", "sysvec_*", "schedule",
		"__schedule", "schedule_*", "__x64_sys_*",
		"ksys_*", "vfs_*", "new_sync_write", "__sys_*", "exc_*", "invoke_syscall*", "el0*", "__libc_*",
		"__GI___libc_*",
		"_raw_spin*",
		"finish_task_switch*", "PostmasterMain", "main", "_start",
	})
}

// excerpt returns the function that determined the cause and its neighbours on the stack, without dull ones.
func excerpt(s *Stack) string {
	if s.Preempt {
		return "preempted"
	}
	var words []string
	decided := -1
	for _, f := range s.Frames {
		n := name(f)
		o := objects.find(path.Base(f.Object))
		if o != nil {
			n += " (" + path.Base(f.Object) + ")"
		}
		decides := o == s.cause || owners.find(name(f)) == s.cause || generics.find(name(f)) == s.cause
		if !decides && dull.find(n) != nil {
			continue
		}
		if decides && decided < 0 {
			decided = len(words)
		}
		words = append(words, n)
	}
	if decided < 0 {
		words = words[:min(evidenceFrames, len(words))]
	} else {
		words = words[max(0, decided-2):min(decided+3, len(words))]
	}
	if s.Wait != "" {
		words = []string{"wait event " + s.Wait}
	}
	if len(words) == 0 {
		return s.Process
	}
	return strings.Join(words, " < ")
}

// tabulate counts wait events.
func tabulate(p *Profile) []Wait {
	if p == nil {
		return nil
	}
	sessions := map[string]*Wait{}
	total := 0.0
	for _, s := range p.Stacks {
		if !isSession(s.Process) || s.cause.Class == Idle {
			continue
		}
		event := s.Wait
		if event == "" {
			event = "none"
		}
		if sessions[event] == nil {
			sessions[event] = &Wait{Event: event}
			if c := waits.find(event); c != nil {
				sessions[event].Cause = c.ID
			}
		}
		sessions[event].Sessions += p.average(s)
		total += p.average(s)
	}
	var list []Wait
	for _, w := range sessions {
		w.Percent = percent(w.Sessions, total)
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), strings.Compare(a.Event, b.Event))
	})
	return list
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) {
	r.writeHead(w)
	if len(r.Causes) == 0 {
		fmt.Fprintln(w, "Nothing was observed: the server was idle.")
	} else {
		r.writeCauses(w)
	}
	if len(r.Waits) > 0 {
		fmt.Fprintf(w, "\nWait events of sessions that were not idle\n")
		for _, wait := range r.Waits[:min(8, len(r.Waits))] {
			event := wait.Event
			if event == "none" {
				event = "none: running, or in a wait that has no wait event, such as the log's pipe"
			}
			fmt.Fprintf(w, "  %5.1f %%  %6.2f sessions  %s\n", wait.Percent, wait.Sessions, event)
		}
	}
	writeList(w, "Advice", r.Advice)
	writeList(w, "Notes", r.Notes)
}

func (r *Report) writeHead(w io.Writer) {
	server := "Server"
	if r.Server.Version != "" {
		server += " PostgreSQL " + r.Server.Version
	}
	if r.Server.DataDir != "" {
		server += " in " + r.Server.DataDir
	}
	fmt.Fprintln(w, server)
	if r.CPUBy != "" {
		fmt.Fprintf(w, "  processors: %.2f busy on average for %.0f s; %d samples (%s)\n", r.Processors, r.CPUSeconds,
			r.CPUSamples, r.CPUBy)
	}
	if r.WaitsBy != "" {
		fmt.Fprintf(w, "  waits: %.2f sessions on average for %.0f s, and %.2f idle (%s)\n", r.Waiting, r.WaitSeconds,
			r.Idle, r.WaitsBy)
	}
	first := "no cost other than the statements' own work takes " + fmt.Sprint(FirstCausePercent) +
		" % of the active time"
	if r.FirstCause != "" {
		first = fmt.Sprintf("%s (%.1f %% of the active time)", causeByID[r.FirstCause].Title, r.Causes[0].Active)
	}
	fmt.Fprintf(w, "First cause: %s\n\n", first)
}

// writeCauses writes costs, then work, and omits negligible ones.
func (r *Report) writeCauses(w io.Writer) {
	const least = 0.5
	class := Class("")
	for _, c := range r.Causes {
		if c.Active < least {
			continue
		}
		if c.Class != class {
			class = c.Class
			title := "Possible savings"
			if class == Work {
				title = "Actual work"
			}
			fmt.Fprintf(w, "%-47s %8s %8s %8s\n", title, "active", "CPU", "waiting")
		}
		fmt.Fprintf(w, "  %-45s %6.1f %% %6.1f %% %6.1f %%\n", c.Title, c.Active, c.CPU, c.Waiting)
		for _, e := range c.Evidence {
			if e.Percent >= least {
				fmt.Fprintf(w, "      %5.1f %%  %s\n", e.Percent, e.Stack)
			}
		}
	}
}

func writeList(w io.Writer, title string, texts []string) {
	if len(texts) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, text := range texts {
		fmt.Fprintln(w, wrap(text, "  - ", "    ", 100))
	}
}

// wrap breaks a text into lines.
func wrap(text, first, next string, width int) string {
	var b strings.Builder
	line := first
	for i, word := range strings.Fields(text) {
		if i > 0 && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = next + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return b.String() + line
}

// Shares of frames without a name that are worth a note, in per cent.
const (
	muchUnnamed  = 15
	muchOneFrame = 60
)

// missingSymbols returns what to install if functions have no names or no callers.
func missingSymbols(p *Profile, program string, userOnly bool) []string {
	var server, unnamed, kernel, unnamedKernel, samples, shallow int
	for _, s := range p.Stacks {
		if s.Process != backend || s.Waiting || len(s.Frames) == 0 {
			continue
		}
		inUser := 0
		for _, f := range s.Frames {
			unknown := f.Symbol == "[unknown]"
			switch {
			case strings.HasPrefix(f.Object, "[kernel") || f.Object == "[unknown]" && unknown && inUser == 0:
				kernel += s.Samples
				unnamedKernel += when(unknown, s.Samples)
			case isServerFile(f.Object):
				inUser++
				server += s.Samples
				unnamed += when(unknown, s.Samples)
			default:
				inUser++
			}
		}
		samples += s.Samples
		shallow += when(inUser <= 2, s.Samples)
	}
	var notes []string
	if percent(float64(unnamed), float64(server)) > muchUnnamed {
		notes = append(notes, fmt.Sprintf("%.0f %% of the server's functions in the stacks have no names: install "+
			"%s. Causes were determined from the names that are known.",
			percent(float64(unnamed), float64(server)), debugSymbols(program)))
	}
	if percent(float64(unnamedKernel), float64(kernel)) > muchUnnamed {
		notes = append(notes, "The kernel's functions have no names: run as root, or \"sysctl "+
			"kernel.kptr_restrict=0\".")
	}
	if percent(float64(shallow), float64(samples)) > muchOneFrame {
		notes = append(notes, "Most stacks end after two functions: the server was built without frame pointers. Try "+
			"--unwind dwarf.")
	}
	if userOnly {
		notes = append(notes, "The kernel was not sampled: the cost of the log's pipe and its lock cannot be "+
			"separated from that of write(). "+paranoidHint())
	}
	return notes
}

func when(condition bool, n int) int {
	if condition {
		return n
	}
	return 0
}

func isServerFile(object string) bool {
	base := path.Base(strings.TrimSuffix(object, " (deleted)"))
	return base == "postgres" || base == "postmaster"
}

var debianVersion = regexp.MustCompile(`/postgresql/(\d+)/`)
var redHatVersion = regexp.MustCompile(`/pgsql-(\d+)/`)

// debugSymbols returns the package with the symbols of a server.
func debugSymbols(program string) string {
	if m := debianVersion.FindStringSubmatch(program); m != nil {
		return "postgresql-" + m[1] + "-dbgsym"
	}
	if m := redHatVersion.FindStringSubmatch(program); m != nil {
		return "postgresql" + m[1] + "-debuginfo"
	}
	return "the server's debug symbols (its -dbgsym or -debuginfo package)"
}
