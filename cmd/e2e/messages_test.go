//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Anthropic's API by the real model.

const messagesPath = "/v1/messages"

// M is the smallest useful request, with keys merged in.
func M(merge ...obj) obj {
	m := obj{"model": "test-model", "messages": []obj{user("Say hi")}, "max_tokens": 8, "temperature": 0}
	for _, more := range merge {
		for k, v := range more {
			m[k] = v
		}
	}
	return m
}

type anthropicMessage struct {
	Content []struct {
		Type, Text, ID, Name string
		Input                json.RawMessage
	}
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        struct {
		Input   int `json:"input_tokens"`
		Created int `json:"cache_creation_input_tokens"`
		Read    int `json:"cache_read_input_tokens"`
		Output  int `json:"output_tokens"`
	}
}

func (m anthropicMessage) prompt() int { return m.Usage.Input + m.Usage.Created + m.Usage.Read }

func (s *server) message(t *testing.T, merge ...obj) (m anthropicMessage) {
	t.Helper()
	r := s.do(t, "POST", messagesPath, M(merge...))
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.NoError(t, json.Unmarshal(r.Body, &m), "%s", r.Body)
	return m
}

func TestMessages_SayWhatTheChatSays(t *testing.T) {
	defer shared.unharmed(t)()
	chat := shared.chat(t, obj{"messages": []obj{system("Be brief."), user("Say hi")}})
	m := shared.message(t, obj{"system": "Be brief."})
	require.Len(t, m.Content, 1)
	require.Equal(t, chat.Text(t), m.Content[0].Text)
	require.Equal(t, map[any]string{"stop": "end_turn", "length": "max_tokens"}[chat.Finish(t)], m.StopReason)
	require.Equal(t, chat.Usage(t, "prompt_tokens"), m.prompt())
	require.Equal(t, chat.Usage(t, "completion_tokens"), m.Usage.Output)
	count := shared.do(t, "POST", messagesPath+"/count_tokens", obj{"model": "test-model", "messages": []obj{user("Say hi")}, "system": "Be brief."}).JSON(t)
	require.Equal(t, obj{"input_tokens": float64(m.prompt())}, count)

	// The answer goes on from its beginning.
	all := m.Content[0].Text
	rest := shared.message(t, obj{"system": "Be brief.", "messages": []obj{user("Say hi"), assistant(all[:1])}})
	require.NotEmpty(t, rest.Content)
	stop := shared.message(t, obj{"system": "Be brief.", "stop_sequences": []string{all[1:3]}})
	require.Equal(t, "stop_sequence", stop.StopReason)
	require.Equal(t, all[1:3], *stop.StopSequence)
}

func TestMessages_StreamHasTheWholeSequence(t *testing.T) {
	defer shared.unharmed(t)()
	want := shared.message(t)
	r := shared.do(t, "POST", messagesPath, M(obj{"stream": true}))
	require.Equal(t, 200, r.Status)
	var kinds []string
	text := ""
	for _, event := range bytes.Split(bytes.TrimSpace(r.Body), []byte("\n\n")) {
		_, data, ok := bytes.Cut(event, []byte("\ndata: "))
		require.True(t, ok, "%s", event)
		var e struct {
			Type    string
			Delta   struct{ Text string }
			Message struct {
				Usage struct {
					Input int `json:"input_tokens"`
					Read  int `json:"cache_read_input_tokens"`
				}
			}
		}
		require.NoError(t, json.Unmarshal(data, &e))
		text += e.Delta.Text
		if len(kinds) == 0 || kinds[len(kinds)-1] != e.Type {
			kinds = append(kinds, e.Type)
		}
		if e.Type == "message_start" {
			require.Equal(t, want.prompt(), e.Message.Usage.Input+e.Message.Usage.Read, "the prompt is known before the first token")
		}
	}
	require.Equal(t, []string{"message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}, kinds)
	require.Equal(t, want.Content[0].Text, text)
}

func TestMessages_ToolsAreCalledAndAnswered(t *testing.T) {
	defer shared.unharmed(t)()
	tools := obj{"tools": []obj{{"name": "get_weather", "description": "The weather.", "strict": true, "input_schema": obj{"type": "object", "additionalProperties": false,
		"required": []string{"city"}, "properties": obj{"city": obj{"type": "string", "enum": []string{"Oslo", "Paris"}}}}}}}
	ask := obj{"messages": []obj{user("What is the weather in Oslo?")}, "max_tokens": 80, "tool_choice": obj{"type": "any", "disable_parallel_tool_use": true}}
	m := shared.message(t, tools, ask)
	require.Equal(t, "tool_use", m.StopReason)
	require.Len(t, m.Content, 1)
	call := m.Content[0]
	require.Equal(t, "get_weather", call.Name)
	var in struct{ City string }
	require.NoError(t, json.Unmarshal(call.Input, &in))
	require.Contains(t, []string{"Oslo", "Paris"}, in.City)
	named := shared.message(t, tools, ask, obj{"tool_choice": obj{"type": "tool", "name": "get_weather"}})
	require.Equal(t, "tool_use", named.StopReason)
	require.Len(t, named.Content, 1, "who names the tool asks for one call")
	next := shared.message(t, tools, obj{"messages": []obj{user("What is the weather in Oslo?"),
		message("assistant", []obj{{"type": "tool_use", "id": call.ID, "name": call.Name, "input": call.Input}}),
		message("user", []obj{{"type": "tool_result", "tool_use_id": call.ID, "content": "It rains."}})}, "tool_choice": obj{"type": "none"}})
	require.NotEmpty(t, next.Content)
	require.Equal(t, "text", next.Content[0].Type)
	require.Greater(t, next.Usage.Read, m.prompt()*2/3, "the call's turn is restored")
}

func TestMessages_CacheControlIsReuse(t *testing.T) {
	defer shared.unharmed(t)()
	rules := []obj{{"type": "text", "text": words(62, 120), "cache_control": obj{"type": "ephemeral", "ttl": "1h"}}}
	first := shared.message(t, obj{"system": rules})
	require.Positive(t, first.Usage.Created)
	second := shared.message(t, obj{"system": rules, "messages": []obj{user("And now another question")}})
	require.Greater(t, second.Usage.Read, 120)
	require.Less(t, second.Usage.Input+second.Usage.Created, 40)
}

func TestMessages_ErrorsAreAnthropics(t *testing.T) {
	defer shared.unharmed(t)()
	for want, q := range map[string]obj{
		"invalid_request_error": M(obj{"temperature": 2}),
		"not_found_error":       M(obj{"model": "unknown"}),
	} {
		var e struct {
			Type  string
			Error struct{ Type, Message string }
		}
		r := shared.do(t, "POST", messagesPath, q)
		require.NoError(t, json.Unmarshal(r.Body, &e), "%s", r.Body)
		require.Equal(t, []string{"error", want}, []string{e.Type, e.Error.Type})
	}
	long := shared.do(t, "POST", messagesPath, M(obj{"messages": []obj{user(words(63, 6000))}}))
	require.Equal(t, 400, long.Status)
	require.Contains(t, string(long.Body), "invalid_request_error")
}
