package host

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"thoth/host/stored"
	"thoth/station/wire"
)

const weatherTool = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`

// Vercel's SDK sends its second turn so: all of the first, what the server keeps by reference.
func TestResponse_ItemsThatAreReferredToAreThoseThatWereSent(t *testing.T) {
	f, h := newModel(t, hermesTemplate, keeping(t))
	f.does(writes("I look.\n"+oslo, 5, wire.ReasonEOG))
	one := h.ask(`"Weather?"`, weatherTool).response(t)
	f.does(hello)
	said, call := one.Output[0], one.Output[1]
	output := `{"type":"function_call_output","call_id":"` + call.CallID + `","output":"rain"}`
	h.ask(`[`+output+`]`, weatherTool, `"previous_response_id":"`+one.ID+`"`).response(t)
	want := text(f.last().Prompt.Segments)
	user := `{"role":"user","content":"Weather?"}`
	for _, refs := range []string{`{"type":"item_reference","id":"` + said.ID + `"},{"type":"item_reference","id":"` + call.ID + `"}`, `{"id":"` + said.ID + `"},{"id":"` + call.ID + `"}`} {
		two := h.ask(`[`+user+`,`+refs+`,`+output+`]`, weatherTool).response(t)
		require.Equal(t, want, text(f.last().Prompt.Segments))

		// What was asked is stored whole: the next turn needs no record of the first.
		kept, err := h.stored.Get(t.Context(), "", two.ID)
		require.NoError(t, err)
		require.NotContains(t, string(kept.Input), "item_reference")
		require.Contains(t, string(kept.Input), "I look.")
	}
	input := h.get("/v1/responses/" + one.ID + "/input_items").json(t)["data"].([]any)[0].(map[string]any)
	h.ask(`[{"id":"` + input["id"].(string) + `"}]`).response(t)
	require.Contains(t, text(f.last().Prompt.Segments), "Weather?", "an item of an input")
}

func TestResponse_AnItemIsReferredToOnce(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	one := h.ask(`[{"role":"user","content":"a","id":"mine"}]`).response(t)
	before := `"previous_response_id":"` + one.ID + `"`
	said := `{"id":"` + one.Output[0].ID + `"}`
	for _, r := range []reply{
		h.ask(`[` + said + `,` + said + `]`),
		h.do("POST", "/v1/responses/input_tokens", responseBody(`[`+said+`,`+said+`]`)),
		h.ask(`[{"role":"user","content":"b"},`+said+`]`, before),
		h.ask(`[{"role":"user","content":"b"},{"id":"mine"}]`, before),
	} {
		require.Equal(t, 400, r.status, r.body)
		require.Equal(t, "input[1].id", *errorParam(t, r))
		require.Contains(t, r.body, "Duplicate item found with id")
	}
	require.Len(t, f.got(), 1)
	require.Zero(t, h.bodies.held())
}

func TestResponse_WhatReferencesReadIsBounded(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.Responses = stored.Options{Address: t.TempDir(), RecordBytes: 8 << 10} })
	var refs []string
	for i := range 20 {
		id := fmt.Sprintf("resp_r%d", i)
		require.NoError(t, h.stored.Put(t.Context(), &stored.Record{ID: id, Created: time.Now(),
			Input:    jsontext.Value(`[{"type":"message","role":"user","id":"u","content":[{"type":"input_text","text":"` + strings.Repeat("x", 4<<10) + `"}]}]`),
			Response: jsontext.Value(fmt.Sprintf(`{"id":"%s","status":"completed","output":[{"type":"message","role":"assistant","id":"msg_r%d_0","content":[{"type":"output_text","text":"y"}]}]}`, id, i))}))
		refs = append(refs, fmt.Sprintf(`{"id":"msg_r%d_0"}`, i))
	}
	require.Equal(t, 200, h.ask(`[`+strings.Join(refs[:7], ",")+`]`).status)
	r := h.ask(`[` + strings.Join(refs, ",") + `]`)
	require.Equal(t, 400, r.status, r.body)
	require.Equal(t, "input[7].id", *errorParam(t, r))
	require.Contains(t, r.body, "resp_r7")
	require.Zero(t, h.bodies.held())
}

func TestResponse_ReferencesThatCannotFitAreRefusedBeforeTheirPrompt(t *testing.T) {
	f := newFakeStation(t)
	f.health.ContextLength = 1000
	h := newHost(t, f, keeping(t))
	require.NoError(t, h.stored.Put(t.Context(), &stored.Record{ID: "resp_r", Created: time.Now(),
		Input:    jsontext.Value(`[{"type":"message","role":"user","id":"msg_r_i0","content":[{"type":"input_text","text":"` + strings.Repeat("x", 70_000) + `"}]}]`),
		Response: jsontext.Value(`{"id":"resp_r","status":"completed","output":[]}`)}))
	r := h.ask(`[{"role":"user","content":"x"},{"id":"msg_r_i0"}]`)
	require.Equal(t, 400, r.status, r.body)
	require.Equal(t, "context_length_exceeded", r.code(t))
	require.Equal(t, "input[1].id", *errorParam(t, r))
	require.Empty(t, f.got())
	require.Zero(t, h.bodies.held())
}

func TestResponse_BreakpointsAreOfOneTurn(t *testing.T) {
	f := newStoreStation(t)
	f.health.ContextLength = 1 << 20
	h := startHost(t, f.srv.URL, keeping(t))
	h.await(200)
	const marked = `[{"role":"user","content":[{"type":"input_text","text":"words and words ","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`
	id := ""
	for range 70 {
		fields := []string{`"max_output_tokens":5`}
		if id != "" {
			fields = append(fields, `"previous_response_id":"`+id+`"`)
		}
		id = h.ask(marked, fields...).response(t).ID
	}
	_, saves := f.asked()
	require.NotEmpty(t, saves)
	marks := 0
	for _, s := range saves {
		marks = max(marks, len(s.Points))
	}
	require.Equal(t, 1, marks, "those of this turn")
	input := h.get("/v1/responses/" + id + "/input_items").body
	require.Contains(t, input, "prompt_cache_breakpoint", "it is shown as it came")
	ref := h.get("/v1/responses/" + id + "/input_items").json(t)["data"].([]any)[0].(map[string]any)["id"].(string)
	record, err := h.stored.Get(t.Context(), "", h.ask(`[{"id":"`+ref+`"}]`).response(t).ID)
	require.NoError(t, err)
	require.NotContains(t, string(record.Input), "prompt_cache_breakpoint")
}

func TestResponse_AReferenceThatLeadsNowhereIsNamed(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t), func(o *Options) { o.APIKeys = []string{"a", "b"} })
	one := h.askAs("a", `"x"`).response(t)
	unkept := h.askAs("a", `"x"`, `"store":false`).response(t)
	refer := func(key, id string, fields ...string) reply {
		return h.askAs(key, `[{"role":"user","content":"x"},{"type":"item_reference","id":"`+id+`"}]`, fields...)
	}
	require.Equal(t, 200, refer("a", one.Output[0].ID).status)
	for _, r := range []reply{refer("b", one.Output[0].ID), refer("a", "msg_none"), refer("a", "msg_none_0"), refer("a", unkept.Output[0].ID),
		refer("a", strings.Replace(one.Output[0].ID, "_0", "_1", 1)), refer("a", "msg_none_0", `"previous_response_id":"`+one.ID+`"`)} {
		require.Equal(t, 404, r.status, r.body)
		require.Equal(t, "not_found", r.code(t))
		require.Equal(t, "input[1].id", *errorParam(t, r))
	}
	off := newHost(t, newFakeStation(t))
	r := off.ask(`[{"type":"item_reference","id":"msg_none_0"}]`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "input[0].id", *errorParam(t, r))
	require.Contains(t, r.body, off.responses.State().Reason)
}

func TestResponse_ReasoningComesBackByItsToken(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	f.does(writes("<think>\nTwo & <two>.\n</think>\n\nFour.", 4, wire.ReasonEOG))
	one := h.ask(`"Sum?"`, `"store":false`, `"include":["reasoning.encrypted_content"]`).json(t)["output"].([]any)
	again := func(items ...any) string {
		raw, err := json.Marshal(append([]any{map[string]any{"role": "user", "content": "Sum?"}}, items...))
		require.NoError(t, err)
		require.Equal(t, 200, h.ask(string(raw)).status)
		return text(f.last().Prompt.Segments)
	}
	whole := again(one...)
	thought := one[0].(map[string]any)
	require.NotEmpty(t, thought["encrypted_content"])
	delete(thought, "content")
	require.Equal(t, whole, again(one...))
	thought["encrypted_content"] = thought["encrypted_content"].(string)[1:]
	raw, err := json.Marshal(one)
	require.NoError(t, err)
	r := h.ask(string(raw))
	require.Equal(t, 400, r.status)
	require.Equal(t, "input[0].encrypted_content", *errorParam(t, r))
}

func TestResponse_ACallWithoutItsOutputIsNamed(t *testing.T) {
	f, h := newModel(t, hermesTemplate, keeping(t))
	f.does(writes(oslo, 5, wire.ReasonEOG))
	one := h.ask(`"Weather?"`, weatherTool).response(t)
	r := h.ask(`"Well?"`, `"previous_response_id":"`+one.ID+`"`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "previous_response_id", *errorParam(t, r))
	require.Contains(t, r.body, "No tool output found for function call "+one.Output[0].CallID)
}

// longStory stores a chain of turns, each of so many bytes of text, and gives its last id.
func (h *testHost) longStory(turns, bytes int) (id string) {
	for i := range turns {
		previous := id
		id = fmt.Sprintf("resp_%d", i)
		require.NoError(h.t, h.stored.Put(h.t.Context(), &stored.Record{ID: id, Previous: previous, Created: time.Now(),
			Input:    jsontext.Value(`[{"type":"message","role":"user","id":"u` + id + `","content":[{"type":"input_text","text":"` + strings.Repeat("x", bytes) + `"}]}]`),
			Response: jsontext.Value(`{"id":"` + id + `","object":"response","status":"completed","background":false,"output":[]}`)}))
	}
	return id
}

func TestResponse_WhatIsReadOutOfTheStoreCountsAsABody(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t), func(o *Options) { o.BodyLimit, o.MaxBodyMemory = 100<<10, 250<<10 })
	long := `"previous_response_id":"` + h.longStory(3, 100<<10) + `"`
	refs := `[{"id":"uresp_0"},{"id":"msg_0_0"},{"id":"msg_1_0"},{"id":"msg_2_0"}]`
	for name, r := range map[string]reply{
		"a chain":    h.ask(`"x"`, long),
		"a count":    h.do("POST", "/v1/responses/input_tokens", responseBody(`"x"`, long)),
		"references": h.ask(refs),
	} {
		require.Equal(t, 429, r.status, "%s: %s", name, r.body)
		require.Contains(t, r.body, "fill their memory")
		require.Zero(t, h.bodies.held(), name)
	}
	require.Equal(t, 200, h.ask(`"x"`, `"previous_response_id":"resp_1"`).status)
	require.Zero(t, h.bodies.held())
}

func TestResponse_AChainThatCannotFitIsRefusedBeforeItsPrompt(t *testing.T) {
	f := newFakeStation(t)
	f.health.ContextLength = 1000
	h := newHost(t, f, keeping(t))
	for _, r := range []reply{h.ask(`"x"`, `"previous_response_id":"`+h.longStory(2, 40_000)+`"`)} {
		require.Equal(t, 400, r.status, r.body)
		require.Equal(t, "context_length_exceeded", r.code(t))
		require.Equal(t, "previous_response_id", *errorParam(t, r))
	}
	require.Equal(t, 200, h.ask(`"x"`, `"previous_response_id":"resp_0"`).status)
	require.Len(t, f.got(), 1)
	require.Zero(t, h.bodies.held())
}

func TestResponse_AStoredOneCountsUntilItsClientHasIt(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t), func(o *Options) { o.BodyLimit, o.MaxBodyMemory = 1<<20, 40<<20 })
	id := h.longStory(1, 14<<20)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(conn, "GET /v1/responses/%s/input_items HTTP/1.1\r\nHost: x\r\n\r\n", id)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return h.bodies.held() > 28<<20 }, 10*time.Second, time.Millisecond, "what was read, and what is sent of it")
	for _, path := range []string{"", "/input_items"} {
		r := h.get("/v1/responses/" + id + path)
		require.Equal(t, 429, r.status, "another one does not fit")
	}
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return h.bodies.held() == 0 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 200, h.get("/v1/responses/"+id).status)
}

func TestResponse_IsStoredAsItWasSaid(t *testing.T) {
	f, h := newModel(t, chatml, keeping(t))
	f.does(writes("<b>&", 1, wire.ReasonEOG))
	made := h.ask(`[{"role":"user","content":"<a>&"},{"role":"assistant","content":[{"type":"output_text","text":"<c>","annotations":[{"type":"x"}],"logprobs":[{"token":"<c>"}]}]},{"role":"user","content":"d"}]`).response(t)
	kept, err := h.stored.Get(t.Context(), "", made.ID)
	require.NoError(t, err)
	for _, said := range []string{"<a>&", "<c>"} {
		require.Contains(t, string(kept.Input), said)
	}
	require.Contains(t, string(kept.Response), "<b>&")
	require.NotContains(t, string(kept.Input), `"token"`)
	require.Contains(t, string(kept.Input), `"annotations":[]`)
	require.Equal(t, string(kept.Response)+"\n", h.kept(made.ID).body, "it is sent as it lies there")
}

func TestResponse_QueriesThatAreNotKnownAreRefused(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	path := "/v1/responses/" + h.ask(`"a"`).response(t).ID
	for query, param := range map[string]string{"?sream=true": "sream", "?limit=1": "limit", "?stream=true&stream=false": "stream", "/input_items?before=x": "before", "/input_items?order=asc&Limit=1": "Limit"} {
		r := h.get(path + query)
		require.Equal(t, 400, r.status, query)
		require.Equal(t, param, *errorParam(t, r))
		require.Contains(t, r.body, param)
	}
	require.Equal(t, 200, h.get(path+"?stream=false&include_obfuscation=false").status)
}

func TestResponse_CountingNeedsNeitherInputNorStore(t *testing.T) {
	f := newStoreStation(t)
	h := startHost(t, f.srv.URL, keeping(t), func(o *Options) { o.LiquidMemory = false })
	h.await(200)
	broken := &brokenStore{responseStore: h.responses, open: true}
	broken.breaks(true)
	h.responses = broken
	count := func(body string) float64 {
		r := h.do("POST", "/v1/responses/input_tokens", body)
		require.Equal(t, 200, r.status, r.body)
		return r.json(t)["input_tokens"].(float64)
	}
	require.Zero(t, count(`{}`))
	require.EqualValues(t, len("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>assistant\n"), count(`{"instructions":"Be brief."}`))
	require.Positive(t, count(`{"input":"x","store":true,"background":true}`))
	require.Equal(t, 503, h.do("POST", "/v1/responses/input_tokens", `{"previous_response_id":"resp_a"}`).status)
}
