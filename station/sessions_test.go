package station_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

func TestStation_SessionsHaveLeaseOwnerAndCap(t *testing.T) {
	f := start(t, stationtest.Options{}, station.Options{SessionLease: 100 * time.Millisecond, MaxSessions: 2})
	embed := func() (*wire.EmbedResponse, error) {
		return f.Embed(t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Text: "hello"}})
	}
	a, err := embed()
	require.NoError(t, err)
	_, err = f.Forward(t.Context(), &wire.ForwardRequest{Session: a.Session})
	require.NoError(t, err)
	other, err := client.New(f.url, client.Options{Owner: "somebody else"})
	require.NoError(t, err)
	_, err = other.Forward(t.Context(), &wire.ForwardRequest{Session: a.Session})
	require.Equal(t, wire.CodeGone, err.(*wire.Error).Code, "another owner's session is as unknown as none")
	_, err = embed()
	require.NoError(t, err)
	_, err = embed()
	require.Equal(t, wire.CodeOverloaded, err.(*wire.Error).Code)
	eventually(t, "leases run out and cells are given back", func() bool {
		s, err := f.Stats(t.Context())
		return err == nil && s.Sessions == 0 && s.CellsUsed == 0
	})
	_, err = f.Forward(t.Context(), &wire.ForwardRequest{Session: a.Session})
	require.Equal(t, wire.CodeGone, err.(*wire.Error).Code)
}

func TestStation_IdleSessionsMakeRoom(t *testing.T) {
	f := start(t, stationtest.Options{Cells: 300, ContextLength: 300, Sequences: 2, EOGEvery: -1}, station.Options{})
	zero := float32(0)
	prompt := strings.Repeat("session text. ", 12)
	want := f.generate(t.Context(), prompt, 20)
	s, err := f.Embed(t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Text: prompt}})
	require.NoError(t, err)
	_, err = f.Forward(t.Context(), &wire.ForwardRequest{Session: s.Session})
	require.NoError(t, err)
	require.Nil(t, f.generate(t.Context(), strings.Repeat("other text. ", 15), 60).err)
	a := collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s.Session, N: 20, IgnoreEOG: true, Sampling: &wire.Sampling{Temperature: &zero}, Release: true}))
	require.Nil(t, a.err)
	require.Equal(t, want.tokens, a.tokens, "its KV came back from RAM")
	st, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.NotZero(t, st.Swaps)
}

func TestStation_TokenByTokenGivesWholeCharacters(t *testing.T) {
	f := start(t, stationtest.Options{}, station.Options{})
	zero := float32(0)
	prompt := wire.Prompt{Text: stationtest.Say("😀 naïve 東京 👩‍👩‍👧 done")}
	want := collect(f.Generate(t.Context(), &wire.GenerateRequest{Prompt: prompt, Sampling: wire.Sampling{Temperature: &zero}}))
	require.Nil(t, want.err)
	s, err := f.Embed(t.Context(), &wire.EmbedRequest{Prompt: prompt})
	require.NoError(t, err)
	var text string
	for sampling := (&wire.Sampling{Temperature: &zero}); ; sampling = nil {
		a := collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s.Session, N: 1, Sampling: sampling}))
		require.Nil(t, a.err)
		text += a.text
		if a.done.Reason == wire.ReasonEOG {
			break
		}
	}
	require.Equal(t, want.text, text)
	require.Contains(t, text, "東京")
}

func TestStation_FullSessionEndsWithItsRelease(t *testing.T) {
	f := start(t, stationtest.Options{ContextLength: 16, EOGEvery: -1}, station.Options{})
	zero := float32(0)
	s, err := f.Embed(t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Text: "abcdefgh"}})
	require.NoError(t, err)
	a := collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s.Session, Sampling: &wire.Sampling{Temperature: &zero}, IgnoreEOG: true}))
	require.Equal(t, wire.ReasonLength, a.done.Reason)
	a = collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s.Session, N: 1, Release: true}))
	require.Equal(t, wire.CodeContextLength, a.err.Code)
	a = collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s.Session, N: 1}))
	require.Equal(t, wire.CodeGone, a.err.Code)
}

// A session whose call waits for room still holds cells; the answer that runs must
// be able to push it out, and it must come back unharmed.
func TestStation_WaitingSessionsGiveWay(t *testing.T) {
	f := start(t, stationtest.Options{Cells: 256, ContextLength: 256, Sequences: 2, BatchSize: 64, EOGEvery: -1}, station.Options{})
	zero := float32(0)
	prompt := strings.Repeat("waiting one. ", 9)
	want := f.generate(t.Context(), prompt, 20)
	alone := f.generate(t.Context(), "the one that runs", 200)
	s, err := f.Embed(t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Text: prompt}})
	require.NoError(t, err)
	_, err = f.Forward(t.Context(), &wire.ForwardRequest{Session: s.Session})
	require.NoError(t, err)

	running, waiting := make(chan answer), make(chan answer)
	pause := f.eng.Pause()
	go func() { running <- f.generate(t.Context(), "the one that runs", 200) }()
	<-pause.Entered()
	for range 60 { // let it grow until the session's call has no room beside it
		pause.Step()
		<-pause.Entered()
	}
	go func() {
		waiting <- collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s.Session, N: 20, IgnoreEOG: true, Sampling: &wire.Sampling{Temperature: &zero}, Release: true}))
	}()
	pause.Step()
	eventually(t, "the session's call waits", func() bool { st, err := f.Stats(t.Context()); return err == nil && st.Waiting+st.Running >= 1 })
	pause.Resume()
	a := <-running
	require.Nil(t, a.err)
	require.Equal(t, alone.tokens, a.tokens)
	b := <-waiting
	require.Nil(t, b.err)
	require.Equal(t, want.tokens, b.tokens)
}
