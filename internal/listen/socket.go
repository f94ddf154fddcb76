package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// ErrInUse is a socket that a process listens on.
var ErrInUse = errors.New("is in use by another process")

// ClearSocket removes a dead socket at path. It fails when what lies there must
// stay, with [ErrInUse] when that is another listener's.
func ClearSocket(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is no socket: remove it, or choose another path", path)
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%s %w", path, ErrInUse)
	case errors.Is(err, syscall.EAGAIN): // a full queue: somebody listens, if slowly
		return fmt.Errorf("%s %w", path, ErrInUse)
	case errors.Is(err, syscall.ECONNREFUSED):
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) { // its owner was just ending
		return nil
	}
	return err
}
