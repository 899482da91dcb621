package seal

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/cat"
	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// ExportOptions are export's.
type ExportOptions struct {
	IO     *iostreams.IOStreams
	Trails []string
	Format string
	cat.KeyFlags
}

// NewCmdSeal returns the command with its subcommands.
func NewCmdSeal(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seal COMMAND",
		Short: "What to keep elsewhere of a trail's seals",
	}
	cmd.AddCommand(newCmdExport(f, nil))
	return cmdutil.Group(cmd)
}

func newCmdExport(f *cmdutil.Factory, run func(context.Context, *ExportOptions) error) *cobra.Command {
	opts := &ExportOptions{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "export [TRAIL]",
		Short: "Print an anchor of each stream, to keep elsewhere",
		Long: `Print one line for each stream of a trail: the number and the chain hash of its
last block, with its seal when that block is sealed and nothing but seals
follows it. Kept where nobody who can change the trail can change it, on another
machine, in a mail, on paper, the line proves later that the trail still has
everything up to there: see steno verify --anchor.

Seals stand in the encrypted part of a trail: without its keys, the lines of an
encrypted trail have no seals, and prove as much.`,
		Example: `  steno seal export /var/lib/postgresql/15/main/pg_steno | ssh vault 'cat >> anchors'
  ssh vault cat anchors | steno verify --anchor - /var/lib/postgresql/15/main/pg_steno`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails = args
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return exportRun(opts)
		},
	}
	opts.KeyFlags.Add(cmd)
	cmdutil.AddFormat(cmd, &opts.Format)
	return cmdutil.ReadsOnly(cmd)
}

func exportRun(opts *ExportOptions) error {
	if err := cmdutil.CheckFormat(opts.Format); err != nil {
		return err
	}
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	damaged, unread := false, len(t.Errors) > 0
	for _, err := range t.Errors {
		fmt.Fprintf(opts.IO.ErrOut, "steno: %s\n", render.Safe(err.Error()))
	}
	anchors := 0
	for _, s := range t.Streams {
		a, errs := Last(s)
		for _, err := range errs {
			if cmdutil.IsUnreadable(err) {
				fmt.Fprintf(opts.IO.ErrOut, "steno: unreadable: %s\n", render.Safe(err.Error()))
				unread = true
				continue
			}
			fmt.Fprintf(opts.IO.ErrOut, "steno: damaged: %s\n", render.Safe(err.Error()))
			damaged = true
		}
		if a == nil {
			continue
		}
		anchors++
		if opts.Format == "json" {
			err = a.writeJSON(opts.IO.Out)
		} else {
			_, err = fmt.Fprintln(opts.IO.Out, a)
		}
		if err != nil {
			return cmdutil.Verdict(cmdutil.Found(damaged, unread), err)
		}
	}
	if anchors == 0 && !damaged && !unread {
		return fmt.Errorf("%s: there is no block yet", t.Path)
	}
	return cmdutil.Found(damaged, unread)
}

func (a *Anchor) writeJSON(out io.Writer) error {
	hex := func(b []byte) string { return fmt.Sprintf("%x", b) }
	o := struct {
		Version   int     `json:"anchor"`
		System    string  `json:"system_id"`
		Stream    uint32  `json:"stream"`
		Segment   uint64  `json:"segment"`
		Block     uint64  `json:"block"`
		Record    uint64  `json:"record"`
		Hash      string  `json:"hash"`
		Time      string  `json:"time"`
		Reason    string  `json:"reason,omitempty"`
		First     uint64  `json:"first,omitempty"`
		Interval  *uint32 `json:"interval,omitempty"`
		Key       string  `json:"key,omitempty"`
		NextKey   string  `json:"next_key,omitempty"`
		Signature string  `json:"signature,omitempty"`
	}{
		Version: 1, System: strconv.FormatUint(a.SystemID, 10), Stream: a.Stream, Segment: a.Segment, Block: a.Block, Record: a.Record,
		Hash: hex(a.Hash[:]), Time: render.Time(a.Time),
	}
	if a.Signed {
		o.Reason, o.First, o.Interval, o.Key, o.NextKey, o.Signature = a.Reason, a.First, &a.Interval, a.Key, hex(a.NextKey), hex(a.Signature)
	}
	return json.NewEncoder(out).Encode(o)
}

// Last is the anchor of a stream's end: its last whole block, or, when that has
// nothing but seals in it, the one before, which they are of. It is nil for a
// stream without blocks.
func Last(s *trail.Stream) (*Anchor, []error) {
	files := &trail.Files{}
	defer files.Close()
	for i := len(s.Segments) - 1; i >= 0; i-- {
		seg := s.Segments[i]
		refs, errs := seg.Index()
		var damage []error
		for _, err := range errs {
			if torn, ok := err.(*trail.TornError); !ok || !torn.Last {
				damage = append(damage, err)
			}
		}
		if len(damage) > 0 {
			return nil, damage
		}
		for k := len(refs) - 1; k >= 0; k-- {
			var b trail.Block
			err := files.Read(&refs[k], &b)
			if err != nil && err != seg.KeyErr {
				if seg.Last && k == len(refs)-1 && b.HasHole() {
					continue // unfinished
				}
				return nil, []error{err}
			}
			// without the key of the segment, only the header can be read
			if err != nil {
			} else if sealed := sealOf(&b, &seg.Header); sealed != nil {
				return &Anchor{Seal: *sealed, Signed: true}, nil
			}
			h := &b.Header
			return &Anchor{Seal: Seal{
				SystemID: seg.Header.SystemID, Stream: seg.Header.Stream, Segment: seg.Header.Number,
				Block: h.Number, Record: h.FirstRecord + uint64(h.Records) - 1, Hash: h.Chain, Time: h.LastEnd,
			}}, nil
		}
	}
	return nil, nil
}

// sealOf is the last seal of a block that has nothing but seals, nil of another.
func sealOf(b *trail.Block, h *trail.SegmentHeader) (last *Seal) {
	var r trail.Record
	for {
		if err := b.Next(&r); err == io.EOF {
			return last
		} else if err != nil || r.Kind != trail.KindSeal {
			return nil
		}
		s, err := Parse(&r, h)
		if err != nil {
			return nil
		}
		last = s
	}
}
