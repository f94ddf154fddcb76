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
	l, e := st.openFork(w, r, &q, &q.Later)
	if e == nil {
		e = l.generates(r)
	}
	if e == nil {
		e = l.checkTurn(q.KV)
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
	a := asked{sampling: &q.Sampling, n: q.MaxTokens, name: "max_tokens", stops: q.Stop, ignoreEOG: q.IgnoreEOG, written: q.ControlText}
	c := &call{seq: newSequence(), target: len(tokens), release: true, progress: q.Progress, arrived: arrived, out: newOutput()}
	c.seq.tokens = tokens
	c.dec, e = l.newDecoding(&a, 0, tokens)
	if e == nil {
		e = c.grow(&q.Later, func(i int) (*call, *wire.Error) {
			d, e := l.newDecoding(&a, i, tokens)
			return &call{seq: newSequence(), release: true, dec: d}, e
		})
	}
	if e != nil {
		c.dropSamplers()
		return e
	}
	if q.KV != nil {
		defer l.makeTurn(r.Context(), c, q.KV)()
	}
	return st.stream(w, r, l, c)
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
	c := &call{seq: s.seq, target: len(s.seq.tokens), session: s.id, home: s, rows: q.Logprobs, rowsTop: q.TopLogprobs,
		progress: q.Stream, arrived: arrived, out: newOutput()}
	if q.Count > 0 {
		c.target = s.position + q.Count
	}
	if q.Stream {
		return st.stream(w, r, l, c)
	}
	last, e := st.await(r, l, c, nil)
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
	l, e := st.openFork(w, r, &q, &q.Later)
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
	tokens := s.seq.tokens
	a := asked{sampling: q.Sampling, n: q.N, name: "n", stops: q.Stop, ignoreEOG: q.IgnoreEOG, written: q.ControlText}
	c := &call{seq: s.seq, target: len(tokens), session: s.id, home: s, leave: q.LeaveLast, release: q.Release, arrived: arrived, out: newOutput()}
	switch {
	case a.sampling != nil:
	case s.sampling == nil:
		a.sampling = &wire.Sampling{}
	case q.Answers() > 1:
		e = invalid("fork", "fork needs sampling: the turn's sampler goes on with one answer")
	}
	if e == nil {
		e = l.checkLength(len(tokens))
	}
	if e == nil {
		c.dec, e = l.newDecoding(&a, 0, tokens)
	}
	if e == nil {
		e = c.grow(&q.Later, func(i int) (*call, *wire.Error) {
			d, e := l.newDecoding(&a, i, tokens)
			return &call{seq: newSequence(), leave: q.LeaveLast, release: true, dec: d, sampling: branch(a.sampling, i)}, e
		})
	}
	if e != nil {
		c.dropSamplers()
		if q.Release && e.Code == wire.CodeContextLength {
			st.sessions.discard(s) // a full session has no other way to end
		} else {
			st.sessions.release(s)
		}
		return e
	}
	if c.sampling = a.sampling; c.sampling == nil {
		c.sampling = s.sampling
	}
	c.dec.logprobs, c.dec.top = c.sampling.Logprobs, c.sampling.TopLogprobs
	if !q.Release {
		st.settleIn(c, s.owner)
	}
	return st.stream(w, r, l, c)
}

// settleIn gives the branches of a session's call sessions of their own. One that
// gets none ends with the call.
func (st *Station) settleIn(c *call, owner string) {
	for _, b := range c.branches()[1:] {
		s, e := st.sessions.create(owner)
		if e != nil {
			return
		}
		s.seq = b.seq
		b.home, b.session, b.release = s, s.id, false
	}
}

// openCall is open for bodies with fields that not every route has.
func (st *Station) openCall(w http.ResponseWriter, r *http.Request, body any, later *wire.Later) (*loop, *wire.Error) {
	l, e := st.open(w, r, body)
	if e == nil && later.Fork != nil {
		e = unsupported("fork")
	}
	if e == nil {
		e = checkLater(later)
	}
	return l, e
}

// openFork is openCall for routes that fork.
func (st *Station) openFork(w http.ResponseWriter, r *http.Request, body any, later *wire.Later) (*loop, *wire.Error) {
	l, e := st.open(w, r, body)
	switch n := later.Answers(); {
	case e != nil || later.Fork == nil:
	case l.forks() == 0:
		e = unsupported("fork")
		e.Message += ": the KV of this model cannot be cut: " + l.info.KVCutReason
	case n < 1 || n > maxFork:
		e = invalid("fork", "fork is %d; allowed is 1 to %d", n, maxFork)
	}
	if n := later.ForkWidth; e == nil && n < 0 {
		e = invalid("fork_width", "fork_width is %d; it must be at least 1, or 0 for all", n)
	}
	if e == nil {
		e = checkLater(later)
	}
	return l, e
}

// asked is the sampling half of a request.
type asked struct {
	sampling           *wire.Sampling // nil: the sequence's sampler goes on
	n                  int            // tokens
	name               string         // of n in the request
	stops              []string
	ignoreEOG, written bool
}

// newDecoding checks the sampling half of a request and makes that of an answer.
func (l *loop) newDecoding(a *asked, choice int, tokens []engine.Token) (*decoding, *wire.Error) {
	if e := checkStops(a.stops); e != nil {
		return nil, e
	}
	if a.n < 0 {
		return nil, invalid(a.name, "%s is %d; it must be at least 1, or 0 for as many as fit", a.name, a.n)
	}
	d := &decoding{ignoreEOG: a.ignoreEOG, written: a.written, text: textStream{stops: a.stops}, max: l.info.ContextLength - len(tokens)}
	if a.n > 0 {
		d.max = min(a.n, d.max)
	}
	if a.sampling == nil {
		return d, nil
	}
	d.logprobs, d.top = a.sampling.Logprobs, a.sampling.TopLogprobs
	var e *wire.Error
	d.fresh, e = l.newSampler(branch(a.sampling, choice), tokens, d.written)
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
//
// The last frames leave when the handler returns: net/http writes them together with the
// end of the body, and the reader has both in one read. They wait for whatever a handler
// does behind this, so that must be quick.
func (st *Station) stream(w http.ResponseWriter, r *http.Request, l *loop, c *call) *wire.Error {
	var refused *wire.Error
	flush := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	started := false
	_, e := st.await(r, l, c, func(frames []wire.Frame, ended bool) {
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
		if !ended {
			_ = flush.Flush()
		}
	})
	if e == nil {
		e = refused
	}
	return e
}

// await submits a call, gives its frames to sink, which is told of the last ones, and
// returns the last. It returns only after the loop has let go of the call: a caller that
// goes away cancels it. A session held busy for it, or for a branch of it, is given back
// before sink gets its final frame, or the caller's next call could find it busy.
func (st *Station) await(r *http.Request, l *loop, c *call, sink func(frames []wire.Frame, ended bool)) (wire.Frame, *wire.Error) {
	c.queued = time.Now()
	if e := l.submit(c); e != nil {
		c.dropSamplers()
		if c.home != nil {
			st.sessions.release(c.home)
		}
		for _, b := range c.branches()[1:] {
			if b.home != nil {
				st.sessions.remove(b.home)
			}
		}
		return wire.Frame{}, e
	}
	l.counts.requests.Add(1)
	for {
		frames, ended, err := c.out.take(r.Context())
		if err != nil {
			l.cancel(c)
			for _, f := range c.out.drain() {
				st.settle(c, f, true)
			}
			// Answers that had ended before: their caller may never have heard of their sessions.
			for _, b := range c.branches()[1:] {
				if b.home != nil {
					st.sessions.expire(b.home)
				}
			}
			return wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeCancelled, Message: fmt.Sprintf("the caller went away: %v", err)}}, nil
		}
		for _, f := range frames {
			st.settle(c, f, false)
		}
		if sink != nil {
			sink(frames, ended)
		}
		if ended {
			return frames[len(frames)-1], nil
		}
	}
}

// settle gives sessions back whose calls have ended with a frame: a call that
// completed keeps its session, one that failed, released it or whose caller is
// gone ends it.
func (st *Station) settle(c *call, f wire.Frame, gone bool) {
	switch f.Type {
	case wire.FrameDone:
		st.settleOne(c.branches()[f.Choice], f, gone)
	case wire.FrameError: // it ends all that have not ended
		for _, b := range c.branches() {
			st.settleOne(b, f, gone)
		}
	}
}

func (st *Station) settleOne(c *call, last wire.Frame, gone bool) {
	defer func() { c.settled = true }()
	s := c.home
	switch {
	case s == nil || c.settled:
	case last.Type == wire.FrameError || c.release:
		st.sessions.remove(s)
	case gone: // the loop had completed it and holds the sequence idle
		st.sessions.discard(s)
	default:
		s.position = len(s.seq.tokens)
		if c.sampling != nil {
			s.sampling = c.sampling // only now: a call that was not taken has left no sampler
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
