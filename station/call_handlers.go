package station

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"thoth/station/engine"
	"thoth/station/wire"
)

// Handlers that make calls: /generate and the staged path.

func (st *Station) postGenerate(w http.ResponseWriter, r *http.Request) *wire.Error {
	arrived := time.Now()
	var q wire.GenerateRequest
	l, e := st.openCall(w, r, &q, &q.Later)
	if e == nil {
		e = l.generates(r)
	}
	if e != nil {
		return e
	}
	tokens, e := l.tokenize(&q.Prompt, false)
	switch {
	case e != nil:
	case len(tokens) == 0:
		e = invalid("prompt", "the prompt is empty: give text, segments or tokens")
	default:
		e = l.checkLength(len(tokens))
	}
	if e != nil {
		return e
	}
	seq := newSequence()
	seq.tokens = tokens
	c := &call{seq: seq, target: len(tokens), release: true, progress: q.Progress, arrived: arrived, out: newOutput()}
	d := &decoding{ignoreEOG: q.IgnoreEOG, written: q.ControlText, text: textStream{stops: q.Stop}}
	if c.dec, e = l.newDecoding(d, &q.Sampling, q.MaxTokens, "max_tokens", tokens); e == nil {
		e = st.stream(w, r, l, c, nil)
	}
	return e
}

func (st *Station) postEmbed(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.EmbedRequest
	l, e := st.openCall(w, r, &q, &q.Later)
	if e == nil && (q.Input != nil || q.InputTokens != nil) {
		return st.vectors(w, r, l, &q)
	}
	if e == nil {
		e = l.generates(r)
	}
	if e == nil && q.Append && q.Session == "" {
		e = invalid("append", "append needs the session to append to")
	}
	if e == nil && q.Session != "" && !q.Append {
		e = invalid("session", "a session is named by the station: leave session empty for a new one, or set append")
	}
	if e != nil {
		return e
	}
	tokens, e := l.tokenize(&q.Prompt, q.Append)
	if e == nil && len(tokens) == 0 {
		e = invalid("prompt", "the prompt is empty: give text, segments or tokens")
	}
	if e != nil {
		return e
	}
	s, e := st.session(r, q.Session)
	if e != nil {
		return e
	}
	if e := l.checkLength(len(s.seq.tokens) + len(tokens)); e != nil {
		if q.Append {
			st.sessions.release(s)
		} else {
			st.sessions.discard(s)
		}
		return e
	}
	s.seq.tokens = append(s.seq.tokens, tokens...)
	a := wire.EmbedResponse{Session: s.id, Tokens: tokens, Position: s.position, Staged: len(s.seq.tokens) - s.position}
	st.sessions.release(s)
	writeJSON(w, http.StatusOK, a)
	return nil
}

func (st *Station) postForward(w http.ResponseWriter, r *http.Request) *wire.Error {
	arrived := time.Now()
	var q wire.ForwardRequest
	l, e := st.openCall(w, r, &q, &q.Later)
	if e == nil {
		e = l.generates(r)
	}
	if e == nil && (q.TopLogprobs < 0 || q.TopLogprobs > maxTopLogprobs) {
		e = invalid("top_logprobs", "top_logprobs is %d; allowed is 0 to %d", q.TopLogprobs, maxTopLogprobs)
	}
	if e != nil {
		return e
	}
	s, e := st.existing(r, q.Session)
	if e != nil {
		return e
	}
	staged := len(s.seq.tokens) - s.position
	if q.Count < 0 || q.Count > staged {
		st.sessions.release(s)
		return invalid("count", "count is %d; allowed is 0 to %d, the tokens staged (0: all)", q.Count, staged)
	}
	c := &call{seq: s.seq, target: len(s.seq.tokens), session: s.id, rows: q.Logprobs, rowsTop: q.TopLogprobs,
		progress: q.Stream, arrived: arrived, out: newOutput()}
	if q.Count > 0 {
		c.target = s.position + q.Count
	}
	if q.Stream {
		return st.stream(w, r, l, c, s)
	}
	last, e := st.await(r, l, c, s, nil)
	if e == nil && last.Error != nil {
		e = last.Error
	}
	if e != nil {
		return e
	}
	writeJSON(w, http.StatusOK, last.Forward)
	return nil
}

func (st *Station) postDecodeNext(w http.ResponseWriter, r *http.Request) *wire.Error {
	arrived := time.Now()
	var q wire.DecodeRequest
	l, e := st.openCall(w, r, &q, &q.Later)
	if e == nil {
		e = l.generates(r)
	}
	if e != nil {
		return e
	}
	s, e := st.existing(r, q.Session)
	if e != nil {
		return e
	}
	sampling := q.Sampling
	if sampling == nil && s.turn == nil {
		sampling = &wire.Sampling{}
	}
	c := &call{seq: s.seq, target: len(s.seq.tokens), session: s.id, leave: q.LeaveLast, release: q.Release, arrived: arrived, out: newOutput()}
	if e = l.checkLength(len(s.seq.tokens)); e == nil {
		d := &decoding{ignoreEOG: q.IgnoreEOG, written: q.ControlText, text: textStream{stops: q.Stop}}
		c.dec, e = l.newDecoding(d, sampling, q.N, "n", s.seq.tokens)
	}
	if e != nil {
		if q.Release && e.Code == wire.CodeContextLength {
			st.sessions.discard(s) // a full session has no other way to end
		} else {
			st.sessions.release(s)
		}
		return e
	}
	if c.turn = sampling; c.turn == nil {
		c.turn = s.turn
	}
	c.dec.logprobs, c.dec.top = c.turn.Logprobs, c.turn.TopLogprobs
	return st.stream(w, r, l, c, s)
}

// openCall is open for bodies with fields that are built later.
func (st *Station) openCall(w http.ResponseWriter, r *http.Request, body any, later *wire.Later) (*loop, *wire.Error) {
	l, e := st.open(w, r, body)
	if e == nil {
		e = checkLater(later)
	}
	return l, e
}

// newDecoding checks the sampling half of a request, of which d has what is
// taken as it came, and completes d. Without sampling the sequence's sampler
// goes on.
func (l *loop) newDecoding(d *decoding, s *wire.Sampling, n int, name string, tokens []engine.Token) (*decoding, *wire.Error) {
	if e := checkStops(d.text.stops); e != nil {
		return nil, e
	}
	if n < 0 {
		return nil, invalid(name, "%s is %d; it must be at least 1, or 0 for as many as fit", name, n)
	}
	room := l.info.ContextLength - len(tokens)
	d.max = room
	if n > 0 {
		d.max = min(n, room)
	}
	if s == nil {
		return d, nil
	}
	d.logprobs, d.top = s.Logprobs, s.TopLogprobs
	var e *wire.Error
	d.fresh, e = l.newSampler(s, tokens, d.written)
	return d, e
}

// session makes a session, or takes an existing one where it is named.
func (st *Station) session(r *http.Request, id string) (*session, *wire.Error) {
	if id == "" {
		return st.sessions.create(r.Header.Get(wire.HeaderOwner))
	}
	return st.existing(r, id)
}

func (st *Station) existing(r *http.Request, id string) (*session, *wire.Error) {
	if id == "" {
		return nil, invalid("session", "session is missing: it names what /embed has made")
	}
	return st.sessions.acquire(id, r.Header.Get(wire.HeaderOwner))
}

// stream submits a call and writes its frames as they come. An error before the
// first frame is returned for the HTTP status.
func (st *Station) stream(w http.ResponseWriter, r *http.Request, l *loop, c *call, s *session) *wire.Error {
	var refused *wire.Error
	flush := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	started := false
	_, e := st.await(r, l, c, s, func(frames []wire.Frame) {
		if !started {
			if f := frames[0]; f.Type == wire.FrameError {
				refused = f.Error
				return
			}
			started = true
			w.Header().Set("Content-Type", wire.ContentTypeStream)
			w.WriteHeader(http.StatusOK)
		}
		for i := range frames {
			if enc.Encode(&frames[i]) != nil {
				return // the reader has gone; the request's context tells the rest
			}
		}
		_ = flush.Flush()
	})
	if e == nil {
		e = refused
	}
	return e
}

// await submits a call, gives its frames to sink, and returns the final one. It
// returns only after the loop has let go of the call: a caller that goes away
// cancels it. s, the session held busy for the call or nil, is given back: before
// sink gets the final frame, or the caller's next call could find it busy.
func (st *Station) await(r *http.Request, l *loop, c *call, s *session, sink func([]wire.Frame)) (wire.Frame, *wire.Error) {
	c.queued = time.Now()
	if e := l.submit(c); e != nil {
		if c.dec != nil && c.dec.fresh != nil {
			c.dec.fresh.Free()
		}
		if s != nil {
			st.sessions.release(s)
		}
		return wire.Frame{}, e
	}
	l.counts.requests.Add(1)
	for {
		frames, err := c.out.take(r.Context())
		if err != nil {
			l.cancel(c)
			st.settle(s, c, c.out.drain(), true)
			return wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeCancelled, Message: fmt.Sprintf("the caller went away: %v", err)}}, nil
		}
		last := frames[len(frames)-1]
		if last.Type == wire.FrameDone || last.Type == wire.FrameError {
			st.settle(s, c, last, false)
		}
		if sink != nil {
			sink(frames)
		}
		if last.Type == wire.FrameDone || last.Type == wire.FrameError {
			return last, nil
		}
	}
}

// settle gives a session back after its call: a call that completed keeps it, a
// call that failed, released it or whose caller is gone ends it.
func (st *Station) settle(s *session, c *call, last wire.Frame, gone bool) {
	switch {
	case s == nil:
	case last.Type == wire.FrameError || c.release:
		st.sessions.remove(s)
	case gone: // the loop had completed it and holds the sequence idle
		st.sessions.discard(s)
	default:
		s.position = len(s.seq.tokens)
		if c.turn != nil {
			s.turn = c.turn // only now: a call that was not taken has left no sampler
		}
		switch {
		case last.Forward != nil:
			s.position = last.Forward.Position
		case c.restore != nil:
			s.position = c.restore.answer.Position
		case last.Done != nil:
			s.position = last.Done.Position
		}
		st.sessions.release(s)
	}
}
