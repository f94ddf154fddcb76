//go:build !linux || !(amd64 || arm64)

package rawio

import (
	"io"
	"net"
)

// Listener is ln.
func Listener(ln net.Listener) net.Listener { return ln }

// Reader is conn.
func Reader(conn net.Conn) io.Reader { return conn }

// Awake has nobody to wake.
func Awake() {}
