// Clients: addresses and networks.

package query

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// local is the client of a Unix-domain socket.
const local = "[local]"

// endpoint is an address, with or without a port. Addresses are compared by value: an IPv4 address equals the
// same address written as IPv6.
type endpoint struct {
	addr netip.Addr
	port uint16
	any  bool // any port matches
}

// parseEndpoint reads an address, with or without a port.
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

// matches returns whether a client has the wanted address and port. If the wanted address has no zone, any zone
// matches.
func (wanted endpoint) matches(client endpoint) bool {
	if wanted.addr.Zone() == "" {
		client.addr = client.addr.WithZone("")
	}
	return wanted.addr == client.addr && (wanted.any || !client.any && wanted.port == client.port)
}

// parseNetwork reads a network. A network of IPv4 addresses written as IPv6 becomes one of IPv4.
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

// Client is a client's address, with or without a port, a network, or the client of a Unix-domain socket.
type Client struct {
	text string
	net  netip.Prefix // for a network
	end  endpoint     // for an address
}

func (c Client) String() string { return c.text }

// IsNetwork returns whether this is a network.
func (c Client) IsNetwork() bool { return c.net.IsValid() }

// ParseClient reads an address, a network, or [local].
func ParseClient(s string) (Client, error) {
	c := Client{text: s}
	ok := s == local
	switch {
	case ok:
	case strings.Contains(s, "/"):
		if c.net, ok = parseNetwork(s); !ok {
			return Client{}, fmt.Errorf("%q is not a network", s)
		}
	default:
		if c.end, ok = parseEndpoint(s); !ok {
			return Client{},
				fmt.Errorf("%q is not an address, such as 10.0.0.1, 10.0.0.1:50022, [2001:db8::7]:40000 or [local]",
					s)
		}
	}
	return c, nil
}

// isClient returns whether a session's client matches one of some.
func isClient(clients []Client, client string) bool {
	e, isAddress := parseEndpoint(client)
	return slices.ContainsFunc(clients, func(c Client) bool {
		switch {
		case c.text == client:
			return true
		case !isAddress || c.text == local:
			return false
		case c.IsNetwork():
			return c.net.Contains(e.addr.WithZone(""))
		}
		return c.end.matches(e)
	})
}
