// Conditions of --client: addresses and networks.

package query

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// local is the client of a Unix-domain socket.
const local = "[local]"

// endpoint is an address, with a port or without one. Addresses are values: an IPv4
// address is the same in IPv6, however it is written.
type endpoint struct {
	addr netip.Addr
	port uint16
	any  bool // the port does not matter
}

// parseEndpoint reads an address, with a port or without one.
func parseEndpoint(s string) (endpoint, bool) {
	if both, err := netip.ParseAddrPort(s); err == nil {
		return endpoint{addr: both.Addr().Unmap(), port: both.Port()}, true
	}
	if inside, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inside, "]") {
		s = strings.TrimSuffix(inside, "]")
	}
	addr, err := netip.ParseAddr(s)
	return endpoint{addr: addr.Unmap(), any: true}, err == nil
}

// is says whether a client has the address and port that are asked for. Without a zone in
// the question, any is right.
func (asked endpoint) is(client endpoint) bool {
	if asked.addr.Zone() == "" {
		client.addr = client.addr.WithZone("")
	}
	return asked.addr == client.addr && (asked.any || !client.any && asked.port == client.port)
}

// parseNetwork reads a network. One of IPv4 addresses in IPv6 is that of the IPv4 addresses.
func parseNetwork(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, false
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// clients is the condition of --client.
func clients(flag string, values []string) (condition, error) {
	is, err := isClient(flag, values)
	return condition{session: func(s *trail.Session) bool { return is(string(s.Fact(trail.KeyClient))) }}, err
}

// isClient says of a client whether its address is one of some values, or in a network.
func isClient(flag string, values []string) (func(client string) bool, error) {
	var nets []netip.Prefix
	var ends []endpoint
	for _, v := range values {
		if v == local {
			continue
		}
		if strings.Contains(v, "/") {
			p, ok := parseNetwork(v)
			if !ok {
				return nil, exit.Usagef("%s: %q is not a network", flag, v)
			}
			nets = append(nets, p)
			continue
		}
		e, ok := parseEndpoint(v)
		if !ok {
			return nil, exit.Usagef("%s: %q is not an address, such as 10.0.0.1, 10.0.0.1:50022, [2001:db8::7]:40000 or [local]", flag, v)
		}
		ends = append(ends, e)
	}
	return func(client string) bool {
		if slices.Contains(values, client) {
			return true
		}
		e, ok := parseEndpoint(client)
		return ok && (slices.ContainsFunc(ends, func(asked endpoint) bool { return asked.is(e) }) ||
			slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(e.addr.WithZone("")) }))
	}, nil
}
