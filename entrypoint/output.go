package entrypoint

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/rs/zerolog"
)

// maxStrayBytes of a stdout line are logged.
const maxStrayBytes = 1 << 10

// Output is where children's lines go: stderr unchanged, so that a log of JSON
// stays one, and a stdout line, which should not be there, into our own log.
// With Console set, lines of JSON are written for people.
type Output struct {
	Stderr  io.Writer
	Console io.Writer // a zerolog.ConsoleWriter, or nil
	Log     zerolog.Logger

	mu sync.Mutex // a line is never torn by another child's
}

func (o *Output) stderr(child string, line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Console != nil {
		if len(line) > 0 && line[0] == '{' && json.Valid(line) {
			_, _ = o.Console.Write(line)
			return
		}
		_, _ = io.WriteString(o.Stderr, child+" | ")
	}
	// One write a line; an error here (a closed terminal) must not end serving.
	_, _ = o.Stderr.Write(append(line[:len(line):len(line)], '\n'))
}

func (o *Output) stdout(child string, line []byte) {
	if len(line) == 0 {
		return
	}
	o.Log.Info().Str("child", child).Str("stdout", string(line[:min(len(line), maxStrayBytes)])).Msg("line on stdout")
}
