package bench

import (
	"context"
	"errors"
	"fmt"
)

// The cohorts of the reuse family.
const (
	cFill          = "fill"
	cRepeat        = "repeat"
	cShared        = "shared_prefix"
	cTurns         = "turns"
	cEvict         = "evict"
	cService       = "service"
	cRestart       = "restart"
	cRestoreFirst  = "restore_first"
	cRestoreRepeat = "restore_repeat"
	cReplica       = "replica"
)

// storeOfReuse is the cold tier that outlives restarts and is shared by the replica.
const storeOfReuse = "store"

// subject is a server in one round, and what it said there.
type subject struct {
	*instance
	side, round int
	script      *script
	computed    []string // answers to script.repeats, when they were new
}

// sample numbers the i-th of n samples of the round.
func (s *subject) sample(i, n int) int { return s.round*n + i }

// reuse measures what a server remembers: while it runs, after a restart of
// everything, and on a second server. The peer does the same in turn.
func (r *liquidRun) reuse(ctx context.Context) error {
	start := []func() (*instance, error){
		func() (*instance, error) {
			return r.launch.thoth(ctx, "thoth", true, "THOTH_KV_STORE="+r.launch.storeURL(storeOfReuse))
		},
	}
	if r.o.PeerCommand != "" {
		start = append(start, func() (*instance, error) { return r.launch.peer(ctx) })
	}
	all := make([]*instance, len(start))
	for i := range start {
		var err error
		if all[i], err = start[i](); err != nil {
			return err
		}
	}
	defer func() {
		for _, in := range all {
			if in == nil {
				continue
			}
			if err := r.launch.stop(in); err != nil {
				r.fail("at the end: %v", err)
			}
		}
	}()
	if err := r.calibrate(ctx, all[0]); err != nil {
		return err
	}
	for round := range r.o.Rounds {
		sc := newScript(r.seed, round, r.size)
		subjects := make([]*subject, len(all))
		for side, in := range all {
			subjects[side] = &subject{instance: in, side: side, round: round, script: sc}
		}
		for _, step := range []step{{cFill, r.fillStep}, {cRepeat, r.repeatStep(cRepeat)}, {cShared, r.sharedStep}, {cTurns, r.turnsStep}, {cEvict, r.evictStep}} {
			if err := r.step(ctx, step, subjects...); err != nil {
				return err
			}
		}
		r.inService(ctx, subjects[0])
		for side := range all {
			in := all[side]
			all[side] = nil
			if err := r.launch.stop(in); err != nil {
				return err
			}
			r.quiet(ctx)
			next, err := start[side]()
			if err != nil {
				return err
			}
			all[side], subjects[side].instance = next, next
			r.put(cRestart, side, round, figures{mReady: next.readyIn.Seconds()})
		}
		for _, step := range []step{{cRestoreFirst, r.repeatStep(cRestoreFirst)}, {cRestoreRepeat, r.repeatStep(cRestoreRepeat)}} {
			if err := r.step(ctx, step, subjects...); err != nil {
				return err
			}
		}
		if err := r.replica(ctx, subjects[0]); err != nil {
			return err
		}
	}
	return nil
}

// step is one cohort of a round.
type step struct {
	cohort string
	run    func(context.Context, *subject) error
}

// step lets each server do a cohort, in turn. A failed request is noted and the
// round goes on; a server that has ended ends the family.
func (r *liquidRun) step(ctx context.Context, st step, subjects ...*subject) error {
	for _, s := range subjects {
		r.quiet(ctx)
		err := st.run(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if died := s.process.alive(); died != nil {
			return fmt.Errorf("round %d, %s, %s: %w", s.round+1, st.cohort, s.name, died)
		}
		if err != nil {
			r.fail("round %d, %s, %s: %v", s.round+1, st.cohort, s.name, err)
			continue
		}
		if d := r.data[st.cohort]; d != nil {
			if sp := d[s.side][mTTFT].spread(); sp != nil {
				r.logf("round %d of %d: %-15s %-8s first token %.1f ms so far", s.round+1, r.o.Rounds, st.cohort, s.name, sp.Median)
			}
		}
	}
	return nil
}

// fillStep sends the prompts for the first time.
func (r *liquidRun) fillStep(ctx context.Context, s *subject) error {
	s.computed = nil
	for i, p := range s.script.repeats {
		a, err := r.ask(ctx, s.instance, question{prompt: p})
		if err != nil {
			return err
		}
		r.note(cFill, s.side, s.sample(i, samples), a)
		s.computed = append(s.computed, a.text)
	}
	return nil
}

// repeatStep sends them again: at once, after a restart, or to another server.
func (r *liquidRun) repeatStep(cohort string) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		for i, text := range s.computed {
			a, err := r.ask(ctx, s.instance, question{prompt: s.script.repeats[i]})
			if err != nil {
				return err
			}
			r.note(cohort, s.side, s.sample(i, samples), a)
			r.same(s.instance, s.round, cohort, text, a.text)
		}
		return nil
	}
}

// sharedStep asks different questions below one system prompt.
func (r *liquidRun) sharedStep(ctx context.Context, s *subject) error {
	var asked []asked
	for i, q := range s.script.questions {
		m := []message{{"system", s.script.system}, {"user", q}}
		a, err := r.ask(ctx, s.instance, question{messages: m})
		if err != nil {
			return err
		}
		if i == 0 {
			continue // it brought the system prompt in
		}
		r.note(cShared, s.side, s.sample(i-1, samples), a)
		asked = append(asked, askedOf(m, a))
	}
	return r.compute(ctx, s, cShared, asked)
}

// turnsStep holds one conversation.
func (r *liquidRun) turnsStep(ctx context.Context, s *subject) error {
	c := conversation{{"system", s.script.chat}}
	var asked []asked
	for i, q := range s.script.turns {
		c.say("user", q)
		a, err := r.ask(ctx, s.instance, question{messages: c})
		if err != nil {
			return err
		}
		if i > 0 {
			r.note(cTurns, s.side, s.sample(i-1, chatTurns-1), a)
			asked = append(asked, askedOf(c, a))
		}
		c.say("assistant", a.text)
	}
	return r.compute(ctx, s, cTurns, asked)
}

// evictStep holds many conversations in turn; the second turn of each is measured.
func (r *liquidRun) evictStep(ctx context.Context, s *subject) error {
	chats := make([]conversation, len(s.script.evict))
	for i, first := range s.script.evict {
		chats[i].say("user", first)
		a, err := r.ask(ctx, s.instance, question{messages: chats[i]})
		if err != nil {
			return err
		}
		chats[i].say("assistant", a.text)
	}
	var asked []asked
	for i := range chats {
		chats[i].say("user", s.script.evictNext[i])
		a, err := r.ask(ctx, s.instance, question{messages: chats[i]})
		if err != nil {
			return err
		}
		r.note(cEvict, s.side, s.sample(i, len(chats)), a)
		if i%4 == 0 { // computing them all again would take longer than all the rest
			asked = append(asked, askedOf(chats[i], a))
		}
	}
	return r.compute(ctx, s, cEvict, asked)
}

// asked is a conversation and the answer that it got with reuse.
type asked struct {
	messages []message
	text     string
}

func askedOf(c conversation, a *answer) asked { return asked{c.copied(), a.text} }

// compute asks the same without reuse, after what was measured, and compares.
func (r *liquidRun) compute(ctx context.Context, s *subject, cohort string, all []asked) error {
	for _, q := range all {
		a, err := r.ask(ctx, s.instance, question{messages: q.messages, noReuse: true})
		if err != nil {
			return fmt.Errorf("computed again: %w", err)
		}
		if a.cachedTokens > 0 && s.name != peerName {
			return fmt.Errorf("a request that asked for no reuse got %d tokens of it: nothing to compare with", a.cachedTokens)
		}
		r.same(s.instance, s.round, cohort, a.text, q.text)
	}
	return nil
}

// inService notes what the station itself says of its copies in these rounds.
func (r *liquidRun) inService(ctx context.Context, s *subject) {
	ix, err := s.station.KVIndex(ctx)
	if err != nil {
		r.fail("round %d, the station's index: %v", s.round+1, err)
		return
	}
	if ix.ImportGBps > 0 {
		r.put(cService, s.side, s.round, figures{mImport: ix.ImportGBps})
	}
}

// replica starts a second server on the store of the first, which goes on.
func (r *liquidRun) replica(ctx context.Context, s *subject) error {
	in, err := r.launch.thoth(ctx, cReplica, true, "THOTH_KV_STORE="+r.launch.storeURL(storeOfReuse))
	if err != nil {
		return err
	}
	other := *s
	other.instance = in
	err = r.step(ctx, step{cReplica, r.repeatStep(cReplica)}, &other)
	return errors.Join(err, r.launch.stop(in))
}
