//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// OpenAI's Responses API by the real model.

const responsesPath = "/v1/responses"

// R is the smallest useful request, with keys merged in.
func R(merge ...obj) obj {
	r := obj{"model": "test-model", "input": "Say hi", "max_output_tokens": 8, "temperature": 0}
	for _, more := range merge {
		for k, v := range more {
			r[k] = v
		}
	}
	return r
}

type responseItem struct {
	ID, Type, Role, Status, Name, Arguments string
	CallID                                  string `json:"call_id"`
	Content                                 []struct{ Type, Text string }
}

type response struct {
	ID, Status string
	Error      *struct{ Code, Message string }
	Output     []responseItem
	Store      bool
	Usage      struct {
		Input   int `json:"input_tokens"`
		Output  int `json:"output_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
}

// Text is what the model said.
func (r response) Text() (text string) {
	for _, item := range r.Output {
		for _, part := range item.Content {
			if part.Type == "output_text" {
				text += part.Text
			}
		}
	}
	return text
}

func (r reply) response(t *testing.T) (out response) {
	t.Helper()
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.NoError(t, json.Unmarshal(r.Body, &out), "%s", r.Body)
	return out
}

func (s *server) respond(t *testing.T, merge ...obj) response {
	t.Helper()
	return s.do(t, "POST", responsesPath, R(merge...)).response(t)
}

// awaitResponse polls one in the background.
func (s *server) awaitResponse(t *testing.T, id, status string) (got response) {
	t.Helper()
	eventually(t, "the response is "+status, func() bool {
		got = s.do(t, "GET", responsesPath+"/"+id, nil).response(t)
		return got.Status == status
	})
	return got
}

type responseEvent struct {
	Type     string
	Number   int `json:"sequence_number"`
	Delta    string
	Response response
}

// responseStream reads a stream whose numbers have no gap.
func responseStream(t *testing.T, raw []byte) (all []responseEvent, text string) {
	t.Helper()
	for _, block := range bytes.Split(bytes.TrimSpace(raw), []byte("\n\n")) {
		if bytes.HasPrefix(block, []byte(":")) {
			continue
		}
		head, data, ok := bytes.Cut(block, []byte("\ndata: "))
		require.True(t, ok, "%s", block)
		var e responseEvent
		require.NoError(t, json.Unmarshal(data, &e))
		require.Equal(t, "event: "+e.Type, string(head))
		if len(all) > 0 {
			require.Equal(t, all[len(all)-1].Number+1, e.Number)
		}
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
		all = append(all, e)
	}
	return all, text
}

func TestResponses_SayWhatTheChatSaysWholeAndStreamed(t *testing.T) {
	defer shared.unharmed(t)()
	chat := shared.chat(t, obj{"messages": []obj{system("Be brief."), user("Say hi")}})
	ask := obj{"instructions": "Be brief."}
	whole := shared.respond(t, ask)
	require.Equal(t, chat.Text(t), whole.Text())
	require.Equal(t, map[any]string{"stop": "completed", "length": "incomplete"}[chat.Finish(t)], whole.Status)
	require.Equal(t, chat.Usage(t, "prompt_tokens"), whole.Usage.Input)
	require.Equal(t, chat.Usage(t, "completion_tokens"), whole.Usage.Output)
	require.True(t, whole.Store)

	r := shared.do(t, "POST", responsesPath, R(ask, obj{"stream": true}))
	require.Equal(t, 200, r.Status, "%s", r.Body)
	all, text := responseStream(t, r.Body)
	require.Equal(t, whole.Text(), text)
	var kinds []string
	for _, e := range all {
		if len(kinds) == 0 || kinds[len(kinds)-1] != e.Type {
			kinds = append(kinds, e.Type)
		}
	}
	require.Equal(t, []string{"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response." + whole.Status}, kinds)
	last := all[len(all)-1].Response
	require.Equal(t, whole.Text(), last.Text())
	require.Equal(t, last, shared.do(t, "GET", responsesPath+"/"+last.ID, nil).response(t), "it is stored before its end is told")
}

func TestResponses_InputTokensAreThoseOfTheUsage(t *testing.T) {
	defer shared.unharmed(t)()
	first := shared.respond(t)
	for _, ask := range []obj{{}, {"instructions": "Be brief."}, {"input": []obj{user("One"), assistant("Two"), user("Three")}}, {"previous_response_id": first.ID}} {
		count := shared.do(t, "POST", responsesPath+"/input_tokens", R(ask)).JSON(t)
		require.Equal(t, obj{"object": "response.input_tokens", "input_tokens": float64(shared.respond(t, ask).Usage.Input)}, count)
	}
}

func TestResponses_AFunctionIsCalledAndAnswered(t *testing.T) {
	defer shared.unharmed(t)()
	tools := obj{"tools": []obj{{"type": "function", "name": "get_weather", "description": "The weather.", "strict": true, "parameters": obj{"type": "object", "additionalProperties": false,
		"required": []string{"city"}, "properties": obj{"city": obj{"type": "string", "enum": []string{"Oslo", "Paris"}}}}}}}
	ask := obj{"input": "What is the weather in Oslo?", "max_output_tokens": 80, "tool_choice": "required", "parallel_tool_calls": false}
	made := shared.respond(t, tools, ask)
	require.Equal(t, "completed", made.Status)
	require.Len(t, made.Output, 1)
	call := made.Output[0]
	require.Equal(t, []string{"function_call", "get_weather"}, []string{call.Type, call.Name})
	var in struct{ City string }
	require.NoError(t, json.Unmarshal([]byte(call.Arguments), &in))
	require.Contains(t, []string{"Oslo", "Paris"}, in.City)
	answer := obj{"type": "function_call_output", "call_id": call.CallID, "output": "It rains."}
	next := shared.respond(t, tools, obj{"input": []obj{answer}, "previous_response_id": made.ID, "tool_choice": "none"})
	require.NotEmpty(t, next.Text())
	require.Greater(t, next.Usage.Details.Cached, made.Usage.Input*2/3, "the call's turn is restored")

	// The same with the items sent again.
	again := shared.respond(t, tools, obj{"input": []any{user("What is the weather in Oslo?"),
		obj{"type": "function_call", "call_id": call.CallID, "name": call.Name, "arguments": call.Arguments}, answer}, "tool_choice": "none"})
	require.Equal(t, next.Text(), again.Text())
	require.Equal(t, next.Usage.Input, again.Usage.Input)
}

func TestResponses_TextFollowsItsSchema(t *testing.T) {
	defer shared.unharmed(t)()
	format := obj{"text": obj{"format": obj{"type": "json_schema", "name": "mood", "strict": true, "schema": obj{"type": "object", "additionalProperties": false,
		"required": []string{"mood", "level"}, "properties": obj{"mood": obj{"enum": []string{"calm", "angry"}}, "level": obj{"type": "integer", "minimum": 0, "maximum": 10}}}}}}
	for _, stream := range []bool{false, true} {
		r := shared.do(t, "POST", responsesPath, R(format, obj{"input": "How do you feel?", "max_output_tokens": 60, "stream": stream}))
		require.Equal(t, 200, r.Status, "%s", r.Body)
		text := ""
		if stream {
			_, text = responseStream(t, r.Body)
		} else {
			text = r.response(t).Text()
		}
		var v struct {
			Mood  string
			Level *int
		}
		require.NoError(t, json.Unmarshal([]byte(text), &v), text)
		require.Contains(t, []string{"calm", "angry"}, v.Mood)
		require.NotNil(t, v.Level)
	}
}

func TestResponses_TheNextTurnRestoresAllBefore(t *testing.T) {
	defer shared.unharmed(t)()
	first := shared.respond(t, obj{"input": words(90, 150) + " Count from 1 to 9, one per line.", "max_output_tokens": 40})
	second := shared.respond(t, obj{"input": "And backwards?", "previous_response_id": first.ID, "max_output_tokens": 24})
	require.GreaterOrEqual(t, second.Usage.Details.Cached, first.Usage.Input+first.Usage.Output-1, "prompt and answer, but for the token that ends it: %+v", second.Usage)
	chat := shared.chat(t, obj{"messages": []obj{user(words(90, 150) + " Count from 1 to 9, one per line."), assistant(first.Text()), user("And backwards?")}, "max_tokens": 24})
	require.Equal(t, chat.Text(t), second.Text(), "it is the same conversation")
	require.Equal(t, chat.Usage(t, "prompt_tokens"), second.Usage.Input)
}

func TestResponses_InTheBackgroundTheyRunCancelAndGo(t *testing.T) {
	defer shared.unharmed(t)()
	want := shared.respond(t)
	made := shared.respond(t, obj{"background": true})
	require.Contains(t, []string{"queued", "in_progress"}, made.Status)
	require.Equal(t, want.Text(), shared.awaitResponse(t, made.ID, want.Status).Text())

	long := obj{"background": true, "max_output_tokens": 3000, "ignore_eos": true, "input": "Write without ever stopping: a a a a"}
	made = shared.respond(t, long)
	shared.awaitResponse(t, made.ID, "in_progress")
	got := shared.do(t, "POST", responsesPath+"/"+made.ID+"/cancel", nil).response(t)
	require.Equal(t, "cancelled", got.Status)
	require.Equal(t, got, shared.do(t, "POST", responsesPath+"/"+made.ID+"/cancel", nil).response(t))

	made = shared.respond(t, long)
	require.Equal(t, obj{"id": made.ID, "object": "response", "deleted": true}, shared.do(t, "DELETE", responsesPath+"/"+made.ID, nil).JSON(t))
	require.Equal(t, 404, shared.do(t, "GET", responsesPath+"/"+made.ID, nil).Status)
	eventually(t, "the station has no work left", func() bool { return shared.station(t).Running == 0 })
}

func TestResponses_AStreamInTheBackgroundIsTakenUpAgain(t *testing.T) {
	defer shared.unharmed(t)()
	ctx, leave := context.WithCancel(t.Context())
	resp, err := shared.open(ctx, "POST", responsesPath, R(obj{"background": true, "stream": true, "input": "Count from 1 to 50.", "max_output_tokens": 60}))
	require.NoError(t, err)
	part := make([]byte, 16)
	_, err = resp.Body.Read(part)
	require.NoError(t, err)
	var id string
	head := string(part)
	for !strings.Contains(head, `"id":"resp_`) || !strings.Contains(head, "\n\n") {
		n, err := resp.Body.Read(part)
		require.NoError(t, err)
		head += string(part[:n])
	}
	_, id, _ = strings.Cut(head, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	leave()
	_ = resp.Body.Close()
	whole, text := responseStream(t, shared.do(t, "GET", responsesPath+"/"+id+"?stream=true", nil).Body)
	require.Equal(t, whole[len(whole)-1].Response.Text(), text, "it went on without its client")
	rest, _ := responseStream(t, shared.do(t, "GET", responsesPath+"/"+id+"?stream=true&starting_after=5", nil).Body)
	require.Equal(t, whole[6:], rest)
}
