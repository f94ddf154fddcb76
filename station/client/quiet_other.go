//go:build !unix

package client

import "net"

// quiet cannot be known here: each request has a connection of its own.
func quiet(net.Conn) bool { return false }
