package query

import (
	"fmt"
	"testing"
)

func TestNamesThatMixScriptsAreTold(t *testing.T) {
	var l Lookalikes
	for _, name := range []string{"\u0430lice", "alice", "\u0430lice", "кошка", "app_кошка", "größe", "日本ja"} {
		l.Check("user", []byte(name))
	}
	if got, want := fmt.Sprint(l.Errs()), `[user "\u0430lice" mixes scripts: it may look like another name]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range 2 * mostLookalikes {
		l.Check("user", fmt.Appendf(nil, "\u0430lice%d", i))
	}
	if n := len(l.Errs()); n != mostLookalikes || len(l.Errs()) != 0 {
		t.Errorf("%d are told", n)
	}
	(*Lookalikes)(nil).Check("user", []byte("\u0430lice"))
}
