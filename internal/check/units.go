// systemd's units.

package check

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// systemdTimeout limits the time that systemd may take to answer.
const systemdTimeout = 5 * time.Second

// checkUnits checks steno's units, if systemd runs and has any.
func (c *checker) checkUnits() {
	if _, err := os.Stat("/run/systemd/system"); err != nil || !c.Units {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), systemdTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--all",
		"--property=Id,LoadState,ActiveState,UnitFileState,Result", "steno-*").Output()
	if err != nil {
		c.result.add("units", Unknown, "systemctl: %s", err)
		return
	}
	level, what := judgeUnits(string(out))
	if what != "" {
		c.result.add("units", level, "%s", what)
	}
}

// judgeUnits reads what systemctl shows: a block of lines NAME=VALUE for each unit.
func judgeUnits(shown string) (Level, string) {
	level, wrong, seen := OK, []string{}, 0
	for block := range strings.SplitSeq(shown, "\n\n") {
		p := map[string]string{}
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, "=")
			p[name] = value
		}
		id := p["Id"]
		if id == "" || p["LoadState"] != "loaded" {
			continue
		}
		seen++
		switch {
		case p["ActiveState"] == "failed":
			level, wrong = Critical, append(wrong, id+" has failed ("+p["Result"]+")")
		case strings.HasSuffix(id, ".timer") && p["ActiveState"] != "active" && p["UnitFileState"] == "enabled":
			level, wrong = worseOf(level, Warning), append(wrong, id+" is enabled, but not active")
		}
	}
	switch {
	case len(wrong) > 0:
		return level, strings.Join(wrong, ", ")
	case seen > 0:
		return OK, "none has failed"
	}
	return OK, ""
}
