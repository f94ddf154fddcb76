package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// completion asks for a completion of a prompt, given as JSON.
func (h *testHost) completion(prompt string, fields ...string) reply {
	h.t.Helper()
	b := `{"model":"` + model + `","prompt":` + prompt
	for _, f := range fields {
		b += "," + f
	}
	return h.do("POST", "/v1/completions", b+"}", "Content-Type", "application/json")
}

type textLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []*float64           `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

type textChoiceJSON struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	Logprobs *textLogprobs `json:"logprobs"`
	Finish   string        `json:"finish_reason"`
}

// texts reads the choices of a whole answer, or puts those of a stream together.
func (r reply) texts(t *testing.T) (choices []textChoiceJSON) {
	t.Helper()
	require.Equal(t, 200, r.status, r.body)
	type answer struct {
		Object  string           `json:"object"`
		Choices []textChoiceJSON `json:"choices"`
	}
	if !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		var a answer
		require.NoError(t, json.Unmarshal([]byte(r.body), &a))
		require.Equal(t, "text_completion", a.Object)
		return a.Choices
	}
	data, done := events(t, r.body)
	require.True(t, done)
	for _, d := range data {
		var a answer
		b, err := json.Marshal(d)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &a))
		require.Equal(t, "text_completion", a.Object)
		for _, c := range a.Choices {
			i := slices.IndexFunc(choices, func(o textChoiceJSON) bool { return o.Index == c.Index })
			if i < 0 {
				choices, i = append(choices, textChoiceJSON{Index: c.Index}), len(choices)
			}
			all := &choices[i]
			require.Empty(t, all.Finish, "nothing follows a finish_reason")
			all.Text, all.Finish = all.Text+c.Text, c.Finish
			if c.Logprobs == nil {
				continue
			}
			if all.Logprobs == nil {
				all.Logprobs = new(textLogprobs)
			}
			l := all.Logprobs
			l.Tokens, l.TokenLogprobs = append(l.Tokens, c.Logprobs.Tokens...), append(l.TokenLogprobs, c.Logprobs.TokenLogprobs...)
			l.TopLogprobs, l.TextOffset = append(l.TopLogprobs, c.Logprobs.TopLogprobs...), append(l.TextOffset, c.Logprobs.TextOffset...)
		}
	}
	slices.SortFunc(choices, func(a, b textChoiceJSON) int { return a.Index - b.Index })
	return choices
}

// bothTexts asks whole and streamed, and wants the same.
func (h *testHost) bothTexts(prompt string, fields ...string) []textChoiceJSON {
	h.t.Helper()
	whole := h.completion(prompt, fields...).texts(h.t)
	require.Equal(h.t, whole, h.completion(prompt, append(fields, `"stream":true`)...).texts(h.t))
	return whole
}

func newTextHost(t *testing.T) (*storeStation, *testHost) {
	f := newStoreStation(t)
	return f, openTextHost(t, f)
}

// openTextHost asks for no key, and takes the native path.
func openTextHost(t *testing.T, f *storeStation) *testHost {
	h := startHost(t, f.srv.URL, func(o *Options) { o.LiquidMemory = false })
	h.await(200)
	return h
}

func TestGolden_BytesOfCompletions(t *testing.T) {
	for name, c := range map[string]struct {
		prompt, fields string
		does           script
	}{
		"text":     {`"Say"`, `"user":"u"`, writes("Hi 😀!", 3, wire.ReasonEOG)},
		"usage":    {`"Say"`, `"stream_options":{"include_usage":true}`, writes("Hi!", 3, wire.ReasonLength)},
		"logprobs": {`"Say"`, `"logprobs":1`, writes("Hi!", 2, wire.ReasonEOG)},
		"echo":     {`"Say"`, `"echo":true,"logprobs":1`, writes(" hi", 3, wire.ReasonEOG)},
		"scored":   {`"Say"`, `"echo":true,"logprobs":0,"max_tokens":0`, nil},
		"stopped":  {`[83,97,121]`, `"echo":true,"stop":"!"`, writes("Hi", 3, wire.ReasonStop)},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newTextHost(t)
			f.does(c.does)
			golden(t, "completion-"+name+".json", h.completion(c.prompt, c.fields).body)
			golden(t, "completion-"+name+".sse", h.completion(c.prompt, c.fields, `"stream":true`).body)
		})
	}
}

func TestCompletion_APromptIsTakenAsItIs(t *testing.T) {
	f, h := newTextHost(t)
	f.does(writes("!", 3, wire.ReasonEOG))
	for prompt, want := range map[string][]wire.Prompt{
		`"<s>Say"`:      {{Segments: []wire.Segment{{Text: "<s>Say"}}}},
		`["a","b"]`:     {{Segments: []wire.Segment{{Text: "a"}}}, {Segments: []wire.Segment{{Text: "b"}}}},
		`[1,2]`:         {{Tokens: []int32{1, 2}}},
		`[[1,2],[3]]`:   {{Tokens: []int32{1, 2}}, {Tokens: []int32{3}}},
		`["a"]`:         {{Segments: []wire.Segment{{Text: "a"}}}},
		`""`:            {{Tokens: []int32{0}}},
		`[" \u00e9\n"]`: {{Segments: []wire.Segment{{Text: " é\n"}}}},
	} {
		f.set(func(f *fakeStation) { f.requests = nil })
		require.Len(t, h.completion(prompt).texts(t), len(want), prompt)
		var got []wire.Prompt
		for _, q := range f.got() {
			got = append(got, q.Prompt)
			require.Equal(t, 16, q.MaxTokens, "the reference's default")
			require.False(t, q.ControlText)
		}
		require.ElementsMatch(t, want, got, prompt)
	}
}

func TestCompletion_ParametersReachTheStation(t *testing.T) {
	f, h := newTextHost(t)
	require.Len(t, h.completion(`["a","b"]`, `"n":2,"seed":7,"temperature":0.5,"top_p":0.25,"presence_penalty":1,"frequency_penalty":-1,"logit_bias":{"3":-100},
		"max_tokens":5,"stop":["x","y"],"logprobs":2,"user":"u"`).texts(t), 4)
	seeds := map[string][]uint64{}
	for _, q := range f.got() {
		text := q.Prompt.Segments[0].Text
		seeds[text] = append(seeds[text], *q.Sampling.Seed)
		require.Equal(t, []any{float32(.5), float32(.25), float32(1), float32(-1), map[int32]float32{3: -100}, 5, []string{"x", "y"}, true, 2},
			[]any{*q.Sampling.Temperature, *q.Sampling.TopP, *q.Sampling.PresencePenalty, *q.Sampling.FrequencyPenalty, q.Sampling.LogitBias, q.MaxTokens, q.Stop, q.Sampling.Logprobs, q.Sampling.TopLogprobs})
	}
	for text, got := range seeds {
		require.ElementsMatch(t, []uint64{7, 8}, got, text)
	}
}

// perPrompt answers each prompt with its own text, and says how long it was.
func perPrompt(_ context.Context, q *wire.GenerateRequest, out *frames) {
	text := q.Prompt.Segments[0].Text
	out.text(strings.ToUpper(text), "!")
	out.send(wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: len(text), CompletionTokens: 2}})
}

func TestCompletion_SeveralPromptsKeepTheirOrderAndCountOnceEach(t *testing.T) {
	f, h := newTextHost(t)
	f.does(perPrompt)
	choices := h.bothTexts(`["a","bcd"]`, `"n":2,"echo":true`)
	for i, want := range []string{"aA!", "aA!", "bcdBCD!", "bcdBCD!"} {
		require.Equal(t, textChoiceJSON{Index: i, Text: want, Finish: "stop"}, choices[i])
	}
	u := h.completion(`["a","bcd"]`, `"n":2`).json(t)["usage"].(map[string]any)
	require.Equal(t, []any{4., 8., 12.}, []any{u["prompt_tokens"], u["completion_tokens"], u["total_tokens"]})
}

func TestCompletion_BestOfGivesTheLikeliestByToken(t *testing.T) {
	f, h := newTextHost(t)
	f.does(func(_ context.Context, q *wire.GenerateRequest, out *frames) {
		// The sum is the worst for seed 2, whose mean is the best.
		lp := map[uint64][]float32{1: {-2}, 2: {-1, -1, -1}, 3: {-1.5}, 4: nil}[*q.Sampling.Seed]
		for _, p := range lp {
			out.send(wire.Frame{Type: wire.FrameText, Text: fmt.Sprint(*q.Sampling.Seed), Tokens: []int32{1}, Logprobs: []wire.TokenLogprob{{ID: 1, Bytes: []byte("x"), Logprob: p}}})
		}
		out.done(wire.ReasonEOG, len(lp))
	})
	r := h.completion(`"a"`, `"n":2,"best_of":4,"seed":1`)
	choices := r.texts(t)
	require.Equal(t, []textChoiceJSON{{Index: 0, Text: "222", Finish: "stop"}, {Index: 1, Text: "3", Finish: "stop"}}, choices)
	require.Equal(t, 5., r.json(t)["usage"].(map[string]any)["completion_tokens"], "those not shown were made too")
}

func TestCompletion_EchoTellsThePromptsTokens(t *testing.T) {
	f, h := newTextHost(t)
	f.does(writes("ok", 2, wire.ReasonEOG))
	half, sure := -.5, 0.
	for _, prompt := range []string{`"aé"`, `[97,195,169]`} {
		choices := h.bothTexts(prompt, `"echo":true,"logprobs":1,"n":2`)
		require.Len(t, choices, 2)
		require.Equal(t, textChoiceJSON{Text: "aéok", Finish: "stop", Logprobs: &textLogprobs{
			Tokens:        []string{"a", `bytes:\xc3`, `bytes:\xa9`, "ok"},
			TokenLogprobs: []*float64{nil, &half, &half, &sure},
			TopLogprobs:   []map[string]float64{nil, {"x": -.25, `bytes:\xc3`: -.5}, {"x": -.25, `bytes:\xa9`: -.5}, {"ok": 0}},
			TextOffset:    []int{0, 1, 2, 2}}}, choices[0], prompt)
	}
}

func TestCompletion_EchoLeavesOutTheTokenThatBeginsEveryText(t *testing.T) {
	f := newStoreStation(t)
	f.model.Special.AddBOS, f.model.Special.BOS = true, 'a'
	h := openTextHost(t, f)
	choices := h.completion(`"abc"`, `"echo":true,"logprobs":0,"max_tokens":0`).texts(t)
	require.Equal(t, []string{"b", "c"}, choices[0].Logprobs.Tokens, "the fake's first token stands for it")
	require.NotNil(t, choices[0].Logprobs.TokenLogprobs[0], "it has a token before it")
	choices = h.completion(`[97,98]`, `"echo":true,"logprobs":0,"max_tokens":0`).texts(t)
	require.Equal(t, []string{"a", "b"}, choices[0].Logprobs.Tokens, "a client's own tokens stay")
}

// What the station tells of all tokens of a long prompt would be a line too long for
// its client.
func TestCompletion_ALongPromptIsScoredInParts(t *testing.T) {
	f, h := newTextHost(t)
	l := h.completion(`"`+strings.Repeat("abcde", 2000)+`"`, `"echo":true,"logprobs":1,"max_tokens":0`).texts(t)[0].Logprobs
	f.mu.Lock()
	require.Equal(t, []int{4096, 4096, 1808}, f.counts)
	f.mu.Unlock()
	require.Len(t, l.Tokens, 10000)
	for i := range l.Tokens {
		require.Equal(t, string("abcde"[i%5]), l.Tokens[i], i)
		require.Equal(t, i, l.TextOffset[i])
		require.Equal(t, i == 0, l.TokenLogprobs[i] == nil, i)
	}
}

// A station learns of a broken-off call a moment after the client, and deletes no
// session in use.
func TestCompletion_ABusySessionIsDeletedLater(t *testing.T) {
	f := newFaultStation(t)
	h := startHost(t, f.srv.URL, func(o *Options) { o.LiquidMemory = false })
	h.await(200)
	f.took()
	f.fault(pathDelete, func(w http.ResponseWriter, r *http.Request) {
		f.fault(pathDelete, nil)
		_, _ = io.Copy(io.Discard, r.Body)
		(&frames{w}).refuse(&wire.Error{Code: wire.CodeBusy, Message: "busy"})
	})
	h.completion(`"abc"`, `"echo":true,"logprobs":1,"max_tokens":0`).texts(t)
	require.Equal(t, []string{"/embed", "/forward", "/kv-session/delete s-0", "/kv-session/delete s-0"}, f.took())
}

func TestCompletion_TheBeginningOfAnEmptyTextIsNotInItsEcho(t *testing.T) {
	f := newStoreStation(t)
	f.model.Special.BOS = '^'
	h := openTextHost(t, f)
	f.does(writes("ok", 2, wire.ReasonEOG))
	require.Equal(t, "ok", h.bothTexts(`""`, `"echo":true`)[0].Text)
	scored := h.bothTexts(`""`, `"echo":true,"logprobs":0`)[0]
	require.Equal(t, "ok", scored.Text)
	require.Equal(t, []string{"ok"}, scored.Logprobs.Tokens)
	require.Equal(t, []int{0}, scored.Logprobs.TextOffset)
	require.NotNil(t, scored.Logprobs.TokenLogprobs[0], "it has a token before it")
	require.Equal(t, []int32{'^'}, f.got()[0].Prompt.Tokens)
	require.Equal(t, "^ok", h.bothTexts(`[94]`, `"echo":true`)[0].Text, "a client's own token stays")
	require.Equal(t, "^ok", h.bothTexts(`[94]`, `"echo":true,"logprobs":0`)[0].Text)
}

func TestCompletion_NoAnswerAskedForNoneMade(t *testing.T) {
	f, h := newTextHost(t)
	for _, fields := range []string{`"echo":false`, `"echo":true`, `"echo":true,"logprobs":2`} {
		r := h.completion(`"abc"`, `"max_tokens":0`, fields)
		require.Equal(t, "length", r.texts(t)[0].Finish)
		u := r.json(t)["usage"].(map[string]any)
		require.Equal(t, []any{3., 0.}, []any{u["prompt_tokens"], u["completion_tokens"]}, fields)
	}
	require.Empty(t, f.got())
}

func TestCompletion_ScoringLeavesNoSession(t *testing.T) {
	f := newFaultStation(t)
	h := startHost(t, f.srv.URL, func(o *Options) { o.LiquidMemory = false })
	h.await(200)
	f.took()
	h.completion(`"abc"`, `"echo":true,"logprobs":1,"max_tokens":0`).texts(t)
	require.Equal(t, []string{"/embed", "/forward", "/kv-session/delete s-0"}, f.took())
}

func TestCompletion_SuffixNeedsAModelWithTokensForIt(t *testing.T) {
	f, h := newTextHost(t)
	r := h.completion(`"a"`, `"suffix":"b"`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "unsupported_parameter", r.code(t))
	require.Contains(t, r.body, `"param":"suffix"`)

	f.mu.Lock()
	f.special = map[string]bool{"<fim_prefix>": true, "<fim_suffix>": true, "<fim_middle>": true}
	f.mu.Unlock()
	h.completion(`"a<fim_middle>"`, `"suffix":"b"`).texts(t)
	q := f.got()
	require.Equal(t, []wire.Segment{{Text: "<fim_prefix>", Special: true}, {Text: "a<fim_middle>"}, {Text: "<fim_suffix>", Special: true}, {Text: "b"}, {Text: "<fim_middle>", Special: true}},
		q[len(q)-1].Prompt.Segments)
	h.completion(`"a"`, `"suffix":""`).texts(t)
	q = f.got()
	require.Equal(t, []wire.Segment{{Text: "a"}}, q[len(q)-1].Prompt.Segments)
	h.completion(`[97]`, `"suffix":""`).texts(t)
	q = f.got()
	require.Equal(t, []int32{97}, q[len(q)-1].Prompt.Tokens)
	require.Equal(t, "aHello there", h.completion(`"a"`, `"suffix":"","echo":true`).texts(t)[0].Text)
}

func TestCompletion_TheStationsErrorsNameThePrompt(t *testing.T) {
	f, h := newTextHost(t)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeContextLength, Message: "too long"})
	})
	for _, fields := range []string{`"n":1`, `"stream":true`} {
		r := h.completion(`"a"`, fields)
		require.Equal(t, 400, r.status)
		require.Contains(t, r.body, `"param":"prompt","code":"context_length_exceeded"`)
	}
}

func TestCompletion_RefusesByFieldName(t *testing.T) {
	_, h := newTextHost(t)
	for _, c := range []struct{ prompt, fields, param, code string }{
		{`null`, `"n":1`, "prompt", "missing_required"}, {`[]`, `"n":1`, "prompt", "invalid_value"}, {`[[]]`, `"n":1`, "prompt", "invalid_value"},
		{`[1,"a"]`, `"n":1`, "prompt", "invalid_type"}, {`[1.5]`, `"n":1`, "prompt", "invalid_type"}, {`{}`, `"n":1`, "prompt", "invalid_type"},
		{`[1000]`, `"n":1`, "prompt", "invalid_value"}, {`[[1],[1000]]`, `"n":1`, "prompt[1]", "invalid_value"},
		{`"a"`, `"n":0`, "n", "invalid_value"}, {`"a"`, `"n":2,"best_of":1`, "best_of", "invalid_value"}, {`"a"`, `"best_of":2,"stream":true`, "best_of", "invalid_value"},
		{`["a","a","a","a","a"]`, `"n":16`, "prompt", "invalid_value"}, {`"a"`, `"logprobs":6`, "logprobs", "invalid_value"}, {`"a"`, `"logprobs":true`, "logprobs", "invalid_type"},
		{`"a"`, `"max_tokens":-1`, "max_tokens", "invalid_value"}, {`"a"`, `"temperature":3`, "temperature", "invalid_value"}, {`"a"`, `"stop":[""]`, "stop", "invalid_value"},
		{`"a"`, `"suffix":"b","echo":true`, "echo", "invalid_value"}, {`[1]`, `"suffix":"b"`, "suffix", "invalid_value"}, {`"a"`, `"grammar":"root ::= x"`, "grammar", "unsupported_parameter"},
		{`"a"`, `"messages":[]`, "messages", "unsupported_parameter"}, {`"a"`, `"cache_salt":""`, "cache_salt", "invalid_value"},
	} {
		r := h.completion(c.prompt, c.fields)
		require.Equal(t, 400, r.status, "%s %s: %s", c.prompt, c.fields, r.body)
		require.Equal(t, c.code, r.code(t), "%s %s", c.prompt, c.fields)
		require.Equal(t, c.param, r.json(t)["error"].(map[string]any)["param"], "%s %s", c.prompt, c.fields)
	}
	require.Equal(t, 404, h.do("POST", "/v1/completions", `{"model":"none","prompt":"a"}`).status)
}

func TestCompletion_NeedsNoChatTemplate(t *testing.T) {
	f := newFakeStation(t)
	f.model.ChatTemplate = "{{ broken"
	h := startHost(t, f.srv.URL)
	h.eventually(func() bool { return h.chat().status == 503 && strings.Contains(h.chat().body, "template") })
	require.Equal(t, "Hello there", h.completion(`"a"`).texts(t)[0].Text)
}
