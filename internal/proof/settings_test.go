package proof

import (
	"os"
	"regexp"
	"testing"
)

// leaveNothingOut are the settings of the extension that decide nothing of what records there are, or what they have, and
// why.
var leaveNothingOut = map[string]string{
	"role":                   "records more, for the privileges of a role",
	"log_start":              "records of starts, in addition",
	"start_after":            "the same",
	"app_user":               "a name that records have; an application sets it",
	"app_context":            "the same",
	"sync":                   "when clients go on",
	"sync_start":             "the same",
	"on_failure":             "what statements do meanwhile: a gap record, or one of the failure, says what was lost",
	"stall_timeout":          "the same",
	"disk_reserve":           "when the trail counts as full: the same",
	"disk_warning":           "a message",
	"alert_command":          "a message",
	"directory":              "where the trail is: another trail is told",
	"ring_directory":         "where the rings are",
	"ring_size":              "when sessions wait",
	"large_buffers":          "when sessions wait",
	"writers":                "how many streams there are, which a proof has",
	"flush_interval":         "when records reach the trail: see conditions.flushes",
	"fsync_interval":         "when they are on disk",
	"segment_size":           "how the trail is divided",
	"rotation_age":           "the same",
	"retention_size":         "records of deletions say what was deleted",
	"retention_age":          "the same",
	"slot_max_size":          "the same",
	"signing_key_file":       "seals, without which nothing is proved",
	"seal_interval":          "the same",
	"compression":            "bytes",
	"encryption_key_command": "who can read",
	"block_size":             "bytes",
	"file_mode":              "who can read",
}

// TestEachSettingIsDecided: a new setting that leaves something out belongs in defaults, leavesOut and Causes. Otherwise, a
// verdict would be "yes: nothing is known to have been left out".
func TestEachSettingIsDecided(t *testing.T) {
	text, err := os.ReadFile("../../extension/base/settings.def")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^STENO_SETTING_[A-Z]+\((\w+),`).FindAllSubmatch(text, -1)
	known := map[string]bool{}
	for _, m := range found {
		name := string(m[1])
		known[name] = true
		_, decides := defaults["steno."+name]
		if _, harmless := leaveNothingOut[name]; decides == harmless {
			t.Errorf("steno.%s: does it leave something out of the trail? Then it belongs in defaults, leavesOut and Causes, and otherwise in leaveNothingOut", name)
		}
	}
	if len(known) < 40 {
		t.Errorf("only %d settings are found", len(known))
	}
	for name := range leaveNothingOut {
		if !known[name] {
			t.Errorf("there is no setting steno.%s", name)
		}
	}
}
