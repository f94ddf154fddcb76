package entrypoint

import (
	"bufio"
	"errors"
	"io"
)

const (
	tailLines    = 40
	tailBytes    = 8 << 10
	maxLineBytes = 64 << 10 // a longer line is passed on in pieces
)

// tail keeps the end of a child's stderr, for the error when it dies: at most
// tailLines lines and tailBytes bytes, whatever the child writes.
type tail struct {
	lines []string
	bytes int
}

func (t *tail) add(line []byte) {
	if len(line) > tailBytes {
		line = line[len(line)-tailBytes:]
	}
	t.lines = append(t.lines, string(line))
	t.bytes += len(line)
	for len(t.lines) > tailLines || t.bytes > tailBytes {
		t.bytes -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

// readLines gives each line of r, without its end, until r ends. The slice is
// good until each returns. Lines above maxLineBytes come in pieces, so that a
// child cannot make the parent hold more.
func readLines(r io.Reader, each func(line []byte)) {
	br := bufio.NewReaderSize(r, maxLineBytes)
	for {
		line, err := br.ReadSlice('\n')
		if n := len(line); n > 0 {
			if line[n-1] == '\n' {
				line = line[:n-1]
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			each(line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
