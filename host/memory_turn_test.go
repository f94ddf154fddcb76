package host

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// What a client sees of a request that is one call of the station: the same.

// oneCall is an answer of such a station, which restored so many tokens and evaluated
// the rest, or all.
type oneCall struct {
	restored, evaluated int
	saved               bool
	before              <-chan struct{} // comes ahead of what was restored
	between             <-chan struct{} // and of the first token
	behind              <-chan struct{} // and of the end
}

func (a oneCall) script(ctx context.Context, q *wire.GenerateRequest, out *frames) {
	wait := func(gate <-chan struct{}) {
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
	}
	if q.KV == nil {
		hello(ctx, q, out)
		return
	}
	wait(a.before)
	reason := wire.KVReason("")
	if a.restored == 0 {
		reason = wire.KVNothing
	}
	out.send(wire.Frame{Type: wire.FrameRestored, Restored: &wire.KVRestored{PromptTokens: promptBytes,
		KVLoadResponse: wire.KVLoadResponse{Position: a.restored, Staged: promptBytes - a.restored, Tiers: wire.KVTiers{Warm: a.restored}, Reason: reason, DiffersAt: -1, WaitMS: 1.5, LoadMS: 2}}})
	wait(a.between)
	out.send(wire.Frame{Type: wire.FrameEvaluated, Forward: &wire.ForwardResponse{Position: promptBytes, Evaluated: a.evaluated}})
	for c := range q.Answers() {
		out.send(wire.Frame{Type: wire.FrameText, Choice: c, Text: "Hello", Tokens: []int32{1}})
		wait(a.behind)
		d := &wire.Done{Reason: wire.ReasonEOG, PromptTokens: promptBytes, CompletionTokens: 1,
			KVAnswer: &wire.KVSaveResponse{Saved: a.saved, Tokens: promptBytes + 1, Written: promptBytes + 1 - a.restored}}
		if c == 0 {
			d.KVPrompt = &wire.KVSaveResponse{Saved: a.saved, Tokens: promptBytes, Written: promptBytes - a.restored}
		}
		out.send(wire.Frame{Type: wire.FrameDone, Choice: c, Done: d})
	}
}

func newTurnHost(t *testing.T, change ...func(*Options)) (*testHost, *faultStation) {
	f := newFaultStation(t)
	f.health.KVTurn, f.health.Fork = true, 4
	return newLiquidHost(t, f, change...), f
}

func TestMemoryTurn_AWholeAnswerTellsAll(t *testing.T) {
	h, f := newTurnHost(t)
	require.Equal(t, true, h.get("/health").json(t)["station_kv_turn"])
	f.does(oneCall{evaluated: promptBytes, saved: true}.script)
	r := h.chat()
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "miss", "Liquid-Kv-Saved": "true", "Liquid-Miss-Reason": "no stored prefix",
		"Liquid-Prefix-Tokens": "0"}, shown(r.header))
	require.Equal(t, map[string]any{"cached_tokens": 0., "cache_write_tokens": float64(promptBytes)}, r.json(t)["usage"].(map[string]any)["prompt_tokens_details"])
	require.Equal(t, []string{"/generate"}, f.took())

	f.does(oneCall{restored: promptBytes - 1, evaluated: 1, saved: true}.script)
	r = h.chat()
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "hit", "Liquid-Kv-Saved": "true", "Liquid-Prefix-Tokens": fmt.Sprint(promptBytes - 1)}, shown(r.header))
	g := r.json(t)["_gnosis"].(map[string]any)
	require.Equal(t, 3.5, g["timings"].(map[string]any)["load_ms"])
	require.Equal(t, []any{2., map[string]any{"hot": 0., "warm": float64(promptBytes - 1), "cold": 0.}},
		[]any{g["liquid_saved_tokens"], g["liquid_tokens_by_tier"]})

	f.does(oneCall{restored: promptBytes - 1, evaluated: 1}.script)
	r = h.chat()
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "capture_failed", "Liquid-Kv-Saved": "false",
		"Liquid-Miss-Reason": "station kv session save failed", "Liquid-Prefix-Tokens": fmt.Sprint(promptBytes - 1)}, shown(r.header))
}

func TestMemoryTurn_AStreamTellsWhatItKnowsFirstAndTheRestInTrailers(t *testing.T) {
	h, f := newTurnHost(t)
	behind := make(chan struct{})
	f.does(oneCall{restored: promptBytes - 1, evaluated: 1, saved: true, behind: behind}.script)
	l := h.open(`"stream_options":{"include_usage":true}`)
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "hit", "Liquid-Prefix-Tokens": fmt.Sprint(promptBytes - 1)}, shown(l.resp.Header))
	require.Contains(t, l.next(t), `"role":"assistant"`)
	close(behind)
	b, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Liquid-Kv-Saved": "true"}, shown(l.resp.Trailer))
	require.Contains(t, string(b), fmt.Sprintf(`"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":1}`, promptBytes-1))
}

// The ping comes while the station has told nothing, or no more than what it
// restored, which it then has to drop.
func TestMemoryTurn_AStreamThatBeganWithAPingTellsAllInTrailers(t *testing.T) {
	for name, a := range map[string]oneCall{"untold": {evaluated: promptBytes, saved: true}, "dropped": {restored: promptBytes - 1, evaluated: promptBytes, saved: true}} {
		t.Run(name, func(t *testing.T) {
			h, f := newTurnHost(t, func(o *Options) { o.PingInterval = 10 * time.Millisecond })
			gate, want := make(chan struct{}), "no stored prefix"
			if a.before = gate; a.restored > 0 {
				a.before, a.between, want = nil, gate, "restored prefix was dropped under memory pressure"
			}
			f.does(a.script)
			l := h.open()
			require.Equal(t, ": ping", l.next(t))
			before := shown(l.resp.Header)
			close(gate)
			_, err := io.ReadAll(l.lines)
			require.NoError(t, err)
			got := shown(l.resp.Trailer)
			for k, v := range before {
				if got[k] == "" {
					got[k] = v
				}
			}
			require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "miss", "Liquid-Kv-Saved": "true", "Liquid-Miss-Reason": want, "Liquid-Prefix-Tokens": "0"}, got)
		})
	}
}

func TestMemoryTurn_ChoicesAreOneCallAndThePromptCountsOnce(t *testing.T) {
	h, f := newTurnHost(t)
	f.does(oneCall{evaluated: promptBytes, saved: true}.script)
	r := h.chat(`"n":3`)
	require.Equal(t, 200, r.status, r.body)
	u := r.json(t)["usage"].(map[string]any)
	require.Equal(t, []any{float64(promptBytes), 3.}, []any{u["prompt_tokens"], u["completion_tokens"]})
	require.Equal(t, []string{"/generate"}, f.took())
	require.Equal(t, float64(promptBytes+3), r.json(t)["_gnosis"].(map[string]any)["liquid_saved_tokens"], "the prompt, and a token of each answer")
}

func TestMemoryTurn_AClientThatGoesAwayEndsTheCall(t *testing.T) {
	h, f := newTurnHost(t)
	f.does(oneCall{evaluated: promptBytes, behind: make(chan struct{})}.script)
	l := h.open()
	l.next(t)
	require.Equal(t, 1, f.running())
	require.NoError(t, l.resp.Body.Close())
	h.eventually(func() bool { return f.running() == 0 })
	require.Equal(t, []string{"/generate"}, f.took())
}
