package host

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/dialect"
	"thoth/liquid"
	"thoth/station/wire"
)

// counting is a sink that counts what reaches it, and panics at a word.
type counting struct {
	sink           // what is not called
	texts, flushes int
}

func (c *counting) open(int)                   {}
func (c *counting) done(int, *wire.Done, bool) {}
func (c *counting) broken() error              { return nil }
func (c *counting) flush() bool                { c.flushes++; return true }
func (c *counting) write(_ int, e dialect.Event, _ []wire.TokenLogprob) {
	if e.Text == "panic" {
		panic("a sink's own fault")
	}
	c.texts++
}

func newCountingFeed(t *testing.T) (*feed, *counting) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &Server{o: Options{PingInterval: time.Hour, PrefillTimeout: time.Hour, TokenTimeout: time.Hour}}
	j := &job{view: new(view), rec: &record{arrived: time.Now()}, prompts: 1, calls: make([]liquid.Request, 1), outcomes: make([]*liquid.Outcome, 1),
		ended: make([]*wire.Done, 1), left: 1}
	out := new(counting)
	return s.newFeed(ctx, cancel, j, out, time.Now()), out
}

func textEvent(text string, more bool) event {
	return event{frame: &wire.Frame{Type: wire.FrameText, Text: text, Tokens: []int32{1}}, more: more}
}

func TestFeed_WhatIsHereTogetherLeavesTogether(t *testing.T) {
	f, out := newCountingFeed(t)
	for i := range 6 {
		require.True(t, f.take(textEvent("a", i%3 != 2)))
	}
	require.Equal(t, []int{6, 2}, []int{out.texts, out.flushes})
}

// The choices are read in goroutines whose panic would end the program; only the
// handler's makes an answer of it.
func TestFeed_APanicIsTheHandlers(t *testing.T) {
	f, out := newCountingFeed(t)
	require.True(t, f.take(textEvent("a", false)))
	require.False(t, f.take(textEvent("panic", false)))
	require.False(t, f.take(textEvent("b", false)), "it is over")
	require.Equal(t, 1, out.texts)
	require.Panics(t, func() { _ = f.wait() })
}

func TestFeed_APanicOfAPingIsTheHandlers(t *testing.T) {
	f, _ := newCountingFeed(t) // its sink cannot ping
	f.mu.sent = time.Now().Add(-2 * time.Hour)
	f.look()
	require.Error(t, f.ctx.Err(), "the calls are cut")
	require.Panics(t, func() { _ = f.wait() })
}

func TestFeed_OnlyCallsThatHaveMoreToSayAreCut(t *testing.T) {
	f, _ := newCountingFeed(t)
	f.take(event{frame: &wire.Frame{Type: wire.FrameDone, Done: new(wire.Done)}, outcome: new(liquid.Outcome)})
	require.Nil(t, f.wait())
	f.hangUp()
	require.NoError(t, f.ctx.Err(), "the end of its stream may come")

	f, _ = newCountingFeed(t)
	f.fail(0, &wire.Error{Code: wire.CodeEngine, Message: "a decode failed"})
	require.Error(t, f.ctx.Err())

	f, _ = newCountingFeed(t) // the handler panics
	f.hangUp()
	require.Error(t, f.ctx.Err())
	f.mu.sent = time.Now().Add(-2 * time.Hour)
	f.look() // would ping
	require.Nil(t, f.mu.panic)
}

func TestFeed_AnAnswerEndsOnce(t *testing.T) {
	f, out := newCountingFeed(t)
	f.j.left, f.j.ended[0] = 2, new(wire.Done)
	require.False(t, f.take(event{frame: &wire.Frame{Type: wire.FrameDone, Done: new(wire.Done)}}))
	require.Equal(t, []int{2, 0}, []int{f.j.left, out.flushes}, "the other one has not")
	require.ErrorContains(t, f.wait(), "ended twice")
}

func TestFeed_NothingReachesTheSinkBehindItsEnd(t *testing.T) {
	f, out := newCountingFeed(t)
	f.fail(0, &wire.Error{Code: wire.CodeEngine, Message: "a decode failed"})
	require.False(t, f.take(textEvent("a", false)))
	f.mu.sent = time.Now().Add(-2 * time.Hour)
	f.look()
	require.Zero(t, out.texts+out.flushes)
	require.ErrorContains(t, f.wait(), "a decode failed")
}
