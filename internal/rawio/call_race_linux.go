//go:build (amd64 || arm64) && race

package rawio

import "syscall"

// recv and send are ordinary calls for the race detector, which takes one that writes
// and one that reads for an order of what the two sides do. It does not see raw ones,
// and would tell of races between both ends of a connection that are none. These wait in
// a descriptor that is in blocking mode, which none of package net's is.
func recv(fd uintptr, b []byte) (int, syscall.Errno) { return result(syscall.Read(int(fd), b)) }

func send(fd uintptr, b []byte) (int, syscall.Errno) { return result(syscall.Write(int(fd), b)) }

func result(n int, err error) (int, syscall.Errno) {
	errno, _ := err.(syscall.Errno)
	return max(n, 0), errno
}
