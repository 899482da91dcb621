// A sink as one URL, as on a command line.

package ship

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// newSink returns the sink of a URL, without options.
func newSink(name, to string, kinds []*Kind) (*SinkConfig, error) {
	scheme, rest, found := strings.Cut(to, ":")
	if !found {
		return nil, fmt.Errorf("%q is not a URL, such as %s", to, strings.Join(schemes(kinds), "…, ")+"…")
	}
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return slices.Contains(k.Schemes, scheme) })
	if i < 0 {
		return nil, fmt.Errorf("there is no sink for %s: use %s", scheme+":", strings.Join(schemes(kinds), ", "))
	}
	if strings.HasPrefix(rest, "//") {
		u, err := url.Parse(to)
		if err != nil {
			if parse := (*url.Error)(nil); errors.As(err, &parse) {
				err = parse.Err // without the URL, which may contain a password
			}
			return nil, fmt.Errorf("it is not a URL: %w", err)
		}
		if _, has := u.User.Password(); has {
			return nil, errors.New("a password does not belong into a URL: name its file, env or command in the " +
				"configuration file")
		}
	}
	return &SinkConfig{Name: name, To: to, Kind: kinds[i], Options: kinds[i].Options()}, nil
}

func schemes(kinds []*Kind) (all []string) {
	for _, k := range kinds {
		for _, s := range k.Schemes {
			all = append(all, s+":")
		}
	}
	return all
}

// ParseTarget returns a configuration with one sink, named after its scheme.
func ParseTarget(to string, kinds []*Kind) (*Config, error) {
	scheme, _, _ := strings.Cut(to, ":")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, scheme)
	s, err := newSink(name, to, kinds)
	if err != nil {
		return nil, err
	}
	return &Config{Sinks: map[string]*SinkConfig{name: s}}, nil
}
