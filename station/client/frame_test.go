package client

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func FuzzDecodeFrame_IsEncodingJSON(f *testing.F) {
	for _, line := range []string{
		`{"type":"text"}`, `{"type":"text","text":""}`, `{"type":"text","tokens":[]}`, `{"type":"text","text":"a","tokens":[1,20,0]}`,
		`{"type":"text","choice":3,"text":"\u003cb\u003e \"\\\n\ud83d\ude00","tokens":[2147483647]}`, `{"type":"text","text":"café 日本"}`,
		`{"type":"text","text":"\ud83d","tokens":[1]}`, "{\"type\":\"text\",\"text\":\"\xff\"}", "{\"type\":\"text\",\"text\":\"a\tb\"}",
		`{"type":"text","tokens":[2147483648]}`, `{"type":"text","tokens":[01]}`, `{"type":"text","tokens":[1,]}`, `{"type":"text","tokens":[-1]}`,
		`{"type":"text","tokens":[1.0]}`, `{"type":"text","tokens":[1`, `{"type":"text","text":"a`, `{"type":"text","text":"a\`, `{"type":"text","text":"a"`, `{"type":"text","text":"a"}}`,
		`{"type":"text","text":"a","text":"b"}`, `{"type":"text","tokens":[1],"text":"b"}`, `{ "type":"text","text":"a" }`, `{"type":"text","text":"a","logprobs":[{"id":1,"bytes":"YQ==","logprob":-1}]}`,
		`{"type":"text","choice":-1}`, `{"type":"text","choice":1e1}`, `{"type":"progress","progress":{"queue":1,"position":2,"total":3}}`, `{"type":"done","done":{"reason":"eog"}}`, `nonsense`, ``,
		`{"TYPE":"done","Done":{"Reason":"eog","kv_PROMPT":{}}}`, `{"type":"done","done":{"seed":1},"done":{"seed":null,"position":3}}`, `{"type":"done","done":null,"forward":null}`,
		`{"type":"done","choice":null,"done":{"seed":18446744073709551615,"new":[{"a":null}]},"later":{}}`, `{"type":"done","done":{"seed":-1}}`, `{"type":"done","done":{"seed":1.5}}`,
		`{"type":"done","done":{"timings":{"queue_ms":1e-7,"ttft_ms":-0,"decode_ms":1e400}}}`, `{"type":"done","done":{"timings":{"queue_ms":"1"}}}`, `{"type":"evaluated","forward":[]}`,
		`{"type":"restored","restored":{"session":"\ud800","position":1,"position":2,"prompt_token":null}}`, `{"type":"done","done":{"reason":"eog"}} {}`, "{\"type\":\"done\",\"\xff\":1}",
		`{"type":"text","logprobs":[{"id":1,"bytes":"YQ=","logprob":-1}]}`, `{"type":"text","logprobs":[{"bytes":[97,98]},{"bytes":null,"top":[]}]}`, `{"type":"text","logprobs":[{"bytes":"Y\nQ=="}],"logprobs":[{}]}`,
		`{"type":"error","error":{"code":"internal","message":"m","Taken":true,"retryable":true}}`,
	} {
		f.Add([]byte(line))
	}
	for _, frame := range turnFrames {
		f.Add(written(f, frame))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		want := new(wire.Frame)
		wantErr := json.Unmarshal(line, want)
		got, err := decodeFrame(line)
		if wantErr != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		if len(want.Tokens) == 0 && len(got.Tokens) == 0 {
			want.Tokens, got.Tokens = nil, nil // [] and absent mean the same
		}
		require.Equal(t, want, got)
	})
}

// What a station writes is read without the general decoder.
func TestTextFrame_IsWhatAStationWrites(t *testing.T) {
	for _, f := range []wire.Frame{
		{Type: wire.FrameText, Text: " the", Tokens: []int32{7}},
		{Type: wire.FrameText, Text: "<a href=\"x\">\n\tcafé 日本 😀\u2028\\</a>", Tokens: []int32{1, 2, 151935}},
		{Type: wire.FrameText, Tokens: []int32{0}},
		{Type: wire.FrameText, Choice: 2, Text: "held back"},
	} {
		line, err := json.Marshal(f)
		require.NoError(t, err)
		got := textFrame(line)
		require.NotNil(t, got, "%s", line)
		require.Equal(t, f, *got)
	}
}

// The frames of a turn, as a station writes them.
var turnFrames = map[string]wire.Frame{
	"text": {Type: wire.FrameText, Text: " the \"river\"", Tokens: []int32{12345}},
	"restored": {Type: wire.FrameRestored, Restored: &wire.KVRestored{PromptTokens: 200, KVLoadResponse: wire.KVLoadResponse{Position: 128, Staged: 72,
		Tiers: wire.KVTiers{Warm: 128}, Reason: wire.KVDiffers, DiffersAt: 130, PromptToken: new(int32), StoredToken: new(int32), QueueMS: 0.004518, LoadMS: 0.513}}},
	"evaluated": {Type: wire.FrameEvaluated, Forward: &wire.ForwardResponse{Position: 200, Evaluated: 72, QueueMS: 0.003884, PrefillMS: 12.512345, EngineMS: 12.251234}},
	"done": {Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: 200, CompletionTokens: 16, Seed: 12011575707917147614,
		Timings:  wire.Timings{QueueMS: 0.012, TokenizeMS: 0.125, PrefillMS: 12.512345, TTFTMS: 13.75, EngineMS: 12.25, DecodeMS: 40.123, TokensPerSecond: 400.23},
		KVPrompt: &wire.KVSaveResponse{Saved: true, Tokens: 200, Written: 72, Bytes: 1 << 20}, KVAnswer: &wire.KVSaveResponse{Saved: true, Tokens: 216, Written: 16, Bytes: 1 << 18}}},
}

func written(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func BenchmarkDecodeFrame(b *testing.B) {
	for name, frame := range turnFrames {
		line := written(b, frame)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeFrame(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeFrame_EncodingJSON(b *testing.B) {
	for name, frame := range turnFrames {
		line := written(b, frame)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := json.Unmarshal(line, new(wire.Frame)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
