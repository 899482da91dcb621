package cli_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pg-steno/pg_steno/internal/command/memorytest"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

const memoryPage = "../../../docs/steno.md"

// TestMemoryIsWhatTheDocsSay: of a trail of ten times the size, no command takes more memory than its number in the docs,
// which is that of any trail.
func TestMemoryIsWhatTheDocsSay(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1,000,000 records")
	}
	for _, trail := range []struct {
		name  string
		write func(dir string)
		kept  int // statements that differ
	}{
		{"100,000 records", func(dir string) { trailtest.Minutes(t, dir, 20, 10, 500) }, 0},
		{"1,000,000 records", func(dir string) { trailtest.Minutes(t, dir, 200, 10, 500) }, 0},
		{"3,000 sessions", func(dir string) { trailtest.Varied(t, dir, 3_000) }, 30_000},
		{"30,000 sessions", func(dir string) { trailtest.Varied(t, dir, 30_000) }, 300_000},
	} {
		dir := t.TempDir()
		trail.write(dir)
		for _, args := range memoryCommands(t, dir) {
			name := args[0]
			if name == "review" {
				name += " " + args[1]
			}
			memorytest.Check(t, trail.name, memoryPage, name, trail.kept, args...)
		}
	}
}

// memoryCommands are the command lines whose memory is measured.
func memoryCommands(t *testing.T, dir string) [][]string {
	out := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(out, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	roles := `{"name":"postgres","superuser":true}`
	for n := range 2000 {
		roles += fmt.Sprintf(`,{"name":"user_%d","login":true,"inherit":true}`, n)
	}
	relations := ""
	for n := range 2000 {
		relations += fmt.Sprintf(`%s{"name":"schema_%d.table_%d","kind":"r","owner":"postgres","acl":["user_%d=arwd/postgres"]}`, comma(n), n%1000, n*10, n)
	}
	databases := ""
	for n := range 2 {
		databases += fmt.Sprintf(`%s{"name":"db_%d","owner":"postgres","inside":true,"schemas":[],"functions":[],"relations":[%s]}`, comma(n), n, relations)
	}
	grants := file("grants.json", fmt.Appendf(nil, `{"format":"pg_steno grants 1","system_identifier":"%d","server_version_num":150008,"roles":[%s],"memberships":[],"databases":[%s]}`, trailtest.SystemID, roles, databases))
	var changes bytes.Buffer
	for n := range 20_000 {
		fmt.Fprintf(&changes, `{"op":"u","before":{"id":%d},"after":{"id":%d},"source":{"db":"hr","schema":"hr","table":"staff","txId":%d,"lsn":%d}}`+"\n", n, n, 768+n, n<<24)
	}
	return [][]string{
		{"cat", "--format", "json", dir},
		{"cat", "--format", "csv", dir},
		{"cat", "--format", "text", "--grep", "id = 77", dir},
		{"tail", "-n", "1000", dir},
		{"info", dir},
		{"info", "--detail", dir},
		{"verify", dir},
		{"verify", "--begin", "--state", filepath.Join(out, "state"), dir},
		{"recover", "--out", filepath.Join(out, "copy"), dir},
		{"report", "--out", filepath.Join(out, "report.html"), dir},
		{"review", "person", "--user", "alice,user_77", dir},
		{"review", "subject", "--value", "77", dir},
		{"review", "access", "--grants", grants, dir},
		{"review", "change", "--changes", file("changes", changes.Bytes()), dir},
		{"check", "--offline", "--state", filepath.Join(out, "check"), dir},
	}
}

// comma is what stands before the nth element of a list.
func comma(n int) string {
	if n == 0 {
		return ""
	}
	return ","
}

// TestMemoryOfAProof: a proof knows each block of the trail, by a part of its header.
func TestMemoryOfAProof(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200,000 blocks")
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, blocks := range []int{10_000, 200_000} {
		dir, at := t.TempDir(), int64(trailtest.Epoch)
		w := sealtest.NewWriter(t, dir, 0, key)
		session := trailtest.NewSession(at, 7, trailtest.Fact{Key: format.KeyUser, Value: "alice"})
		for n := range blocks {
			at += 100_000
			w.Put(&trailtest.Record{
				Kind: format.KindStatement, Session: session, Seq: uint64(n + 1), Time: at, Text: "SELECT 1",
				Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"},
			})
			if n%500 == 499 {
				w.Rotate(at)
			}
		}
		until := render.Time(at - 60_000_000)
		for _, user := range []string{"alice", "bob"} {
			proof := filepath.Join(t.TempDir(), "proof")
			what := fmt.Sprintf("%d blocks", blocks)
			memorytest.Check(t, what, memoryPage, "prove", blocks, "prove", "--key", public, "--user", user, "--since", "2026-11-21T20:45:13Z", "--until", until, "--out", proof, dir)
			memorytest.Check(t, what, memoryPage, "prove", blocks, "prove", "--key", public, "--check", proof)
		}
	}
}
