package station

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"sync"
	"time"

	"thoth/station/wire"
)

// sessions is the table of staged sessions. A session has an owner, who alone
// can name it; a busy mark, which one call at a time holds; a lease, after which
// it ends when nobody called; and their number has a cap.
type sessions struct {
	lease time.Duration
	most  int
	end   func(*sequence) // tells the loop that a sequence is no longer needed

	mu struct {
		sync.Mutex
		byID   map[string]*session
		closed bool
	}
}

// session's fields but busy belong to the holder of the busy mark.
type session struct {
	id, owner string
	seq       *sequence
	position  int            // evaluated tokens, as the last call left it
	sampling  *wire.Sampling // of the last decode call that brought one
	busy      bool
	expiry    *time.Timer
}

func newSessions(lease time.Duration, most int, end func(*sequence)) *sessions {
	t := &sessions{lease: lease, most: most, end: end}
	t.mu.byID = make(map[string]*session)
	return t
}

// create makes a session and gives it busy to the caller.
func (t *sessions) create(owner string) (*session, *wire.Error) {
	s := &session{id: newSessionID(), owner: owner, seq: newSequence(), busy: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, errDraining()
	}
	if len(t.mu.byID) >= t.most {
		return nil, &wire.Error{Code: wire.CodeOverloaded, Message: "too many sessions are alive", Retryable: true}
	}
	t.mu.byID[s.id] = s
	return s, nil
}

// acquire gives a session busy to the caller, who must give it back with release
// or finish it with remove. Another owner's session is as unknown as none.
func (t *sessions) acquire(id, owner string) (*session, *wire.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.byID[id]
	if s == nil || subtle.ConstantTimeCompare([]byte(s.owner), []byte(owner)) != 1 {
		return nil, &wire.Error{Code: wire.CodeGone, Param: "session", Message: "there is no such session: it ended, its lease ran out, or it never was"}
	}
	if s.busy {
		return nil, errBusy()
	}
	s.busy = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
	return s, nil
}

// peek gives a session that another call holds busy, for reading what the loop
// owns; nil when there is none.
func (t *sessions) peek(id, owner string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.byID[id]
	if s == nil || subtle.ConstantTimeCompare([]byte(s.owner), []byte(owner)) != 1 {
		return nil
	}
	return s
}

// release gives the busy mark back and starts the lease.
func (t *sessions) release(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy = false
	s.expiry = time.AfterFunc(t.lease, func() { t.expire(s) })
}

// expire ends a session whose lease ran out, or whose owner has gone, unless a call
// came in between.
func (t *sessions) expire(s *session) {
	t.mu.Lock()
	gone := s.busy || t.mu.byID[s.id] != s
	if !gone {
		delete(t.mu.byID, s.id)
	}
	t.mu.Unlock()
	if !gone {
		t.end(s.seq)
	}
}

// remove ends a session held busy, whose sequence the loop has ended already.
func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.byID, s.id)
}

// discard ends a session held busy, whose sequence is idle.
func (t *sessions) discard(s *session) {
	t.remove(s)
	t.end(s.seq)
}

func (t *sessions) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.byID)
}

// close stops the leases' timers; the loop's shutdown ends the sequences.
func (t *sessions) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.closed = true
	for id, s := range t.mu.byID {
		if s.expiry != nil {
			s.expiry.Stop()
		}
		delete(t.mu.byID, id)
	}
}

func errBusy() *wire.Error {
	return &wire.Error{Code: wire.CodeBusy, Param: "session", Message: "another call is using this session", Retryable: true}
}

// newSessionID is 128 random bits: not to be guessed by another client.
func newSessionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "s-" + hex.EncodeToString(b[:])
}
