package hostbench

import (
	"errors"
	"net"
	"sync"
)

// relay is the least a plain program does between client and station: it reads what one
// sends and writes it to the other. What it costs is the kernel's part and the Go
// runtime's, on this machine. Its system calls are ordinary ones, each of which has the
// runtime's monitor awake; a host that streams spares itself that, see package rawio,
// and may be below it.
type relay struct {
	station string // path of its socket
	ln      net.Listener
	conns   sync.WaitGroup
}

func (r *relay) Serve(ln net.Listener) error {
	r.ln = ln
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		r.conns.Go(func() { r.carry(c) })
	}
}

func (r *relay) carry(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("unix", r.station)
	if err != nil {
		return
	}
	r.conns.Go(func() {
		defer s.Close()
		hand(s, c)
	})
	hand(c, s)
}

// hand is io.Copy without its system calls that copy inside the kernel: a host
// looks at what it hands on.
func hand(to, from net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Close waits for the connections, which end with their clients.
func (r *relay) Close() error {
	err := r.ln.Close()
	r.conns.Wait()
	return err
}
