package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/responses"
	"thoth/host/stored"
	"thoth/station/wire"
)

// storingIn gives a host a store of responses in this folder.
func storingIn(dir string) func(*Options) {
	return func(o *Options) { o.Responses = stored.Options{Address: dir} }
}

// keeping gives a host a store of its own.
func keeping(t *testing.T) func(*Options) { return storingIn(t.TempDir()) }

// ask posts a response; input is JSON.
func (h *testHost) ask(input string, fields ...string) reply { return h.askAs("", input, fields...) }

func (h *testHost) askAs(key, input string, fields ...string) reply {
	h.t.Helper()
	return h.do("POST", "/v1/responses", responseBody(input, fields...), "Authorization", "Bearer "+key)
}

func responseBody(input string, fields ...string) string {
	b := `{"model":"` + model + `","input":` + input
	for _, f := range fields {
		b += "," + f
	}
	return b + "}"
}

// response reads an answer, or the last event of a stream.
func (r reply) response(t *testing.T) *responses.Response {
	t.Helper()
	require.Equal(t, 200, r.status, r.body)
	body := r.body
	if strings.HasPrefix(r.header.Get("Content-Type"), eventStreamType) {
		all := responseEvents(t, r.body)
		last := all[len(all)-1]
		require.NotNil(t, last.Response, r.body)
		require.Contains(t, []string{"response.completed", "response.incomplete", "response.failed"}, last.Type)
		return last.Response
	}
	out := new(responses.Response)
	require.NoError(t, json.Unmarshal([]byte(body), out), body)
	return out
}

type responseEvent struct {
	Type     string
	Number   int `json:"sequence_number"`
	Delta    string
	Response *responses.Response
	Code     string
	Message  string
}

// responseEvents reads a stream and checks its framing; numbers have no gap.
func responseEvents(t *testing.T, raw string) (all []responseEvent) {
	t.Helper()
	require.True(t, strings.HasSuffix(raw, "\n\n"), raw)
	for _, block := range strings.Split(strings.TrimSuffix(raw, "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		head, data, ok := strings.Cut(block, "\ndata: ")
		require.True(t, ok, block)
		var e responseEvent
		require.NoError(t, json.Unmarshal([]byte(data), &e), data)
		require.Equal(t, "event: "+e.Type, head)
		if len(all) > 0 {
			require.Equal(t, all[len(all)-1].Number+1, e.Number)
		}
		all = append(all, e)
	}
	return all
}

func deltas(all []responseEvent) (text string) {
	for _, e := range all {
		text += e.Delta
	}
	return text
}

// saying is the text of a response.
func saying(r *responses.Response) (text string) {
	for _, item := range r.Output {
		if item.Type == responses.TypeMessage {
			for _, p := range item.Content {
				text += p.Text
			}
		}
	}
	return text
}

func (h *testHost) kept(id string, header ...string) reply {
	h.t.Helper()
	return h.get("/v1/responses/"+id, header...)
}

func TestResponse_IsStoredWithItsInput(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	for _, stream := range []string{`"stream":false`, `"stream":true`} {
		r := h.ask(`"Say hi"`, stream, `"metadata":{"a":"b"}`)
		made := r.response(t)
		require.Equal(t, "completed", made.Status)
		require.Equal(t, "Hello there", saying(made))
		require.True(t, made.Store)
		require.NotEmpty(t, r.header.Get(headerPath)+r.header.Get("Trailer"))
		require.NotNil(t, made.Gnosis)
		require.Equal(t, 9, made.Usage.InputTokens)

		got := h.kept(made.ID)
		require.Equal(t, made, got.response(t), "what was answered is what is stored")
		items := h.get("/v1/responses/" + made.ID + "/input_items").json(t)
		require.Equal(t, "list", items["object"])
		require.Equal(t, false, items["has_more"])
		item := items["data"].([]any)[0].(map[string]any)
		require.Equal(t, item["id"], items["first_id"])
		require.Equal(t, "user", item["role"])
		require.Equal(t, "Say hi", item["content"].([]any)[0].(map[string]any)["text"])

		gone := h.do("DELETE", "/v1/responses/"+made.ID, "")
		require.JSONEq(t, `{"id":"`+made.ID+`","object":"response","deleted":true}`, gone.body)
		for _, ask := range []reply{h.kept(made.ID), h.do("DELETE", "/v1/responses/"+made.ID, ""), h.do("POST", "/v1/responses/"+made.ID+"/cancel", ""),
			h.get("/v1/responses/" + made.ID + "/input_items")} {
			require.Equal(t, 404, ask.status, ask.body)
			require.Equal(t, "not_found", ask.code(t))
			require.Equal(t, "response_id", *errorParam(t, ask))
		}
	}
}

func errorParam(t *testing.T, r reply) *string {
	t.Helper()
	var e struct{ Error struct{ Param *string } }
	require.NoError(t, json.Unmarshal([]byte(r.body), &e))
	return e.Error.Param
}

func TestResponse_WithoutStoreNothingOfItStays(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	made := h.ask(`"Say hi"`, `"store":false`).response(t)
	require.False(t, made.Store)
	require.Equal(t, 404, h.kept(made.ID).status)
	first := h.ask(`"Say hi"`).response(t)
	next := h.ask(`"Again"`, `"store":false`, `"previous_response_id":"`+first.ID+`"`).response(t)
	require.Equal(t, first.ID, *next.PreviousResponseID)
}

func TestResponse_GoesOnFromTheOneBefore(t *testing.T) {
	f, h := newModel(t, chatml, keeping(t))
	one := h.ask(`"Say hi"`, `"instructions":"Be brief"`).response(t)
	two := h.ask(`[{"role":"user","content":"And now?"}]`, `"previous_response_id":"`+one.ID+`"`, `"stream":true`).response(t)
	h.ask(`"Last"`, `"previous_response_id":"`+two.ID+`"`, `"instructions":"Be long"`).response(t)
	got := f.got()
	first := "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"
	require.Equal(t, "<|im_start|>system\nBe brief<|im_end|>\n"+first, text(got[0].Prompt.Segments))
	second := first + "Hello there<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n"
	require.Equal(t, second, text(got[1].Prompt.Segments), "instructions are of one turn")
	require.Equal(t, "<|im_start|>system\nBe long<|im_end|>\n"+second+"Hello there<|im_end|>\n<|im_start|>user\nLast<|im_end|>\n<|im_start|>assistant\n", text(got[2].Prompt.Segments))
	items := h.get("/v1/responses/" + two.ID + "/input_items").json(t)
	require.Len(t, items["data"], 1, "the input of this turn alone")
}

func TestResponse_ACallIsAnsweredInTheNextTurn(t *testing.T) {
	f, h := newModel(t, hermesTemplate, keeping(t))
	const tools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`
	f.does(writes("I look.\n"+oslo, 5, wire.ReasonEOG))
	one := h.ask(`"Weather?"`, tools).response(t)
	require.Len(t, one.Output, 2)
	call := one.Output[1]
	require.Equal(t, []string{"function_call", "get_weather"}, []string{call.Type, call.Name})
	f.does(hello)
	two := h.ask(`[{"type":"function_call_output","call_id":"`+call.CallID+`","output":"rain"}]`, tools, `"previous_response_id":"`+one.ID+`"`).response(t)
	require.Equal(t, "Hello there", saying(two))
	prompt := text(f.got()[1].Prompt.Segments)
	require.True(t, strings.HasPrefix(prompt, text(f.got()[0].Prompt.Segments)+"I look.\n"+oslo), "what the model wrote is the prompt of the next turn, to the byte: %s", prompt)
	r := h.ask(`[{"type":"function_call_output","call_id":"other","output":"rain"}]`, tools, `"previous_response_id":"`+one.ID+`"`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "input[0].call_id", *errorParam(t, r))
}

func TestResponse_WhatCannotBeGoneOnFromIsNamed(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	r := h.ask(`"a"`, `"previous_response_id":"resp_none"`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "previous_response_not_found", r.code(t))
	require.Contains(t, r.body, "resp_none")
	require.Equal(t, "previous_response_id", *errorParam(t, r))

	one := h.ask(`"a"`).response(t)
	two := h.ask(`"b"`, `"previous_response_id":"`+one.ID+`"`).response(t)
	require.NoError(t, h.stored.Delete(t.Context(), "", one.ID))
	r = h.ask(`"c"`, `"previous_response_id":"`+two.ID+`"`)
	require.Equal(t, "previous_response_not_found", r.code(t))
	require.Contains(t, r.body, one.ID, "the one that is missing is named")

	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("Hi")
		out.send(wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeEngine, Message: "broke"}})
	})
	failed := h.ask(`"d"`, `"stream":true`).response(t)
	require.Equal(t, "failed", failed.Status)
	require.Equal(t, failed, h.kept(failed.ID).response(t), "its client knows its id")
	r = h.ask(`"e"`, `"previous_response_id":"`+failed.ID+`"`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "failed")
}

func TestResponse_HistoryCountsAgainstTheLimitOfItems(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t), func(o *Options) { o.Limits.Messages = 3 })
	one := h.ask(`"a"`).response(t)
	two := h.ask(`"b"`, `"previous_response_id":"`+one.ID+`"`)
	require.Equal(t, 200, two.status)
	r := h.ask(`"c"`, `"previous_response_id":"`+two.response(t).ID+`"`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "previous_response_id", *errorParam(t, r))
}

func TestResponse_KeysSeeTheirOwn(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t), func(o *Options) { o.APIKeys = []string{"a", "b"} })
	made := h.askAs("a", `"Say hi"`).response(t)
	path, other := "/v1/responses/"+made.ID, []string{"Authorization", "Bearer b"}
	require.Equal(t, 404, h.get(path, other...).status)
	require.Equal(t, 404, h.get(path+"/input_items", other...).status)
	require.Equal(t, 404, h.do("POST", path+"/cancel", "", other...).status)
	require.Equal(t, 404, h.do("DELETE", path, "", other...).status)
	r := h.askAs("b", `"Go on"`, `"previous_response_id":"`+made.ID+`"`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "previous_response_not_found", r.code(t))
	unknown := h.get("/v1/responses/"+strings.Repeat("x", len(made.ID)), other...)
	require.Equal(t, strings.ReplaceAll(h.get(path, other...).body, made.ID, ""), strings.ReplaceAll(unknown.body, strings.Repeat("x", len(made.ID)), ""), "like one that never was")
	require.Equal(t, 401, h.get(path).status)
	require.Equal(t, made, h.get(path, "Authorization", "Bearer a").response(t))
}

func TestResponse_AClientThatLeavesCancelsIt(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	f.does(forever)
	id, _, leave := h.openResponse(`"Say hi"`, `"stream":true`)
	leave()
	h.eventually(func() bool { return f.running() == 0 && h.kept(id).status == 200 })
	got := h.kept(id).response(t)
	require.Equal(t, "cancelled", got.Status)
	require.True(t, strings.HasPrefix(saying(got), "tok "), "what there was by then")
}

// openResponse opens a stream and reads its first event; next reads one more.
func (h *testHost) openResponse(input string, fields ...string) (id string, next func() responseEvent, leave func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", h.base+"/v1/responses", strings.NewReader(responseBody(input, fields...)))
	require.NoError(h.t, err)
	next, leave = h.reading(req, cancel)
	first := next()
	require.Equal(h.t, "response.created", first.Type)
	return first.Response.ID, next, leave
}

func (h *testHost) reading(req *http.Request, cancel func()) (next func() responseEvent, leave func()) {
	h.t.Helper()
	resp, err := h.http.Do(req)
	require.NoError(h.t, err)
	leave = func() { cancel(); _ = resp.Body.Close() }
	h.t.Cleanup(leave)
	require.Equal(h.t, 200, resp.StatusCode)
	lines := bufio.NewReader(resp.Body)
	return func() (e responseEvent) {
		for {
			line, err := lines.ReadString('\n')
			require.NoError(h.t, err)
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				require.NoError(h.t, json.Unmarshal([]byte(data), &e))
				return e
			}
		}
	}, leave
}

func TestResponse_InputItemsComeInPages(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	var items []string
	for i := range 25 {
		items = append(items, fmt.Sprintf(`{"role":"user","content":"%d"}`, i))
	}
	made := h.ask("[" + strings.Join(items, ",") + "]").response(t)
	page := func(query string) (texts []string, last string, more bool) {
		r := h.get("/v1/responses/" + made.ID + "/input_items" + query)
		require.Equal(t, 200, r.status, r.body)
		var list responses.Items
		require.NoError(t, json.Unmarshal([]byte(r.body), &list))
		for _, it := range list.Data {
			texts = append(texts, it.Content[0].Text)
		}
		if list.LastID != nil {
			require.Equal(t, list.Data[0].ID, *list.FirstID)
			require.Equal(t, list.Data[len(list.Data)-1].ID, *list.LastID)
			last = *list.LastID
		}
		return texts, last, list.HasMore
	}
	texts, last, more := page("")
	require.Len(t, texts, 20)
	require.Equal(t, "24", texts[0], "the last comes first")
	require.True(t, more)
	texts, last, more = page("?after=" + last)
	require.Equal(t, []string{"4", "3", "2", "1", "0"}, texts)
	require.False(t, more)
	texts, _, _ = page("?after=" + last)
	require.Empty(t, texts)
	texts, last, _ = page("?order=asc&limit=2")
	require.Equal(t, []string{"0", "1"}, texts)
	texts, _, more = page("?order=asc&limit=100&after=" + last)
	require.Len(t, texts, 23)
	require.False(t, more)
	for param, query := range map[string]string{"limit": "?limit=0", "order": "?order=up", "after": "?after=msg_none", "include": "?include[]=all"} {
		r := h.get("/v1/responses/" + made.ID + "/input_items" + query)
		require.Equal(t, 400, r.status, r.body)
		require.Equal(t, param, *errorParam(t, r))
	}
	require.Equal(t, 400, h.get("/v1/responses/"+made.ID+"/input_items?limit=101").status)
	require.Equal(t, 400, h.get("/v1/responses/"+made.ID+"/input_items?limit=x").status)
}

// gatedStore lets reads of records begin, and end when the gate opens.
type gatedStore struct {
	responseStore
	begun chan string
	gate  chan struct{}
}

func (g *gatedStore) GetCharged(ctx context.Context, scope, id string, charge stored.Charge) (*stored.Record, error) {
	g.begun <- id
	<-g.gate
	return g.responseStore.GetCharged(ctx, scope, id, charge)
}

func TestResponse_FewRecordsAreReadAtOnceToDeleteThem(t *testing.T) {
	const all = 10
	h := newHost(t, newFakeStation(t), keeping(t))
	h.longStory(all, 100)
	g := &gatedStore{h.responses, make(chan string, all+1), make(chan struct{})}
	open := sync.OnceFunc(func() { close(g.gate) })
	defer open()
	h.responses = g
	var asking sync.WaitGroup
	statuses := make([]int, all)
	for i := range all {
		asking.Go(func() { statuses[i] = h.do("DELETE", fmt.Sprintf("/v1/responses/resp_%d", i), "").status })
	}
	h.eventually(func() bool {
		reading, waiting := h.deletions.counts()
		return reading == deletionReads && waiting == all-deletionReads
	})
	h.eventually(func() bool { return len(g.begun) == deletionReads })
	open()
	asking.Wait()
	for _, status := range statuses {
		require.Equal(t, 200, status)
	}
	require.Len(t, g.begun, all)
	reading, waiting := h.deletions.counts()
	require.Zero(t, reading+waiting)
	require.Equal(t, 404, h.do("DELETE", "/v1/responses/resp_0", "").status)
}

func TestResponse_LogprobsAreShownWhereTheyAreAskedFor(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	f.does(writes("Hi", 1, wire.ReasonEOG))
	r := h.ask(`"Say hi"`, `"include":["message.output_text.logprobs"]`)
	made := r.response(t)
	require.NotContains(t, h.kept(made.ID).body, `"logprob"`)
	require.Equal(t, 2, strings.Count(r.body, `"logprob"`))
	for _, name := range []string{"include", "include[]"} {
		require.JSONEq(t, r.body, h.get("/v1/responses/"+made.ID+"?"+name+"=message.output_text.logprobs&"+name+"=reasoning.encrypted_content").body)
	}
	for param, query := range map[string]string{"include": "?include=file_search_call.results", "stream": "?stream=maybe", "include_obfuscation": "?stream=true&include_obfuscation=true", "starting_after": "?starting_after=1"} {
		r := h.get("/v1/responses/" + made.ID + query)
		require.Equal(t, 400, r.status, r.body)
		require.Equal(t, param, *errorParam(t, r))
	}
	require.Equal(t, 400, h.get("/v1/responses/"+made.ID+"?stream=true&starting_after=x").status)
	require.Equal(t, 400, h.get("/v1/responses/"+made.ID+"?%zz").status)
}

func TestResponse_InputTokensCountThePromptWithItsHistory(t *testing.T) {
	f := newStoreStation(t)
	h := startHost(t, f.srv.URL, keeping(t), func(o *Options) { o.LiquidMemory = false })
	h.await(200)
	count := func(fields string) int {
		r := h.do("POST", "/v1/responses/input_tokens", fields)
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, "response.input_tokens", r.json(t)["object"])
		return int(r.json(t)["input_tokens"].(float64))
	}
	const prompt = "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"
	require.Equal(t, len(prompt), count(`{"input":"Say hi"}`), "the model may be left out")
	one := h.ask(`"Say hi"`).response(t)
	next := count(responseBody(`"Go on"`, `"previous_response_id":"`+one.ID+`"`))
	require.Equal(t, len(prompt+saying(one)+"<|im_end|>\n<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n"), next)
	require.Equal(t, 400, h.do("POST", "/v1/responses/input_tokens", `{"input":5}`).status)
	require.Equal(t, 404, h.do("POST", "/v1/responses/input_tokens", `{"model":"none","input":"a"}`).status)
	require.Equal(t, 400, h.do("POST", "/v1/responses/input_tokens", `{"input":"a","previous_response_id":"resp_none"}`).status)
}

func TestResponse_CachedTokensAreToldAndTheSecondTurnIsThePromptOfTheFirst(t *testing.T) {
	f := newStoreStation(t)
	h := startHost(t, f.srv.URL, keeping(t))
	h.await(200)
	h.eventually(func() bool { return h.memory.On() })
	one := h.ask(`"` + strings.Repeat("rules ", 20) + `"`)
	require.Equal(t, "liquid", one.header.Get(headerPath))
	require.Zero(t, one.response(t).Usage.InputDetails.CachedTokens)
	f.mu.Lock()
	first := append([]int32(nil), f.staged...)
	f.load = wire.KVLoadResponse{Position: 100, Tiers: wire.KVTiers{Hot: 100}, DiffersAt: -1}
	f.mu.Unlock()
	two := h.ask(`"Go on"`, `"previous_response_id":"`+one.response(t).ID+`"`)
	require.Equal(t, 100, two.response(t).Usage.InputDetails.CachedTokens)
	require.Equal(t, "hit", two.header.Get(headerLiquid))
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := bytesOf(wire.Prompt{Segments: []wire.Segment{{Text: saying(one.response(t))}}})
	require.Equal(t, append(first, answer...), f.staged[:len(first)+len(answer)], "prompt and answer of the first turn begin the second, to the byte")
}

func TestResponse_ErrorsNameTheParameterOfThisAPI(t *testing.T) {
	f, h := newModel(t, chatml)
	for param, fields := range map[string]string{
		"text.format.schema.properties.a.$ref":  `"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object","properties":{"a":{"$ref":"http://x"}}}}}`,
		"tools[0].parameters.properties.a.$ref": `"tool_choice":"required","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"http://x"}}}}]`,
		"reasoning.effort":                      `"reasoning":{"effort":"high"}`,
		"text.verbosity":                        `"text":{"verbosity":"low"}`,
		"truncation":                            `"truncation":"auto"`,
	} {
		r := h.ask(`"a"`, fields)
		require.Equal(t, 400, r.status, r.body)
		require.Equal(t, param, *errorParam(t, r), r.body)
	}
	require.Equal(t, 404, h.do("POST", "/v1/responses", `{"model":"none","input":"a"}`).status)
	require.Empty(t, f.got())
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeContextLength, Message: "too long"})
	})
	for _, stream := range []string{`"stream":false`, `"stream":true`} {
		r := h.ask(`"a"`, stream)
		require.Equal(t, 400, r.status)
		require.Equal(t, "input", *errorParam(t, r))
	}
}
