package client

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"thoth/station/wire"
)

// Bounds of one line of a stream. Most are far below the first; a frame with 20
// top log-probabilities for a held-back run of tokens stays far below the last.
const (
	lineBytes    = 4 << 10
	maxLineBytes = 16 << 20
)

// Stream reads frames. It must be closed; closing it early cancels the request
// at the station.
type Stream struct {
	ctx  context.Context
	body *answer
	in   *bufio.Reader
	long []byte // a line longer than in's buffer
	end  bool

	ended []bool // by answer
	left  int    // answers that have not ended
}

// stream starts a call whose answer is a stream.
func (c *Client) stream(ctx context.Context, route string, body any, answers int) (*Stream, error) {
	req, err := c.request(ctx, http.MethodPost, route, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	answer := resp.Body.(*answer)
	return &Stream{ctx: ctx, body: answer, in: bufio.NewReaderSize(answer, lineBytes), ended: make([]bool, answers), left: answers}, nil
}

// Next returns the next frame, io.EOF after the last answer's done frame, or
// *wire.Error: that of an error frame, CodeUnavailable when the stream ended
// without either, CodeInternal for a frame of an answer that was not asked for or
// has ended.
func (s *Stream) Next() (*wire.Frame, error) {
	if s.end {
		return nil, io.EOF
	}
	f, err := s.next()
	if err != nil {
		s.end = true
		return nil, err
	}
	if f.Type == wire.FrameDone {
		s.ended[f.Choice] = true
		s.left--
		s.end = s.left == 0
	}
	return f, nil
}

func (s *Stream) next() (*wire.Frame, error) {
	line, broken := s.line()
	for len(line) == 0 && broken == nil {
		line, broken = s.line()
	}
	switch {
	case len(line) == 0 && broken == io.EOF:
		return nil, transportError(s.ctx, io.ErrUnexpectedEOF)
	case len(line) == 0:
		return nil, transportError(s.ctx, broken)
	}
	f, err := decodeFrame(line)
	switch {
	case err != nil && (broken != nil && broken != io.EOF || s.ctx.Err() != nil): // half a line: the connection broke inside it
		return nil, transportError(s.ctx, broken)
	case err != nil:
		return nil, &wire.Error{Code: wire.CodeUnavailable, Message: "the station sent a line that is not a frame", Retryable: true, Taken: true}
	case f.Choice < 0 || f.Choice >= len(s.ended):
		return nil, &wire.Error{Code: wire.CodeInternal, Message: "the station sent a frame of an answer that was not asked for"}
	case s.ended[f.Choice] && f.Type != wire.FrameError:
		return nil, &wire.Error{Code: wire.CodeInternal, Message: "the station sent a frame of an answer that has ended"}
	case f.Type == wire.FrameError && f.Error == nil:
		return nil, &wire.Error{Code: wire.CodeInternal, Message: "the station sent an error frame without an error"}
	case f.Type == wire.FrameError:
		f.Error.Taken = true
		return nil, f.Error
	}
	return f, nil
}

// line is the next line without its end, until the next call. The error is that of
// the reader, which the last line may come with.
func (s *Stream) line() (line []byte, err error) {
	line, err = s.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		s.long = s.long[:0]
		for err == bufio.ErrBufferFull {
			if s.long = append(s.long, line...); len(s.long) > maxLineBytes {
				return nil, bufio.ErrTooLong
			}
			line, err = s.in.ReadSlice('\n')
		}
		s.long = append(s.long, line...)
		line = s.long
	}
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	return line, err
}

// More tells that the next frame is here already: Next will not wait. It is so for
// no more frames in a row than lineBytes hold.
func (s *Stream) More() bool {
	here, _ := s.in.Peek(s.in.Buffered())
	return !s.end && bytes.IndexByte(here, '\n') >= 0
}

// Ended tells that Close will not wait: the end of the body is here, or of no use.
func (s *Stream) Ended() bool { return s.left > 0 || s.ctx.Err() != nil || s.body.l == nil }

// endTime is the time for the end of a body, which follows the last frame at once.
const endTime = time.Second

// Close ends the stream. After the last frame it waits, not for long, for the end of the
// body, or the connection would not be reused. After an error it does not: whoever sent that may
// leave the rest open for long, and the caller waits for Close before he tells his client.
func (s *Stream) Close() error {
	if !s.Ended() {
		s.body.hurry(endTime)
		_, _ = s.line()
	}
	return s.body.Close()
}
