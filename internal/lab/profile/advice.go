package profile

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// evidence is what the advice about a cause may rest on.
type evidence struct {
	settings    map[string]string // empty when they could not be read
	clockSource string
	active      float64            // per cent of the active time that the cause has
	frames      map[string]float64 // by name of a function, file or wait event: per cent of the active time
}

// Conditions of advice.

// set says that a setting has a value.
func set(name, value string) func(*evidence) bool { return anyOf(name, value) }

func anyOf(name string, values ...string) func(*evidence) bool {
	return func(e *evidence) bool { return slices.Contains(values, e.settings[name]) }
}

// frames says that the cause's stacks have one of these in them, in a fifth of
// its time at least.
func frames(names ...string) func(*evidence) bool {
	var p patterns
	p.add(causeByAdvice, names)
	return func(e *evidence) bool {
		for name, share := range e.frames {
			if p.find(name) != nil && share >= e.active/5 {
				return true
			}
		}
		return false
	}
}

// causeByAdvice only says that a pattern was found.
var causeByAdvice = &Cause{}

func unknownSettings(e *evidence) bool { return len(e.settings) == 0 }

func slowClock(e *evidence) bool {
	return !slices.Contains([]string{"", "tsc", "kvm-clock", "arch_sys_counter", "timebase"}, e.clockSource)
}

func clockSource() string {
	text, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return strings.TrimSpace(string(text))
}

// advise returns what to do about a cause, nothing when the evidence does not
// support any of it.
func advise(c *Cause, e *evidence) []string {
	var texts []string
	for _, a := range c.Advice {
		if e.active >= a.Min && (a.When == nil || a.When(e)) {
			texts = append(texts, e.fill(a.Text))
		}
	}
	return texts
}

// fill puts values in the place of {names}.
func (e *evidence) fill(text string) string {
	values := map[string]string{"clocksource": e.clockSource}
	maps.Copy(values, e.settings)
	if names := values["synchronous_standby_names"]; names != "" {
		values["synchronous_standby_names"] = " (synchronous_standby_names = '" + names + "', synchronous_commit = " +
			values["synchronous_commit"] + ")"
	}
	var objects []string
	for name := range e.frames {
		if c := causeByID["audit"]; strings.HasSuffix(name, ".so") && findIn(c.Objects, name) {
			objects = append(objects, name)
		}
	}
	slices.Sort(objects)
	if values["objects"] = strings.Join(objects, ", "); len(objects) == 0 {
		values["objects"] = "their own processes"
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		key, after, _ := strings.Cut(rest, "}")
		b.WriteString(values[key])
		text = after
	}
}

func findIn(names []string, name string) bool {
	var p patterns
	p.add(causeByAdvice, names)
	return p.find(name) != nil
}

// gather returns the evidence for each cause.
func gather(p *Profile, total float64, settings map[string]string) map[*Cause]*evidence {
	found := map[*Cause]*evidence{}
	source := clockSource()
	for _, s := range p.Stacks {
		if s.cause.Class == Idle {
			continue
		}
		e := found[s.cause]
		if e == nil {
			e = &evidence{settings: settings, clockSource: source, frames: map[string]float64{}}
			found[s.cause] = e
		}
		share := percent(p.average(s), total)
		e.active += share
		seen := map[string]bool{s.Wait: s.Wait != ""}
		for _, f := range s.Frames {
			seen[name(f)] = true
			seen[path.Base(f.Object)] = true
		}
		for n, in := range seen {
			if in {
				e.frames[n] += share
			}
		}
	}
	return found
}
