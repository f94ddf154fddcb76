package station

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCall_OfSiblingsTheLastIsTheYoungest(t *testing.T) {
	at := time.Unix(1, 0)
	first, last, earlier := &call{arrived: at}, &call{arrived: at, choice: 3}, &call{arrived: at.Add(-1), choice: 7}
	require.True(t, last.younger(first))
	require.False(t, first.younger(last), "the first answer is what a client waits for")
	require.False(t, first.younger(first))
	require.True(t, first.younger(earlier))
	require.False(t, earlier.younger(first))
}

func TestTellQueue_OfAPromptOnly(t *testing.T) {
	c, away := prompting(9), answering()
	c.seq.tokens, away.seq.tokens = nil, nil
	for _, c := range []*call{away, c} {
		c.out, c.progress = newOutput(), true
	}
	l := &loop{waiting: []*call{away, c}}
	l.tellQueue()
	frames, _, err := c.out.take(t.Context())
	require.NoError(t, err)
	require.Len(t, frames, 1)
	require.Equal(t, 2, frames[0].Progress.Queue)
	away.out.put(away.doneFrame(time.Now()))
	frames, _, err = away.out.take(t.Context())
	require.NoError(t, err)
	require.Nil(t, frames[0].Progress, "whose answer has begun is charged for what it has, not for a prompt that grows")
}

// What a fork's held answers have is found like that of all others, and once.
func TestSequences_AreEachGivenOnce(t *testing.T) {
	p, _ := newTestPool(t)
	resident, idle := placed(t, p, 5), newSequence()
	f := &fork{}
	for i := range 5 {
		f.branches = append(f.branches, &call{seq: newSequence(), fork: f, choice: i})
	}
	f.branches[0].seq = resident
	f.held = f.branches[3:]
	alone := &call{seq: newSequence()}
	l := &loop{pool: p, idle: []*sequence{idle}, running: f.branches[:1], waiting: []*call{f.branches[1], alone, f.branches[2]}}
	want := []*sequence{idle, alone.seq}
	for _, b := range f.branches {
		want = append(want, b.seq)
	}
	var got []*sequence
	for s := range l.sequences() {
		got = append(got, s)
	}
	require.ElementsMatch(t, want, got)
	p.leave(resident)
}
