//go:build (amd64 || arm64) && !race

package rawio

import (
	"syscall"
	"unsafe"
)

// recv and send take a buffer that is not empty. They do not wait, whatever mode the
// descriptor is in, and nobody gets a signal because a peer has gone.
func recv(fd uintptr, b []byte) (int, syscall.Errno) {
	return result(syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), syscall.MSG_DONTWAIT, 0, 0))
}

func send(fd uintptr, b []byte) (int, syscall.Errno) {
	return result(syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0))
}

func result(n, _ uintptr, errno syscall.Errno) (int, syscall.Errno) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
