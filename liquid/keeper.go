package liquid

import (
	"context"
	"time"

	"thoth/station/client"
	"thoth/station/wire"
)

// keeper saves a session beside its decode, in a goroutine of its own, and
// releases it; so it does the sessions of the prompt's other choices. It is told
// how each choice ended, by ended, or that the rest was cut.
type keeper struct {
	m   *Manager
	ctx context.Context // the request's, for its values
	q   *Request
	s   *session

	ended chan ending     // of each choice; it has room for all
	live  context.Context // until the answer was cut
	cut   context.CancelFunc

	kept   kept      // so far; the keeper's own
	prompt chan kept // gets kept once the prompt's save is known
	all    chan kept // gets kept at the end
}

// ending is a choice that has ended.
type ending struct {
	session string // that has it; "": none
	tokens  int    // of prompt and answer to keep; not above the prompt's: no more
}

// kept is what became of a session's saves.
type kept struct {
	asked   bool // something was to be kept
	failed  bool // and not all of it was
	prompt  int  // prompt tokens newly written
	all     int  // tokens newly written
	durable bool
}

// keep starts the keeper of a session that is decoding; nil when it is too late.
func (m *Manager) keep(ctx context.Context, q *Request, s *session) *keeper {
	k := &keeper{m: m, ctx: ctx, q: q, s: s, ended: make(chan ending, q.Generate.Answers()), prompt: make(chan kept, 1), all: make(chan kept, 1)}
	k.live, k.cut = context.WithCancel(context.WithoutCancel(ctx))
	if !m.spawn(k.run) {
		k.cut()
		return nil
	}
	return k
}

func (k *keeper) run() {
	defer k.cut()
	points, ok := k.savePrompt()
	k.prompt <- k.kept
	unreleased := k.saveAnswers(points, ok)
	k.m.tell.wrote(k.kept.all)
	k.all <- k.kept
	for _, session := range unreleased {
		k.m.end(k.ctx, session)
	}
}

// saveAnswers captures each choice as it ends, and gives the sessions that this
// has not released.
func (k *keeper) saveAnswers(points []int, ok bool) (unreleased []string) {
	trunk := false // its session has been dealt with
	took := func(e ending, ok bool) {
		trunk = trunk || e.session == k.s.id
		if e.session != "" && !(ok && k.saveAnswer(e, points)) {
			unreleased = append(unreleased, e.session)
		}
	}
	for range k.q.Generate.Answers() {
		select {
		case e := <-k.ended:
			took(e, ok)
			continue
		case <-k.live.Done():
		}
		for len(k.ended) > 0 {
			took(<-k.ended, false)
		}
		if !trunk {
			unreleased = append(unreleased, k.s.id)
		}
		break
	}
	return unreleased
}

// saveAnswer captures prompt and answer of a choice and releases its session.
func (k *keeper) saveAnswer(e ending, points []int) bool {
	// In explicit mode only what the client marked is kept.
	if k.q.Explicit || k.q.Drafts || e.tokens <= k.s.length {
		return false
	}
	r := k.request(points)
	r.Release = true
	var written int
	released := k.save(e.session, e.tokens, r, &written)
	// The answer's first block holds the prompt's last tokens again.
	k.kept.all += min(written, e.tokens-k.s.length)
	return released
}

// saves waits for what is to be told of the saves: for the prompt's, up to most,
// and for the answer's only as long as a station takes that has nothing else to
// do. One that is not known by then goes on behind; the prompt's is told as
// failed.
func (k *keeper) saves(ctx context.Context, most time.Duration) kept {
	timer := time.NewTimer(most)
	defer timer.Stop()
	var now kept
	select {
	case now = <-k.prompt:
	case <-timer.C:
		return unsaved
	case <-ctx.Done():
		return unsaved
	}
	timer.Reset(answerWait)
	select {
	case now = <-k.all:
	case <-timer.C:
	case <-ctx.Done():
	}
	return now
}

// answerWait is short: a busy station saves after its step, and the end of every
// answer would come a step later.
const answerWait = 20 * time.Millisecond

var unsaved = kept{asked: true, failed: true}

// savePrompt captures the prompt, or in explicit mode what is before its last
// breakpoint. false: there is no use in trying the answer.
func (k *keeper) savePrompt() (points []int, ok bool) {
	length := k.s.length
	if len(k.q.Points) > 0 {
		ctx, cancel := k.m.behind(k.live, k.m.o.SaveTimeout)
		defer cancel()
		var err error
		if points, err = k.m.positions(ctx, k.q.Generate.Prompt.Segments, k.s.tokens, k.q.Points); err != nil {
			return nil, k.fails(0, err, "the breakpoints could not be placed")
		}
	}
	if k.q.Explicit {
		if len(points) == 0 {
			return nil, true
		}
		length = points[len(points)-1]
	}
	ok = k.save(k.s.id, length, k.request(points), &k.kept.prompt)
	k.kept.all = k.kept.prompt
	return points, ok
}

func (k *keeper) request(points []int) *wire.KVSaveRequest {
	return &wire.KVSaveRequest{Scope: k.s.scope, Group: k.q.Group, TTLSeconds: int64(k.q.TTL.Seconds()), Pin: k.q.Pin, Points: points}
}

// save captures so many tokens of a session and tells those newly written. A
// client that goes away takes a save that hangs with it.
func (k *keeper) save(session string, tokens int, r *wire.KVSaveRequest, written *int) bool {
	k.kept.asked = true
	ctx, cancel := k.m.behind(k.ctx, k.m.o.SaveTimeout)
	defer cancel()
	defer context.AfterFunc(k.live, cancel)()
	a, err := k.m.o.Station.KVSave(ctx, session, tokens, r)
	switch {
	case err != nil:
		if codeOf(err) == wire.CodeNoRoute {
			k.m.off(routeSave)
		}
		return k.fails(tokens, err, "a save failed")
	case !a.Saved:
		return k.fails(tokens, nil, "the station did not save: "+a.Reason)
	}
	*written = a.Written
	k.kept.durable = a.Durable
	return true
}

func (k *keeper) fails(tokens int, err error, what string) bool {
	k.kept.failed = true
	if k.live.Err() == nil {
		k.m.o.Log.Warn().Err(err).Str("id", client.RequestID(k.ctx)).Int("tokens", tokens).Msg(what)
	}
	return false
}
