package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestReportGoesOnFromAState: what the verdict says of a trail of which only the end is verified, and whom it believes.
func TestReportGoesOnFromAState(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	trailtest.Minutes(t, dir, 8, 4, 50)
	file := func(name string) string { return filepath.Join(files, name) }
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errOut bytes.Buffer
		code = program.Run(context.Background(), cli.New(&iostreams.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}), args)
		return code, out.String(), errOut.String()
	}
	for _, key := range []string{"own", "other"} {
		output(t, "keygen", "--out", file(key))
	}
	output(t, "verify", "--state", file("signed"), "--sign", file("own"), "--begin", dir)
	output(t, "verify", "--state", file("plain"), "--begin", dir)
	before, err := os.ReadFile(file("signed"))
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Replace(before, []byte(`"run":1`), []byte(`"run":2`), 1)
	forged := slices.Concat(altered[:bytes.IndexByte(altered, '\n')+1], before[bytes.IndexByte(before, '\n')+1:])
	if err := os.WriteFile(file("altered"), forged, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args       []string
		code       int
		says, errs string
	}{
		{[]string{"--state", file("signed")}, 0, "the signature of the state was not checked", ""},
		{[]string{"--state", file("signed"), "--state-key", file("own.pub")}, 0, "intact", ""},
		{[]string{"--state", file("plain")}, 0, "the state is not signed", ""},
		{[]string{"--state", file("plain"), "--state-key", file("own.pub")}, 3, "", "it is not signed, and the key of its signature was given"},
		{[]string{"--state", file("signed"), "--state-key", file("other.pub")}, 3, "", "and not by the one that was given"},
		{[]string{"--state", file("altered")}, 3, "", "it does not have its own checksum"},
		{[]string{"--state", file("none")}, 3, "", "there is none"},
		{[]string{"--state-key", file("own.pub")}, 2, "", "name its file with --state"},
		{[]string{"--state", file("signed"), dir}, 2, "", "a state is that of one trail"},
	} {
		code, out, errOut := run(append(append([]string{"report", "--format", "json"}, c.args...), dir)...)
		if code != c.code || !strings.Contains(out, c.says) || !strings.Contains(errOut, c.errs) {
			t.Errorf("%q: code %d, want %d, %q in %.2000s, %q in %s", c.args, code, c.code, c.says, out, c.errs, errOut)
		}
	}

	// Of blocks that earlier runs have read, those of the period are verified again, and of others, it is said that they were
	// not. A run that reads everything finds both.
	alter := func(number string) func() {
		segment := filepath.Join(dir, "0", number+".steno")
		before, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		after := slices.Clone(before)
		after[len(after)-1] ^= 1
		if err := os.WriteFile(segment, after, 0o600); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(segment, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	type verdict struct {
		Verdict struct {
			Intact  bool   `json:"intact"`
			Text    string `json:"text"`
			NotRead struct {
				Segments int `json:"segments"`
			} `json:"not_read"`
		} `json:"verdict"`
	}
	period := []string{"--since", "2026-11-21T20:50:20Z", "--until", "2026-11-21T20:50:30Z", "--state", file("signed"), "--state-key", file("own.pub"), dir}
	for _, c := range []struct {
		segment string // the period is in segment 6
		intact  bool
	}{{"0000000003", true}, {"0000000006", false}, {"0000000007", false}, {"0000000008", false}} {
		restore := alter(c.segment)
		var made verdict
		code, out, _ := run(append([]string{"report", "--format", "json"}, period...)...)
		if err := json.Unmarshal([]byte(out), &made); err != nil || made.Verdict.Intact != c.intact || code == 0 != c.intact || made.Verdict.NotRead.Segments != 5 || !strings.Contains(made.Verdict.Text, "NOT READ NOW") {
			t.Errorf("segment %s: code %d, %v: %+v", c.segment, code, err, made.Verdict)
		}
		title := map[bool]string{true: "The trail is intact where it was read now", false: "The trail is damaged"}[c.intact]
		if _, page, _ := run(append([]string{"report"}, period...)...); !strings.Contains(page, title) {
			t.Errorf("segment %s: the title is not %q", c.segment, title)
		}
		if code, _, errOut := run("report", "--format", "json", period[0], period[1], period[2], period[3], dir); code != 1 || !strings.Contains(errOut, "damaged") {
			t.Errorf("without a state: code %d, %s", code, errOut)
		}
		restore()
	}

	// A record of the period is forged with right checksums: the chain is broken, also before what the tail has read.
	for minute, number := range map[string]string{"50": "0000000006", "51": "0000000007"} {
		segment := filepath.Join(dir, "0", number+".steno")
		forged := forge(t, segment, " name FROM", " fame FROM")
		restore := alter(number)
		if err := os.WriteFile(segment, forged, 0o600); err != nil {
			t.Fatal(err)
		}
		period[1], period[3] = "2026-11-21T20:"+minute+":20Z", "2026-11-21T20:"+minute+":30Z"
		if code, out, errOut := run(append([]string{"report", "--format", "json"}, period...)...); code != 1 || !strings.Contains(errOut, "chain is broken") {
			t.Errorf("forged: code %d, %s, %.300s", code, errOut, out)
		}
		restore()
	}
	if after, err := os.ReadFile(file("signed")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the state is another one: %v", err)
	}
}

// forge replaces a text in the last block of a segment, and corrects its checksums and its hash: only the next segment shows it.
func forge(t *testing.T, segment, from, to string) []byte {
	t.Helper()
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	var before []byte // chain hash
	for at := format.SegmentHeaderSize; at < len(data); {
		header := data[at : at+format.BlockHeaderSize]
		payload := data[at+format.BlockHeaderSize:][:binary.LittleEndian.Uint32(header[8:])]
		if at += format.BlockHeaderSize + len(payload); at < len(data) {
			before = header[72:104]
			continue
		}
		copy(payload, bytes.Replace(payload, []byte(from), []byte(to), 1))
		binary.LittleEndian.PutUint64(header[64:], xxhash.Sum64(payload))
		chain := sha256.Sum256(slices.Concat(before, header[:72], payload))
		copy(header[72:], chain[:])
		trailtest.SealHeader(header)
	}
	return data
}
