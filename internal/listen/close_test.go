package listen

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowListener has one connection, whose write takes until it may, if nobody closes it.
type slowListener struct {
	net.Listener
	writing, may, cut chan struct{}
	once              sync.Once
}

type slowConn struct {
	net.Conn
	l *slowListener
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return slowConn{c, l}, err
}

func (c slowConn) Write(b []byte) (int, error) {
	close(c.l.writing)
	select {
	case <-c.l.may:
		return c.Conn.Write(b)
	case <-c.l.cut:
		return 0, net.ErrClosed
	}
}

func (c slowConn) Close() error {
	c.l.once.Do(func() { close(c.l.cut) })
	return c.Conn.Close()
}

func TestClose_WhatHandlersLeftIsStillWritten(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	slow := &slowListener{Listener: ln, writing: make(chan struct{}), may: make(chan struct{}), cut: make(chan struct{})}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "an answer") })}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(slow) }()
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		answer <- string(b)
	}()
	<-slow.writing // the handler has returned
	closed := make(chan error, 1)
	go func() { closed <- Close(srv, 10*time.Second) }()
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	time.AfterFunc(20*time.Millisecond, func() { close(slow.may) }) // who cuts does so at once
	require.Equal(t, "an answer", <-answer)
	require.NoError(t, <-closed)
}
