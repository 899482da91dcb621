// Package reach has the steps of a check that sinks of records share: the address of a host, its certificate, and its
// clock.
package reach

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// Resolve looks up the addresses of a host. It returns false if there are none, when there is no use in going on.
func Resolve(ctx context.Context, host string) (ship.Finding, bool) {
	f := ship.Finding{What: "resolve " + host}
	if net.ParseIP(host) != nil {
		f.Note = "it is an address"
		return f, true
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	f.Err, f.Note = err, strings.Join(addresses, ", ")
	return f, err == nil
}

// IsLoopback returns whether a host is this machine, so that what is sent to it cannot be read elsewhere.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// expiresSoon is when a certificate should have been renewed.
const expiresSoon = 14 * 24 * time.Hour

// Certificate describes a connection whose certificate was verified.
func Certificate(address string, state *tls.ConnectionState, verified bool) ship.Finding {
	f := ship.Finding{What: "TLS with " + address}
	if len(state.PeerCertificates) > 0 {
		end := state.PeerCertificates[0].NotAfter
		f.Note = fmt.Sprintf("%s, certificate valid until %s", tls.VersionName(state.Version),
			end.UTC().Format("2006-01-02"))
		f.Warning = time.Until(end) < expiresSoon
	}
	if !verified {
		f.Note, f.Warning = f.Note+"; it is not verified, because tls.skip_verify is set", true
	}
	return f
}

// maxClockDifference is how far clocks may be apart before the times of records mislead those who compare them.
const maxClockDifference = 5 * time.Second

// Clock compares the clocks by the Date header of an answer; false: there is none.
func Clock(date string, now time.Time) (ship.Finding, bool) {
	there, err := http.ParseTime(date)
	if err != nil {
		return ship.Finding{}, false
	}
	f := ship.Finding{What: "clock of the destination"}
	switch difference := there.Sub(now); {
	case difference.Abs() <= maxClockDifference:
		f.Note = "it agrees with that of this machine"
	case difference > 0:
		f.Note, f.Warning = fmt.Sprintf("it is %s ahead", difference.Round(time.Second)), true
	default:
		f.Note, f.Warning = fmt.Sprintf("it is %s behind", (-difference).Round(time.Second)), true
	}
	return f, true
}
