package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// TestNamesThatDoNotOccurAreTold: by the indexes of a trail, and by the records of blocks that none covers.
func TestNamesThatDoNotOccurAreTold(t *testing.T) {
	index := openIndexed(t)
	for _, one := range []struct {
		o    FilterOptions
		want string
	}{
		{FilterOptions{Users: []string{"alcie"}}, `no user of the name "alcie" occurs in the trail; nearest: "alice"`},
		{FilterOptions{Users: []string{"Alice", "bob"}}, `no user of the name "Alice" occurs in the trail; nearest: "alice"`},
		{FilterOptions{Databases: []string{"shopp"}}, `no database of the name "shopp" occurs in the trail; nearest: "shop"`},
		{FilterOptions{Roles: []string{"ownr"}}, `no role of the name "ownr" occurs in the trail; nearest: "owner"`},
		{FilterOptions{Objects: []string{"public.order"}}, `no object of the name "public.order" occurs in the trail; nearest: "public.orders"`},
		{FilterOptions{Objects: []string{"no_such_schema.*"}}, `no object matches "no_such_schema.*" in the trail`},
		{FilterOptions{Users: []string{"alice", "bob"}, Databases: []string{"shop"}, Objects: []string{"Public.ORDERS", "orders.total", "ord*"}}, ""},
		{FilterOptions{Users: []string{""}}, ""},
		{FilterOptions{Not: &FilterOptions{Users: []string{"nobody"}}}, ""},
	} {
		var all []string
		for _, missing := range NewNames(&one.o).Look(context.Background(), index) {
			all = append(all, missing.Error())
		}
		if got := strings.Join(all, "\n"); got != one.want {
			t.Errorf("%+v: %q, want %q", one.o, got, one.want)
		}
		// The same of all blocks, without their indexes.
		n := NewNames(&one.o)
		names := n.Reader()
		var ref *trail.BlockRef
		scan := index.Scan(context.Background(), trail.ScanOptions{Since: trail.MinTime, Until: trail.MaxTime, Parts: true, Warn: func(err error) { t.Error(err) }})
		for r := scan.Reader(); r.Next(); {
			if r.Ref != ref {
				ref = r.Ref
				names.Start()
			}
			names.Record(&r.Record)
		}
		scan.Close()
		if got := fmt.Sprint(n.Missing()); (one.want == "") != (got == "[]") || one.want != "" && !strings.Contains(got, one.want) {
			t.Errorf("%+v: without indexes %s, want %q", one.o, got, one.want)
		}
	}
}

func TestDistanceIsThatOfLevenshtein(t *testing.T) {
	var plain func(a, b []rune) int
	plain = func(a, b []rune) int {
		if len(a) == 0 || len(b) == 0 {
			return len(a) + len(b)
		}
		same := plain(a[1:], b[1:])
		if a[0] != b[0] {
			same++
		}
		return min(same, plain(a[1:], b)+1, plain(a, b[1:])+1)
	}
	words := []string{"", "a", "ab", "ba", "größe", "grosse", "hr.st", "staff"}
	for _, a := range words {
		for _, b := range slices.Backward(words) {
			if got, want := distance(a, b), plain([]rune(a), []rune(b)); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}
