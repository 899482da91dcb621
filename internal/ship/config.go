// The configuration: what to read, and where it goes.

package ship

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Config is a configuration file.
type Config struct {
	// Trail is the directory of the trail. Empty: the command line names it, or the environment.
	Trail string `yaml:"trail"`
	// StateDirectory is where what was shipped, and what was refused, is noted.
	StateDirectory string `yaml:"state_directory"`
	// Metrics is the loopback address, with a port, at which metrics can be read; empty: nowhere.
	Metrics string `yaml:"metrics"`
	// EncryptionKeyFile and EncryptionKeyCommand are where keys of encrypted segments are, for sinks of records.
	EncryptionKeyFile    []string `yaml:"encryption_key_file"`
	EncryptionKeyCommand []string `yaml:"encryption_key_command"`

	Sinks map[string]*SinkConfig `yaml:"sinks"`
}

// SinkConfig is one sink. Options that only one kind of sinks has are in Options.
type SinkConfig struct {
	Name string `yaml:"-"`
	// To is the URL of the destination.
	To string `yaml:"to"`
	// Slot is the reader slot; the default is "ship_" and the name. It is created if it does not exist, at From.
	Slot string `yaml:"slot"`
	// From is where a new slot begins: at the start of the trail, or at its end.
	From string `yaml:"from"`
	// Format is Blocks, or the format of records.
	Format string   `yaml:"format"`
	Fields []string `yaml:"fields"`
	Filter Filter   `yaml:"filter"`
	Batch  Batch    `yaml:"batch"`
	Retry  Retry    `yaml:"retry"`
	TLS    TLS      `yaml:"tls"`

	Kind    *Kind `yaml:"-"`
	Options any   `yaml:"-"`
}

// Place is the URL as it may be shown: parameters of a URL for HTTP may contain a token.
func (c *SinkConfig) Place() string {
	before, parameters, found := strings.Cut(c.To, "?")
	if !found || parameters == "" || slices.Contains(c.Kind.Formats, Blocks) {
		return c.To
	}
	return before + "?…"
}

// Blocks is the format of sinks that take blocks as they are stored.
const Blocks = "blocks"

// IsBlocks returns whether the sink takes blocks.
func (c *SinkConfig) IsBlocks() bool { return c.Format == Blocks }

// Batch bounds what is sent at once.
type Batch struct {
	Records int      `yaml:"records"`
	Bytes   Size     `yaml:"bytes"`
	Wait    Duration `yaml:"wait"` // how long what is first in a batch waits for more
}

// Filter chooses records, as the filters of steno cat.
type Filter struct {
	Only        map[string][]string `yaml:"only"`
	Not         map[string][]string `yaml:"not"`
	IgnoreCase  bool                `yaml:"ignore_case"`
	MinDuration string              `yaml:"min_duration"`
	Failed      bool                `yaml:"failed"`
	TopLevel    bool                `yaml:"top_level"`
}

// Criteria returns what the filter asks for.
func (f *Filter) Criteria() (*query.Criteria, error) {
	c := &query.Criteria{Failed: f.Failed, TopLevel: f.TopLevel, Not: &query.Criteria{}}
	lists := query.Lists()
	for what, of := range map[string]map[string][]string{"only": f.Only, "not": f.Not} {
		to := c
		if what == "not" {
			to = c.Not
		}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			i := slices.IndexFunc(lists, func(l query.List) bool { return l.Name == strings.ReplaceAll(name, "_", "-") })
			if i < 0 {
				var names []string
				for _, l := range lists {
					names = append(names, strings.ReplaceAll(l.Name, "-", "_"))
				}
				return nil, unknown("filter."+what+"."+name, name, names)
			}
			if len(of[name]) == 0 {
				return nil, fmt.Errorf("filter.%s.%s: it has no value", what, name)
			}
			if err := lists[i].Add(to, of[name]...); err != nil {
				return nil, fmt.Errorf("filter.%s.%s: %w", what, name, err)
			}
		}
	}
	if f.IgnoreCase {
		if err := c.IgnoreCase(); err != nil {
			return nil, fmt.Errorf("filter.ignore_case: %w", err)
		}
	}
	if f.MinDuration != "" {
		least, err := query.ParseDuration(f.MinDuration)
		if err != nil {
			return nil, fmt.Errorf("filter.min_duration: %w", err)
		}
		c.MinDuration = &least
	}
	return c, nil
}

// Duration is a time such as 500ms or 2h.
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed <= 0 {
		return fmt.Errorf("%q is not a time such as 500ms or 2h", text)
	}
	*d = Duration(parsed)
	return nil
}

// Size is a number of bytes such as 8MB.
type Size int64

// UnmarshalText reads it.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n == 0 || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 8MB", text)
	}
	*s = Size(n)
	return nil
}

// Kind is a kind of sinks.
type Kind struct {
	Name    string   // as in texts: S3, Kafka
	Schemes []string // of URLs: s3
	// Formats are the formats that it takes, the default one first.
	Formats []string
	Batch   Batch // its defaults
	// Options returns a new value for the options that only it has, with their defaults.
	Options func() any
	// Open makes a sink. It connects to nothing.
	Open func(c *SinkConfig) (Sink, error)
}

// RecordFormats are the formats of sinks that take records.
var RecordFormats = []string{string(render.JSON), string(render.ECS), string(render.OCSF), string(render.OTel),
	string(render.CSVLog), string(render.Pgaudit)}

// AllFormats are those of sinks that take blocks and records.
var AllFormats = append([]string{Blocks}, RecordFormats...)

// defaultRetry is how long a sink waits after failures.
var defaultRetry = Retry{First: Duration(500 * time.Millisecond), Most: Duration(time.Minute)}

// maxBatch bounds what is in memory for a sink: one batch that is being sent, and one that is being filled.
const maxBatch = 24 << 20

// maxRecords bounds the records of a batch.
const maxRecords = 200_000

// Load reads a configuration file.
func Load(path string, kinds []*Kind) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(text, kinds)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads the text of a configuration file.
func Parse(text []byte, kinds []*Kind) (*Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("it is empty: it needs sinks")
	}
	c := &Config{}
	d := decoder{kinds: kinds}
	if err := d.decode(doc.Content[0], "", c); err != nil {
		return nil, err
	}
	if len(c.Sinks) == 0 {
		return nil, errors.New("sinks: there is none")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		c.Sinks[name].Name = name
	}
	return c, c.Complete()
}

var sinkName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,57}$`)

// Complete fills in defaults, and refuses what cannot work.
func (c *Config) Complete() error {
	slots := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		s := c.Sinks[name]
		if err := s.complete(); err != nil {
			return fmt.Errorf("sinks.%s: %w", name, err)
		}
		if other := slots[s.Slot]; other != "" {
			return fmt.Errorf("sinks.%s.slot: sink %s has slot %s, too: each needs one of its own", name, other, s.Slot)
		}
		slots[s.Slot] = name
	}
	if c.Metrics != "" {
		host, _, err := net.SplitHostPort(c.Metrics)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("metrics: %q is not a loopback address with a port, such as 127.0.0.1:9699", c.Metrics)
		}
	}
	if c.StateDirectory == "" {
		c.StateDirectory = DefaultState()
	}
	return nil
}

// DefaultState is the directory for states: the one that systemd gives to the service, or else /var/lib/steno.
func DefaultState() string {
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return dir
	}
	return "/var/lib/steno"
}

func (c *SinkConfig) complete() error {
	if !sinkName.MatchString(c.Name) {
		return errors.New("the name of a sink has up to 58 lower-case letters, digits and underscores, and begins with " +
			"a letter")
	}
	if c.Slot == "" {
		c.Slot = "ship_" + c.Name
	}
	switch c.From {
	case "":
		c.From = "start"
	case "start", "end":
	default:
		return fmt.Errorf("from: %q is neither start nor end", c.From)
	}
	if c.Format == "" {
		c.Format = c.Kind.Formats[0]
	}
	if !slices.Contains(c.Kind.Formats, c.Format) {
		return fmt.Errorf("format: %s takes %s, not %q", c.Kind.Name, strings.Join(c.Kind.Formats, ", "), c.Format)
	}
	if c.IsBlocks() && (len(c.Fields) > 0 || !c.Filter.isEmpty()) {
		return errors.New("fields and filter are for records: blocks are shipped whole")
	}
	if _, err := c.Filter.Criteria(); err != nil {
		return err
	}
	if len(c.Fields) > 0 {
		if c.Format != string(render.JSON) {
			return errors.New("fields: only format json has them")
		}
		if err := render.CheckFields(c.Fields); err != nil {
			return fmt.Errorf("fields: %w", err)
		}
	}
	setDefault(&c.Batch.Records, c.Kind.Batch.Records)
	setDefault(&c.Batch.Bytes, c.Kind.Batch.Bytes)
	setDefault(&c.Batch.Wait, c.Kind.Batch.Wait)
	setDefault(&c.Retry.First, defaultRetry.First)
	setDefault(&c.Retry.Most, max(defaultRetry.Most, c.Retry.First))
	switch {
	case c.Batch.Records < 0 || c.Batch.Records > maxRecords:
		return fmt.Errorf("batch.records must be between 1 and %d", maxRecords)
	case c.Batch.Bytes > maxBatch:
		return fmt.Errorf("batch.bytes must be at most %s", humanize.IBytes(maxBatch))
	case c.Retry.Most < c.Retry.First:
		return errors.New("retry.most is shorter than retry.first")
	}
	if _, err := c.TLS.Config(); err != nil {
		return err
	}
	sink, err := c.Kind.Open(c) // connects to nothing, and checks the options of the kind
	if err != nil {
		return err
	}
	return sink.Close()
}

func (f *Filter) isEmpty() bool {
	return len(f.Only)+len(f.Not) == 0 && !f.Failed && !f.TopLevel && f.MinDuration == ""
}

func setDefault[T comparable](to *T, value T) {
	if *to == *new(T) {
		*to = value
	}
}
