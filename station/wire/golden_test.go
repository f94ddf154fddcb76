package wire

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew; a changed one needs a new Version")

func p[T any](v T) *T { return &v }

var sampling = Sampling{
	Temperature: p[float32](0.5), TopK: p(40), TopP: p[float32](0.75), MinP: p[float32](0.25), TypicalP: p[float32](0.5),
	RepeatPenalty: p[float32](1.5), RepeatLastN: p(64), FrequencyPenalty: p[float32](-0.5), PresencePenalty: p[float32](0.5),
	LogitBias: map[int32]float32{5: -100, 7: 1.5}, Seed: p(uint64(18446744073709551615)), Grammar: `root ::= "yes" | "no"`,
	Logprobs: true, TopLogprobs: 2,
}

var later = Later{
	Fork: p(2), ForkWidth: 1, Priority: p(-1), DeadlineMS: p(int64(1500)), Prediction: "as before",
	Adapters: []Adapter{{Digest: "b179c9", Scale: 0.5}},
}

var prompt = Prompt{
	Text: "hi", Segments: []Segment{{Text: "<|im_start|>user\n", Special: true}, {Text: "hi"}}, Tokens: []int32{1, 2}, AddBOS: p(false),
}

var logprob = TokenLogprob{ID: 5, Bytes: []byte("\xf0\x9f"), Logprob: -0.25, Top: []TokenLogprob{
	{ID: 5, Bytes: []byte("\xf0\x9f"), Logprob: -0.25}, {ID: 6, Bytes: []byte("a"), Logprob: -1.5}}}

var forward = ForwardResponse{Session: "s1", Position: 700, Remaining: 18, Evaluated: 512, QueueMS: 0.5, PrefillMS: 1900.25, EngineMS: 1900, Logprobs: []TokenLogprob{logprob}}

var done = Done{Reason: ReasonStop, StopString: "\n\n", PromptTokens: 718, CompletionTokens: 42, Seed: 9007199254740993, Session: "s1", Position: 760,
	Timings:  Timings{QueueMS: 0.5, TokenizeMS: 0.25, PrefillMS: 1900.25, TTFTMS: 1901, EngineMS: 1900, DecodeMS: 350.5, TokensPerSecond: 119.5},
	KVPrompt: &saved, KVAnswer: &saved}

var saved = KVSaveResponse{Saved: true, Reason: "the warm tier is full", Tokens: 718, Written: 14, Bytes: 4096, Durable: true}

var loaded = KVLoadResponse{Session: "s1", Position: 704, Staged: 14, Tiers: KVTiers{Hot: 64, Warm: 576, Cold: 64}, Reason: KVDiffers,
	DiffersAt: 704, PromptToken: p(int32(5)), StoredToken: p(int32(6)), QueueMS: 0.5, WaitMS: 1.5, LoadMS: 2.5}

var load = KVLoadRequest{Scope: "a", WaitMS: p(int64(500)), Group: "g", Keep: true}

var stationError = Error{Code: CodeInvalid, Message: "top_p is 1.5, want (0, 1]", Param: "sampling.top_p", Retryable: true}

var backend = Backend{Requested: "cuda", Selected: "cpu", Device: "AVX-512", Libraries: []string{"libggml-cpu-icelake.so"}, Driver: "580.65", Runtime: "13.0",
	Features: []string{"AVX512"}, Threads: 2, Slow: true, Reason: "no NVIDIA driver", Errors: []string{"libggml-cuda.so: libcuda.so.1 is missing"}}

func tier(n int) KVTier {
	return KVTier{State: "on", Reason: "why", Store: "file", BudgetBytes: int64(n), FreeBytes: 2, Bytes: 3, UsableBytes: 4, Blocks: 5, Hits: 6, HitTokens: 7, Evictions: 8,
		Drops: map[string]uint64{"checksum": 1}, ReadSeconds: 0.5, ReadBytes: 9, WriteSeconds: 1.5, WrittenBytes: 10, VerifySeconds: 0.25, Failures: 11}
}

var kvIndex = KVIndex{BlockTokens: 64, TokenBytes: 23040, Root: "ab12", Scopes: 1, Hot: tier(1), Warm: tier(2), Cold: tier(3), Pending: 1, Dirty: 2, DirtyBytes: 3, Pinned: 4,
	HeldByReader: 5, Loads: 6, Saves: 7, TokensAsked: 8, TokensWritten: 9, Coalesced: 10, Scattered: 11, Short: map[string]uint64{"nothing_stored": 1},
	ExportSeconds: 0.5, ExportBytes: 12, ExportGBps: 4.5, ImportSeconds: 0.25, ImportBytes: 13, ImportGBps: 5.5,
	Top: []KVPrefix{{Key: "ab", Name: "n", Scope: "s", Group: "g", Tokens: 704, Hits: 1, TokensSaved: 704, Pinned: true, LastUsed: time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC)}}}

// golden has one full value of each type of the wire, and of frames one of
// each kind. Full: every field set, so that a new field shows here.
var golden = []struct {
	name  string
	value any
	part  bool // a kind of a type; not every field is set
}{
	{name: "handshake", value: &Handshake{Wire: Version, Role: "station", Build: "v1", EngineABI: "llama-ec98e2002", Address: "http://127.0.0.1:8000", Backend: "cpu", PID: 42}},
	{name: "health", value: &Health{Status: StatusOK, Error: "the file is cut", Wire: Version, KVSession: p(false), DecodeNext: p(true), KVReason: "not built", KVTurn: true, Fork: 64,
		Build: "v1", EngineABI: "llama-ec98e2002", Backend: backend, Cells: 16384, ContextLength: 8192, Sequences: 64, KVTypeK: "f16", KVTypeV: "q8_0",
		FlashAttention: true, LoadProgress: 0.5, UptimeSeconds: 12.5,
		Embeddings: &Embeddings{Pooling: "mean", Reason: "none", Dimensions: 384, MaxTokens: 512, MaxInputs: 2048, Only: true},
		Rerank:     &Rerank{Scores: true, Reason: "none", MaxTokens: 512, MaxDocuments: 2048}}},
	{name: "health-loading", part: true, value: &Health{Status: StatusLoading, Wire: Version, Build: "v1", LoadProgress: 0.25}},
	{name: "model", value: &Model{Name: "SmolLM2", File: "m.gguf", Digest: "b179c9", Architecture: "llama", Description: "llama 135M Q4_1", Parameters: 134515008,
		SizeBytes: 91727520, Vocabulary: 49152, Embedding: 576, Layers: 30, ContextTrain: 8192, KVBytesToken: 23040, KVCut: true, KVCutReason: "recurrent",
		ChatTemplate: "{{ messages }}", Special: SpecialTokens{BOS: 1, EOS: 2, EOT: 2, PAD: -1, EOG: []int32{0, 2}, BOSText: "<|im_start|>", EOSText: "<|im_end|>", AddBOS: true}}},
	{name: "stats", value: &Stats{Status: StatusDraining, UptimeSeconds: 1.5, Steps: 2, PromptTokens: 3, DecodedTokens: 4, Requests: 5, Cancelled: 6, Failed: 7,
		DecodeFailures: 8, Compactions: 9, CompactionMS: 10.5, Swaps: 11, DroppedTokens: 27, Aborts: 12, EmbedTexts: 23, EmbedTokens: 24, EmbedFailures: 25, EmbedWaiting: 26, Running: 13, Waiting: 14, Swapped: 15, SwappedBytes: 4096, Sessions: 16, Cells: 17, CellsUsed: 18,
		CellsDead: 19, Threads: 20, RSSBytes: 21, Goroutines: 22, KV: &kvIndex}},
	{name: "kv-load-request", value: &load},
	{name: "kv-load-response", value: &loaded},
	{name: "kv-save-request", value: &KVSaveRequest{Scope: "a", Group: "g", Name: "n", TTLSeconds: 1800, Pin: true, Points: []int{64, 128}, Release: true}},
	{name: "kv-save-response", value: &saved},
	{name: "kv-delete-request", value: &KVDeleteRequest{Keys: []string{"ab"}, Scope: p("a"), Group: "g", All: true}},
	{name: "kv-delete-response", value: &KVDeleteResponse{Session: true, Blocks: 3, Bytes: 4096}},
	{name: "kv-lookup-request", value: &KVLookupRequest{Prompt: prompt, Scope: "a"}},
	{name: "kv-lookup-response", value: &KVLookupResponse{Tokens: 718, Position: 64, Tiers: KVTiers{Hot: 1, Warm: 62, Cold: 1}, Reason: KVEnds, DiffersAt: 64,
		PromptToken: p(int32(5)), StoredToken: p(int32(6)), Keys: []string{"ab"}}},
	{name: "kv-flush-response", value: &KVFlushResponse{Kept: 11, Lost: 1, Bytes: 4096}},
	{name: "kv-index", value: &kvIndex},
	{name: "tokenize-request", value: &TokenizeRequest{Prompt: prompt, Pieces: true}},
	{name: "tokenize-response", value: &TokenizeResponse{Tokens: []int32{1, 2}, Pieces: [][]byte{[]byte("h"), []byte("\xf0\x9f")}}},
	{name: "detokenize-request", value: &DetokenizeRequest{Tokens: []int32{1, 2}, Special: true}},
	{name: "detokenize-response", value: &DetokenizeResponse{Text: "h\ufffd"}},
	{name: "generate-request", value: &GenerateRequest{Prompt: prompt, Sampling: sampling, Stop: []string{"\n\n", "END"}, MaxTokens: 64, IgnoreEOG: true, Progress: true, ControlText: true,
		KV: &KVTurn{KVLoadRequest: load, TTLSeconds: 1800, Pin: true, Answers: true, Unless: "</think>"}, Later: later}},
	{name: "generate-request-least", part: true, value: &GenerateRequest{Prompt: Prompt{Text: "hi"}}},
	{name: "embed-request", value: &EmbedRequest{Session: "s1", Prompt: prompt, Append: true, Input: []string{"a"}, InputTokens: [][]int32{{1, 2}}, Later: later}},
	{name: "rerank-request", value: &RerankRequest{Query: "river", Documents: []string{"boats"}, Later: later}},
	{name: "rerank-response", value: &RerankResponse{Scores: []float64{-8.5, 0.25}, Tokens: []int{3, 4}, QueueMS: 0.5, EngineMS: 1.5}},
	{name: "vectors-response", value: &VectorsResponse{Vectors: []Vector{{0.5, -1}, {3.25e-8, 1}}, Tokens: []int{3, 4}, Dimensions: 2, Pooling: "mean", QueueMS: 0.5, EngineMS: 1.5}},
	{name: "embed-response", value: &EmbedResponse{Session: "s1", Tokens: []int32{1, 2}, Position: 3, Staged: 4}},
	{name: "forward-request", value: &ForwardRequest{Session: "s1", Count: 64, Logprobs: true, TopLogprobs: 3, Stream: true, Later: later}},
	{name: "forward-response", value: &forward},
	{name: "decode-request", value: &DecodeRequest{Session: "s1", Sampling: &sampling, N: 8, Stop: []string{"END"}, IgnoreEOG: true, LeaveLast: true, Release: true, ControlText: true, Later: later}},
	{name: "error-body", value: &ErrorBody{Error: &stationError}},
	{name: "frame", value: &Frame{Type: FrameText, Choice: 1, Text: "é", Tokens: []int32{5}, Logprobs: []TokenLogprob{logprob}, Progress: &Progress{Queue: 1, Position: 2, Total: 3},
		Restored: &KVRestored{PromptTokens: 718, KVLoadResponse: loaded}, Done: &done, Forward: &forward, Error: &stationError}},
	{name: "frame-text", part: true, value: &Frame{Type: FrameText, Text: "é", Tokens: []int32{5, 6}}},
	{name: "frame-choice", part: true, value: &Frame{Type: FrameText, Choice: 3, Text: "é", Tokens: []int32{5}}},
	{name: "frame-progress", part: true, value: &Frame{Type: FrameProgress, Progress: &Progress{Position: 64, Total: 718}}},
	{name: "frame-restored", part: true, value: &Frame{Type: FrameRestored, Restored: &KVRestored{PromptTokens: 718, KVLoadResponse: KVLoadResponse{Position: 704, Staged: 14, Tiers: KVTiers{Warm: 704}, Reason: KVEnds, DiffersAt: -1}}}},
	{name: "frame-evaluated", part: true, value: &Frame{Type: FrameEvaluated, Forward: &ForwardResponse{Position: 718, Evaluated: 14}}},
	{name: "frame-done", part: true, value: &Frame{Type: FrameDone, Done: &Done{Reason: ReasonEOG, PromptTokens: 3, CompletionTokens: 2, Seed: 1}}},
	{name: "frame-forward", part: true, value: &Frame{Type: FrameDone, Forward: &ForwardResponse{Session: "s1", Position: 4, Evaluated: 4}}},
	{name: "frame-error", part: true, value: &Frame{Type: FrameError, Error: &Error{Code: CodeEngine, Message: "a decode failed"}}},
}

func TestGolden_BytesStayTheSame(t *testing.T) {
	files := map[string]bool{}
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			if !g.part {
				requireFull(t, reflect.ValueOf(g.value), g.name)
			}
			got, err := json.MarshalIndent(g.value, "", "  ")
			require.NoError(t, err)
			got = append(got, '\n')
			file := filepath.Join("testdata", g.name+".json")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, got, 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))

			back := reflect.New(reflect.TypeOf(g.value).Elem()).Interface()
			require.NoError(t, json.Unmarshal(want, back))
			require.Equal(t, g.value, back, "what is sent is what arrives")
		})
		files[g.name+".json"] = true
	}
	entries, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, files[e.Name()], "%s belongs to no type", e.Name())
	}
}

// requireFull fails for a field left at its zero value, in nested values too.
// The alternatives of a log-probability have no alternatives of their own.
func requireFull(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		require.False(t, v.IsNil(), "%s is not set", path)
		if v.Elem().Kind() == reflect.Struct {
			requireFull(t, v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("json") != "-" { // it is not on the wire
				requireFull(t, v.Field(i), path+"."+f.Name)
			}
		}
	case reflect.Slice:
		require.NotZero(t, v.Len(), "%s is not set", path)
		if v.Type() == reflect.TypeFor[[]TokenLogprob]() && !strings.HasSuffix(path, "Top") {
			requireFull(t, v.Index(0), path+"[0]")
		}
	default:
		require.False(t, v.IsZero(), "%s is not set", path)
	}
}
