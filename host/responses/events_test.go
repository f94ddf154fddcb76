package responses

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/station/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, raw string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(raw), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), raw)
}

// piece is one of an answer.
type piece struct {
	kind       string // TypeMessage, TypeReasoning, TypeCall, or TypeOutput for arguments
	text, name string
	lp         []openai.TokenLogprob
}

func said(text string) piece    { return piece{kind: TypeMessage, text: text} }
func thought(text string) piece { return piece{kind: TypeReasoning, text: text} }
func call(id string) piece      { return piece{kind: TypeCall, text: id, name: "get_weather"} }
func args(text string) piece    { return piece{kind: TypeOutput, text: text} }

func spelled(text string, n int) piece {
	lp := []wire.TokenLogprob{{Bytes: []byte(text), Logprob: -0.5, Top: []wire.TokenLogprob{{Bytes: []byte(text), Logprob: -0.5}, {Bytes: []byte("\xe5"), Logprob: -2}}}}
	return piece{kind: TypeMessage, text: text, lp: openai.Logprobs(lp[:n]).Content}
}

// answers are the shapes of a response: what it is made of, and how it ends.
var answers = []struct {
	name   string
	fields string
	pieces []piece
	cut    bool
	err    *openai.Error
}{
	{name: "text", pieces: []piece{said("Hi "), said("<😀>"), said(`"!`)}},
	{name: "empty"},
	{name: "reasoning", fields: `"reasoning":{"effort":"low"}`, pieces: []piece{thought("Two "), thought("and two."), said("Four.")}},
	{name: "sealed", fields: `"include":["reasoning.encrypted_content"]`, pieces: []piece{thought("Two "), thought("and <two>."), said("Four.")}},
	{name: "calls", fields: `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}]`,
		pieces: []piece{said("I look."), call("call_a"), args(`{"city":`), args(` "Oslo"}`), call("call_b"), args(`{"city": "Rome"}`)}},
	{name: "logprobs", fields: `"include":["message.output_text.logprobs"],"top_logprobs":2`, pieces: []piece{spelled("H", 1), spelled("i", 1), {kind: TypeMessage, lp: openai.Logprobs([]wire.TokenLogprob{{Bytes: []byte("!"), Logprob: -1}}).Content}}},
	{name: "cut", pieces: []piece{thought("Hm."), said("So be")}, cut: true},
	{name: "cut-thought", pieces: []piece{thought("Hm")}, cut: true},
	{name: "cut-call", pieces: []piece{call("call_a"), args(`{"city": "Os`)}, cut: true},
	{name: "failed", pieces: []piece{said("So be")}, err: openai.NewError(openai.CodeTimeout, "", "the station sent nothing for 5s")},
}

func begin(t *testing.T, fields string) *Response {
	r, e := decode(t, fields)
	require.Nil(t, e)
	return New(r, "resp_1", "model", time.Unix(1000, 0))
}

var usage = NewUsage(openai.Usage{PromptTokens: 8, CompletionTokens: 3, TotalTokens: 11, PromptDetails: openai.PromptDetails{CachedTokens: 5, CacheWriteTokens: 2},
	CompletionDetails: &openai.CompletionDetails{ReasoningTokens: 1}})

func TestEvents_BytesOfEveryShape(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			e, d := NewEvents(begin(t, a.fields)), NewDraft(begin(t, a.fields))
			buf := e.Created(nil)
			buf = e.InProgress(buf)
			for _, p := range a.pieces {
				switch p.kind {
				case TypeMessage:
					buf = e.Text(buf, p.text, p.lp)
					d.Text(p.text, p.lp)
				case TypeReasoning:
					buf = e.Reasoning(buf, p.text)
					d.Reasoning(p.text)
				case TypeCall:
					buf = e.Call(buf, p.text, p.name)
					d.Call(p.text, p.name)
				case TypeOutput:
					buf = e.Arguments(buf, p.text)
					d.Arguments(p.text)
				}
			}
			if a.err != nil {
				e.Fail(a.err)
				d.Fail(a.err)
			} else {
				buf = e.End(buf, a.cut, usage, nil, time.Unix(1002, 0))
				d.End(a.cut, usage, nil, time.Unix(1002, 0))
			}
			again := *e
			known := again.Over(buf[:len(buf):len(buf)], openai.Encode(e.Response))
			buf = e.Over(buf, nil)
			require.Equal(t, string(buf), string(known), "whoever encoded it")
			golden(t, a.name+".sse", string(buf))
			whole, err := json.MarshalIndent(d.Response, "", "  ")
			require.NoError(t, err)
			golden(t, a.name+".json", string(whole)+"\n")

			told, err := json.MarshalIndent(e.Response, "", "  ")
			require.NoError(t, err)
			require.Equal(t, string(whole), string(told), "streamed or not, it is one response")
			require.Equal(t, string(whole), string(put(t, buf, a.err != nil)), "its events together are the response")
		})
	}
}

// put puts a stream's events together the way clients do, checks their order, and
// gives the response of the last one as it is written whole.
func put(t *testing.T, raw []byte, failed bool) []byte {
	t.Helper()
	var last *Response
	var out []Item
	open := false
	texts := func(i int) *string {
		if out[i].Type == TypeCall {
			return &out[i].Arguments
		}
		return &out[i].Content[0].Text
	}
	for n, block := range strings.Split(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(block, "\ndata: ")
		require.True(t, ok, block)
		var ev struct {
			Type     string
			Number   int    `json:"sequence_number"`
			Index    int    `json:"output_index"`
			Content  *int   `json:"content_index"`
			ItemID   string `json:"item_id"`
			Delta    string
			Text     string
			Args     string `json:"arguments"`
			Logprobs []openai.TokenLogprob
			Item     *Item
			Part     *struct {
				Type, Text string
				Logprobs   []openai.TokenLogprob
			}
			Response *Response
		}
		require.NoError(t, json.Unmarshal([]byte(data), &ev))
		require.Equal(t, "event: "+ev.Type, name)
		require.Equal(t, n, ev.Number)
		if ev.ItemID != "" {
			require.Equal(t, out[ev.Index].ID, ev.ItemID)
			require.Equal(t, out[ev.Index].Type != TypeCall, ev.Content != nil)
			require.True(t, open)
		}
		switch ev.Type {
		case "response.created", "response.in_progress":
			require.Less(t, n, 2)
			require.Empty(t, ev.Response.Output)
			require.Equal(t, StatusInProgress, ev.Response.Status)
		case "response.output_item.added":
			require.False(t, open, "items do not overlap")
			require.Equal(t, len(out), ev.Index)
			require.Equal(t, StatusInProgress, ev.Item.Status)
			require.Empty(t, ev.Item.Content)
			out, open = append(out, *ev.Item), true
		case "response.content_part.added":
			require.Empty(t, ev.Part.Text)
			out[ev.Index].Content = []Part{{Type: ev.Part.Type}}
		case "response.output_text.delta", "response.reasoning_text.delta", "response.function_call_arguments.delta":
			*texts(ev.Index) += ev.Delta
			if len(ev.Logprobs) > 0 {
				out[ev.Index].Content[0].Logprobs = append(out[ev.Index].Content[0].Logprobs, ev.Logprobs...)
			}
		case "response.output_text.done", "response.reasoning_text.done":
			require.Equal(t, *texts(ev.Index), ev.Text)
			require.Len(t, ev.Logprobs, len(out[ev.Index].Content[0].Logprobs))
		case "response.function_call_arguments.done":
			require.Equal(t, *texts(ev.Index), ev.Args)
		case "response.content_part.done":
			require.Equal(t, *texts(ev.Index), ev.Part.Text)
			require.Len(t, ev.Part.Logprobs, len(out[ev.Index].Content[0].Logprobs))
		case "response.output_item.done":
			out[ev.Index].Status, out[ev.Index].Encrypted = ev.Item.Status, ev.Item.Encrypted
			open = false
		case "response.completed", "response.incomplete", "response.failed":
			require.Equal(t, "response."+ev.Response.Status, ev.Type)
			last = ev.Response
		default:
			require.Fail(t, ev.Type)
		}
	}
	require.NotNil(t, last)
	require.Equal(t, failed, open, "every item of a response that was finished is")
	if !failed {
		last.Output = out
	}
	whole, err := json.MarshalIndent(last, "", "  ")
	require.NoError(t, err)
	return whole
}

func TestResponse_ComesBackFromItsJSON(t *testing.T) {
	for _, a := range answers {
		raw, err := os.ReadFile(filepath.Join("testdata", a.name+".json"))
		require.NoError(t, err)
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, raw))
		var r, v2 Response
		require.NoError(t, json.Unmarshal(raw, &r))
		require.NoError(t, jsonv2.Unmarshal(raw, &v2))
		require.Equal(t, r, v2)
		again, err := json.Marshal(r)
		require.NoError(t, err)
		if a.name == "logprobs" {
			require.NotContains(t, string(again), `"logprobs":[{`, "they mean nothing to the next turn, and may be many times its text")
			continue
		}
		require.Equal(t, compact.String(), string(again))
	}
}

func TestItem_ComesBackFromItsJSON(t *testing.T) {
	const input = `[{"id":"msg_1","type":"message","status":"completed","content":[{"type":"input_text","text":"x","prompt_cache_breakpoint":{"mode":"explicit","ttl":"5m"}}],"role":"user"},
		{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"content":[],"status":"completed"},
		{"id":"msg_2","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"a"},{"type":"refusal","refusal":"no"}],"phase":"final_answer","role":"assistant"},
		{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"a\": 1}","call_id":"c","name":"f"},
		{"id":"fco_1","type":"function_call_output","status":"completed","call_id":"c","output":"x"},
		{"id":"fco_2","type":"function_call_output","status":"completed","call_id":"c","output":[{"type":"input_text","text":"x"}]}]`
	read, e := items(t, input)
	require.Nil(t, e)
	out, err := json.Marshal(read)
	require.NoError(t, err)
	require.JSONEq(t, input, string(out))
	var stored []Item
	require.NoError(t, json.Unmarshal(out, &stored))
	require.Equal(t, read, stored)
	require.Equal(t, string(out), string(EncodeItems(read)))
	require.Equal(t, `[]`, string(EncodeItems(nil)))
	require.Error(t, json.Unmarshal([]byte(`{"type":"x"}`), new(Item)))
}

func TestResponse_FailsByTheWordsOfTheReference(t *testing.T) {
	for code, want := range map[openai.Code]string{
		openai.CodeOverloaded: "rate_limit_exceeded", openai.CodeRateLimit: "rate_limit_exceeded", openai.CodeContextLength: "invalid_prompt",
		openai.CodeTimeout: "server_error", openai.CodeInternal: "server_error", openai.CodeUnavailable: "server_error",
	} {
		r := &Response{}
		r.Fail(openai.NewError(code, "", "why"))
		require.Equal(t, &Failure{Code: want, Message: "why"}, r.Error)
		require.Equal(t, StatusFailed, r.Status)
	}
}

func TestDraft_ACancelledResponseKeepsWhatWasSaid(t *testing.T) {
	d := NewDraft(begin(t, ""))
	d.Text("So be", nil)
	d.Cancel()
	require.Equal(t, StatusCancelled, d.Response.Status)
	require.Equal(t, StatusIncomplete, d.Response.Output[0].Status)
	require.Equal(t, "So be", text(d.Response.Output[0].Content))
	require.Nil(t, d.Response.CompletedAt)
}

func TestAppendError_IsTheEventOfAnError(t *testing.T) {
	got := AppendError(nil, openai.NewError(openai.CodeInvalidValue, "input[0]", "input[0] is odd"), 7)
	require.Equal(t, "event: error\ndata: "+`{"type":"error","sequence_number":7,"code":"invalid_value","message":"input[0] is odd","param":"input[0]"}`+"\n\n", string(got))
}

func TestEvents_QueuedComesBetween(t *testing.T) {
	e := NewEvents(begin(t, `"background":true`))
	e.Response.Status = StatusQueued
	buf := e.Queued(e.Created(nil))
	e.Response.Status = StatusInProgress
	buf = e.InProgress(buf)
	for i, want := range []string{"created", "queued", "in_progress"} {
		require.Contains(t, strings.Split(string(buf), "\n\n")[i], fmt.Sprintf(`event: response.%s`+"\n"+`data: {"type":"response.%s","sequence_number":%d,"response":{"id":"resp_1"`, want, want, i))
	}
}
