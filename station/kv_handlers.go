package station

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Handlers of /kv-session: the original contract in headers, the rest in bodies.

const (
	maxScopeBytes = 128
	maxGroupBytes = 64
	maxNameBytes  = 128
	maxPoints     = 64
	maxKeys       = 4096
	maxTTL        = 30 * 24 * time.Hour
	flushTime     = 30 * time.Second
)

func (st *Station) kvRoutes(r chi.Router) {
	r.Get(wire.RouteKVSession, st.guarded(st.getKVIndex))
	for verb, h := range map[string]func(http.ResponseWriter, *http.Request) *wire.Error{
		wire.VerbLoad: st.postKVLoad, wire.VerbSave: st.postKVSave, wire.VerbDelete: st.postKVDelete,
		wire.VerbLookup: st.postKVLookup, wire.VerbFlush: st.postKVFlush,
	} {
		r.Post(wire.RouteKVSession+"/"+verb, st.guarded(h))
	}
}

func (st *Station) postKVLoad(w http.ResponseWriter, r *http.Request) *wire.Error {
	arrived := time.Now()
	var q wire.KVLoadRequest
	l, e := st.openKV(w, r, &q)
	if e == nil {
		e = checkLoad(&q)
	}
	if e != nil {
		return e
	}
	prefix, e := prefixLength(r)
	if e != nil {
		return e
	}
	s, e := st.named(r)
	if e != nil {
		return e
	}
	if n := len(s.seq.tokens); prefix > n {
		st.sessions.release(s)
		return invalid(wire.HeaderPrefixLength, "%s is %d; the session has %d tokens staged", wire.HeaderPrefixLength, prefix, n)
	}
	x := newRestore(s.seq, &q, prefix)
	defer l.find(r.Context(), x, &q, arrived)()
	c := &call{seq: s.seq, target: len(s.seq.tokens), session: s.id, home: s, restore: x, arrived: arrived, out: newOutput()}
	last, e := st.await(r, l, c, nil)
	if e == nil && last.Error != nil {
		e = last.Error
	}
	if e != nil {
		return e
	}
	writeJSON(w, http.StatusOK, x.answer)
	return nil
}

// find looks up what is stored of a restore's tokens and begins to read what only the
// cold tier has. What it returns must be called when the loop has let go of the restore's
// call, and waits for the reader.
func (l *loop) find(ctx context.Context, x *restore, q *wire.KVLoadRequest, arrived time.Time) (end func()) {
	gate := kvstore.Gate{TokenSeconds: l.gauges.tokenSeconds()}
	if q.WaitMS != nil {
		gate.Wait = time.Duration(*q.WaitMS) * time.Millisecond
		x.giveUp = arrived.Add(gate.Wait)
	}
	x.match = l.store.Find(x.scope, x.tokens, x.limit)
	if x.match.Tokens() >= x.limit || !l.cold {
		x.leave = sync.OnceFunc(x.match.Release)
		return x.leave
	}
	// A caller who goes away ends the call, and that the reads: the match is the loop's
	// until then.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	x.leave = stop // whoever needs no more reads must not wait for them
	x.fetching.Store(true)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer x.match.Release()
		x.match.Fetch(ctx, gate)
		x.fetching.Store(false)
		l.signal()
		<-ctx.Done()
	})
	return func() {
		stop()
		reading.Wait()
	}
}

func (st *Station) postKVSave(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.KVSaveRequest
	l, e := st.openKV(w, r, &q)
	if e != nil {
		return e
	}
	prefix, e := prefixLength(r)
	if e == nil {
		e = checkSave(&q, prefix)
	}
	if e != nil {
		return e
	}
	id := r.Header.Get(wire.HeaderSessionID)
	if prefix == 0 && !q.Release {
		// The probe of the original contract: nothing of nothing is captured, under any id.
		writeJSON(w, http.StatusOK, wire.KVSaveResponse{Saved: true, Durable: true})
		return nil
	}
	// A session that goes on is not held: evaluated cells never change, so they may
	// be captured beside a call, and a call may come meanwhile.
	s := st.sessions.peek(id, r.Header.Get(wire.HeaderOwner))
	if q.Release || s == nil {
		if s, e = st.named(r); e != nil {
			return e
		}
	}
	var a wire.KVSaveResponse
	o := kvstore.SaveOptions{Group: q.Group, Name: q.Name, TTL: time.Duration(q.TTLSeconds) * time.Second, Pin: q.Pin}
	for _, p := range q.Points {
		o.HoldTo = max(o.HoldTo, p)
	}
	ran := l.do(func() {
		switch {
		case prefix > s.seq.pos && !s.seq.working && prefix <= len(s.seq.evaluated):
			a.Reason = kvLeft
		case prefix > s.seq.pos:
			e = invalid(wire.HeaderPrefixLength, "%s is %d; the session has evaluated %d tokens", wire.HeaderPrefixLength, prefix, s.seq.pos)
		case prefix > 0:
			a = l.save(s.seq, prefix, kvstore.Scope{Name: q.Scope, Adapters: s.seq.adapter}, o)
		}
	})
	if !ran {
		e = errDraining()
	}
	switch {
	case !q.Release:
	case e == nil:
		st.sessions.discard(s)
	default:
		st.sessions.release(s)
	}
	if e != nil {
		return e
	}
	writeJSON(w, http.StatusOK, a)
	return nil
}

func (st *Station) postKVDelete(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.KVDeleteRequest
	l, e := st.openKV(w, r, &q)
	if e != nil {
		return e
	}
	if e := checkDelete(&q); e != nil {
		return e
	}
	blocks := q.All || q.Scope != nil || q.Group != "" || len(q.Keys) > 0
	var a wire.KVDeleteResponse
	id := r.Header.Get(wire.HeaderSessionID)
	if id == "" && !blocks {
		return invalid("", "nothing is named to delete: give %s, keys, scope, group or all", wire.HeaderSessionID)
	}
	if id != "" {
		s, e := st.named(r)
		if e != nil {
			return e
		}
		st.sessions.discard(s)
		a.Session = true
	}
	if blocks {
		// What lives in the pool must not be found any more either, nor be stored
		// when its session ends: before the store is asked, which may take long or
		// fail, and again for what was restored from it meanwhile.
		l.do(func() { l.copyAll(); l.forgetMemory(&q) })
		var err error
		a.Blocks, a.Bytes, err = l.store.Delete(r.Context(), &q)
		l.do(func() { l.forgetMemory(&q) })
		if err != nil {
			return st.asWire(err)
		}
	}
	writeJSON(w, http.StatusOK, a)
	return nil
}

func (st *Station) postKVLookup(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.KVLookupRequest
	l, e := st.openKV(w, r, &q)
	if e == nil {
		e = checkBytes("scope", q.Scope, maxScopeBytes)
	}
	if e != nil {
		return e
	}
	tokens, e := l.tokenize(&q.Prompt, false)
	if e != nil {
		return e
	}
	writeJSON(w, http.StatusOK, l.store.Lookup(r.Context(), kvstore.Scope{Name: q.Scope}, tokens))
	return nil
}

func (st *Station) postKVFlush(w http.ResponseWriter, r *http.Request) *wire.Error {
	l, e := st.openKV(w, r, &struct{}{})
	if e != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(r.Context(), flushTime)
	defer cancel()
	l.do(l.copyAll)
	writeJSON(w, http.StatusOK, l.store.Flush(ctx))
	return nil
}

func (st *Station) getKVIndex(w http.ResponseWriter, _ *http.Request) *wire.Error {
	l, e := st.serving()
	if e != nil {
		return e
	}
	if l.kvOff != "" {
		return errKVOff(l.kvOff)
	}
	l.look()
	writeJSON(w, http.StatusOK, st.kvIndex(l))
	return nil
}

// openKV is open for a station that saves KV sessions.
func (st *Station) openKV(w http.ResponseWriter, r *http.Request, body any) (*loop, *wire.Error) {
	l, e := st.serving()
	if e != nil {
		return nil, e
	}
	if l.kvOff != "" {
		return nil, errKVOff(l.kvOff)
	}
	if r.ContentLength == 0 { // the original contract has no bodies
		return l, nil
	}
	return l, decodeBody(w, r, st.opts.MaxBodyBytes, body)
}

// named gives the session of the header, busy.
func (st *Station) named(r *http.Request) (*session, *wire.Error) {
	id := r.Header.Get(wire.HeaderSessionID)
	if id == "" {
		return nil, invalid(wire.HeaderSessionID, "%s is missing: it names what /embed has made", wire.HeaderSessionID)
	}
	return st.existing(r, id)
}

// prefixLength reads the header that says how many tokens are meant.
func prefixLength(r *http.Request) (int, *wire.Error) {
	n, err := strconv.Atoi(r.Header.Get(wire.HeaderPrefixLength))
	if err != nil || n < 0 {
		return 0, invalid(wire.HeaderPrefixLength, "%s is %.40q; it must be a number of tokens, 0 or more", wire.HeaderPrefixLength, r.Header.Get(wire.HeaderPrefixLength))
	}
	return n, nil
}

func checkLoad(q *wire.KVLoadRequest) *wire.Error {
	if e := checkBytes("scope", q.Scope, maxScopeBytes); e != nil {
		return e
	}
	if q.WaitMS != nil && *q.WaitMS < 0 {
		return invalid("wait_ms", "wait_ms is %d; it must not be negative", *q.WaitMS)
	}
	return checkBytes("group", q.Group, maxGroupBytes)
}

func checkTTL(seconds int64) *wire.Error {
	if seconds < 0 || seconds > int64(maxTTL/time.Second) {
		return invalid("ttl_seconds", "ttl_seconds is %d; allowed is 0 to %d", seconds, int64(maxTTL/time.Second))
	}
	return nil
}

func checkSave(q *wire.KVSaveRequest, prefix int) *wire.Error {
	for _, f := range []struct {
		name, value string
		most        int
	}{{"scope", q.Scope, maxScopeBytes}, {"group", q.Group, maxGroupBytes}, {"name", q.Name, maxNameBytes}} {
		if e := checkBytes(f.name, f.value, f.most); e != nil {
			return e
		}
	}
	if e := checkTTL(q.TTLSeconds); e != nil {
		return e
	}
	if len(q.Points) > maxPoints {
		return invalid("points", "points has %d entries; at most %d are allowed", len(q.Points), maxPoints)
	}
	for _, p := range q.Points {
		if p < 1 || p > prefix {
			return invalid("points", "a point is %d; allowed is 1 to %d, the prefix length", p, prefix)
		}
	}
	return nil
}

func checkDelete(q *wire.KVDeleteRequest) *wire.Error {
	if len(q.Keys) > maxKeys {
		return invalid("keys", "keys has %d entries; at most %d are allowed", len(q.Keys), maxKeys)
	}
	for i, k := range q.Keys {
		if _, err := block.ParseKey(k); err != nil {
			return invalid(fmt.Sprintf("keys[%d]", i), "keys[%d]: %v", i, err)
		}
	}
	if q.Scope != nil {
		if e := checkBytes("scope", *q.Scope, maxScopeBytes); e != nil {
			return e
		}
	}
	return checkBytes("group", q.Group, maxGroupBytes)
}

func checkBytes(name, value string, most int) *wire.Error {
	if len(value) > most {
		return invalid(name, "%s has %d bytes; at most %d are allowed", name, len(value), most)
	}
	return nil
}

// errKVOff answers the kv routes of a model whose KV cannot be saved. It is not a
// 404: the route exists.
func errKVOff(why string) *wire.Error {
	return &wire.Error{Code: wire.CodeUnsupported, Message: "KV sessions are off: " + why}
}

// asWire words an error of the store. What the store's library says may name
// folders and blocks: the log has it.
func (st *Station) asWire(err error) *wire.Error {
	if e, ok := err.(*wire.Error); ok {
		return e
	}
	st.opts.Logger.Error().Err(err).Msg("stored KV could not be deleted everywhere")
	return &wire.Error{Code: wire.CodeUnavailable, Retryable: true,
		Message: "the cold store could not delete everything; what is in memory is gone: send it again"}
}
