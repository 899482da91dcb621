// How much of what was sent the receiver has not acknowledged.

package syslog

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// unacknowledged returns how many bytes are in the send queue: not sent, or sent and not acknowledged by the receiver's
// kernel. TIOCOUTQ has the number of SIOCOUTQ.
func unacknowledged(c *net.TCPConn) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	return n, errors.Join(failed, err)
}
