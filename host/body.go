package host

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"thoth/host/openai"
)

// limitBody gives every request's body its time, also where no handler reads
// it: the server itself reads a rest before it answers.
func (s *Server) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.BodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// readBody reads a request's body under the limits of size, time and memory,
// before anything is parsed and before a place is taken.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, h *hold) ([]byte, *openai.Error) {
	if e := checkMediaType(r.Header); e != nil {
		return nil, e
	}
	if r.ContentLength > s.o.BodyLimit {
		w.Header().Set("Connection", "close") // or the server would read on to keep it
		return nil, s.tooLarge(r)
	}
	most := s.o.BodyLimit
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	body, err := h.read(http.MaxBytesReader(w, r.Body, s.o.BodyLimit), int(most))
	if err == nil {
		// From now on the connection is read to notice a client that goes away,
		// however long the answer takes.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, nil
	}
	w.Header().Set("Connection", "close")
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, s.tooLarge(r)
	case errors.Is(err, errBodyMemory):
		return nil, s.bodiesFull()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openai.NewError(openai.CodeRequestTimeout, "", "the body did not arrive within %s", s.o.BodyTimeout)
	}
	return nil, openai.NewError(openai.CodeInvalidJSON, "", "the body is incomplete")
}

// bodiesFull is the answer while there is no room for a body, or for what a request has
// read out of the store.
func (s *Server) bodiesFull() *openai.Error {
	return openai.NewError(openai.CodeOverloaded, "", "the server is busy: the bodies of other requests fill their memory of %d bytes", s.o.MaxBodyMemory).Retry(s.retryAfter())
}

// tooLarge names the limit, and the length where it was announced.
func (s *Server) tooLarge(r *http.Request) *openai.Error {
	if r.ContentLength > 0 {
		return openai.NewError(openai.CodeTooLarge, "", "the body has %d bytes: at most %d are allowed", r.ContentLength, s.o.BodyLimit)
	}
	return openai.NewError(openai.CodeTooLarge, "", "the body has more than the %d bytes that are allowed", s.o.BodyLimit)
}

// bodyBudget bounds the bytes of all bodies that are being read or whose
// requests have no place yet: admission bounds only what comes after. Another bounds
// the answers that leave no place when they are made, see [Server.answer].
type bodyBudget struct {
	most  int64
	alone bool // more than most is given to one that has all

	mu struct {
		sync.Mutex
		held int64 // the sum of the open holds' bytes, at most most but for one alone
	}
}

// hold is one request's part of the budget. Only its request uses it, and only take and
// charge by several goroutines at once.
type hold struct {
	budget *bodyBudget
	bytes  int64
}

var errBodyMemory = errors.New("the memory for bodies is full")

// bodyFirst is the first buffer of a body that may be longer.
const bodyFirst = 4 << 10

// read reads to the end, at most most bytes, into a buffer that grows with what
// arrives: a length that is only announced costs its sender nothing, and must
// not cost us memory.
func (h *hold) read(rd io.Reader, most int) ([]byte, error) {
	var body []byte
	var end [1]byte
	for {
		room := body[len(body):cap(body)]
		if len(room) == 0 {
			size := min(max(2*cap(body), bodyFirst), most)
			if size > cap(body) {
				if !h.take(int64(size - cap(body))) {
					return nil, errBodyMemory
				}
				body = append(make([]byte, 0, size), body...)
				continue
			}
			room = end[:] // nothing but the end, or the reader's refusal, can follow
		}
		n, err := rd.Read(room)
		body = body[:len(body)+n]
		switch err {
		case nil:
		case io.EOF:
			return body, nil
		default:
			return nil, err
		}
	}
}

// take holds n bytes more, if the budget has them.
func (h *hold) take(n int64) bool {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(n) {
		return false
	}
	b.mu.held += n
	h.bytes += n
	return true
}

// charge is take for who tells it by an error.
func (h *hold) charge(n int64) error {
	if !h.take(n) {
		return errBodyMemory
	}
	return nil
}

// give gives n bytes back before the rest.
func (h *hold) give(n int64) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.held -= n
	h.bytes -= n
}

// release gives everything back. It may be called again.
func (h *hold) release() {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.held -= h.bytes
	h.bytes = 0
}

// fits is called with mu held.
func (b *bodyBudget) fits(n int64) bool {
	return b.mu.held+n <= b.most || b.alone && b.mu.held == 0
}

// has tells whether n bytes could be taken now.
func (b *bodyBudget) has(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(n)
}

func (b *bodyBudget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.held
}

// checkMediaType is lenient: a missing type and curl's form type pass, since
// the body says what it is. Only what would be misread is refused.
func checkMediaType(h http.Header) *openai.Error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return openai.NewError(openai.CodeMediaType, "", "Content-Encoding %s is not supported: send plain JSON", printable(enc))
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(given)
	if err != nil {
		return openai.NewError(openai.CodeMediaType, "", "the Content-Type cannot be read: send application/json")
	}
	if strings.HasPrefix(kind, "multipart/") {
		return openai.NewError(openai.CodeMediaType, "", "Content-Type %s is not supported: send application/json", printable(kind))
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
		return nil
	default:
		return openai.NewError(openai.CodeMediaType, "", "Content-Type has charset %s: JSON is UTF-8", printable(charset))
	}
}

// printable shortens a client's text for a message.
func printable(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}
