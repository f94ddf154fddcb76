package client

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// A station is told by encode what it is told by json.Marshal.
func TestEncode_TellsTheSame(t *testing.T) {
	awkward := "<|im_start|> & \u2028 \x00\t\"\\/ café 😀 \xff\xed\xa0\x80 \n"
	zero, no, none := float32(0), false, ""
	same(t, &wire.GenerateRequest{})
	same(t, &wire.GenerateRequest{
		Prompt: wire.Prompt{Text: awkward, Segments: []wire.Segment{{Text: awkward, Special: true}, {}}, Tokens: []int32{}, AddBOS: &no},
		Sampling: wire.Sampling{Temperature: &zero, TopP: ptr(float32(0.1)), TopK: new(int), Seed: ptr(uint64(math.MaxUint64)),
			LogitBias: map[int32]float32{5: -100, -7: 1e-9, 3: 0}, Grammar: awkward, Logprobs: true},
		Stop: []string{awkward, ""}, MaxTokens: 7, KV: &wire.KVTurn{KVLoadRequest: wire.KVLoadRequest{WaitMS: new(int64), Group: awkward}, Answers: true},
		Later: wire.Later{Fork: ptr(2), Prediction: "</s>"},
	})
	same(t, &wire.DecodeRequest{Session: awkward, Sampling: &wire.Sampling{LogitBias: map[int32]float32{}}})
	same(t, &wire.DetokenizeRequest{})
	same(t, &wire.DetokenizeRequest{Tokens: []int32{}})
	same(t, &wire.RerankRequest{Query: awkward, Documents: nil})
	same(t, &wire.EmbedRequest{Input: []string{}, InputTokens: [][]int32{nil, {}, {1}}})
	same(t, &wire.KVDeleteRequest{Scope: &none})
	same(t, &wire.KVSaveRequest{Points: []int{0}})
}

func same[T any](t *testing.T, body *T) {
	t.Helper()
	line, err := encode(body)
	require.NoError(t, err)
	var got, want T
	require.NoError(t, json.Unmarshal(line, &got))
	require.NoError(t, json.Unmarshal(written(t, body), &want))
	require.Equal(t, want, got)
	require.NotContains(t, string(line), `\u003`)
	require.Equal(t, byte('}'), line[len(line)-1])
}

func TestEncode_RefusesWhatIsNoNumber(t *testing.T) {
	_, err := encode(&wire.GenerateRequest{Sampling: wire.Sampling{Temperature: ptr(float32(math.NaN()))}})
	require.Error(t, err)
}

func ptr[T any](v T) *T { return &v }

var aRequest = &wire.GenerateRequest{
	Prompt: wire.Prompt{Segments: []wire.Segment{{Text: "<|im_start|>system\n", Special: true},
		{Text: strings.Repeat("You are a helpful assistant, and know the \"Café\".\n", 30)}, {Text: "<|im_end|>\n<|im_start|>assistant\n", Special: true}}},
	Sampling: wire.Sampling{Temperature: ptr(float32(0.7)), TopP: ptr(float32(0.95)), Seed: ptr(uint64(12345)),
		Grammar: strings.Repeat("r70 ::= \"<\" r66 | \"n\" r69 | [\\x01-;=-mo-\\U0010FFFF] r67\n", 36)},
	MaxTokens: 256, KV: &wire.KVTurn{KVLoadRequest: wire.KVLoadRequest{Group: "g", Keep: true}, Answers: true, Unless: "<tool_call>"},
}

func BenchmarkEncode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encode(aRequest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode_Marshal(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(aRequest); err != nil {
			b.Fatal(err)
		}
	}
}
