package compare

import (
	"slices"
	"strings"
)

const (
	anthropicReference = "Anthropic reference"
	pathMessages       = "/v1/messages"
)

// message asks by Anthropic's API.
func (t *trial) message(over ...m) *reply {
	return t.offered(t.post(pathMessages, with(m{"model": t.Model, "max_tokens": 8, "temperature": 0, "messages": user("Say hi")}, over...), "anthropic-version", "2023-06-01"))
}

// block is the first content block of a type.
func block(o m, kind string) any {
	for _, b := range list(o, "content") {
		if str(b, "type") == kind {
			return b
		}
	}
	return nil
}

// input counts a prompt, reused or not.
func input(o m) int {
	return num(o, "usage", "input_tokens") + num(o, "usage", "cache_read_input_tokens") + num(o, "usage", "cache_creation_input_tokens")
}

var weatherInput = m{"type": "object", "properties": m{"city": m{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false}

var anthropicTools = m{"tools": []m{{"name": "get_weather", "description": "The weather.", "input_schema": weatherInput}},
	"tool_choice": m{"type": "any"}, "max_tokens": 200, "messages": user("What is the weather in Oslo?")}

var anthropicCases = []Case{
	{"messages API", "the members of an answer", anthropicReference, "type, role, content blocks, stop_reason and usage", func(t *trial) {
		o := t.message().object()
		t.that(str(o, "type") == "message" && str(o, "role") == "assistant" && str(o, "id") != "" && str(o, "model") != "", "it is %s", brief(o))
		t.that(str(block(o, "text"), "text") != "", "content is %s", brief(o["content"]))
		t.that(slices.Contains([]string{"end_turn", "max_tokens"}, str(o, "stop_reason")) && has(o, "stop_sequence"), "stop_reason is %s", brief(o["stop_reason"]))
		t.that(input(o) > 0 && num(o, "usage", "output_tokens") > 0, "usage is %s", brief(o["usage"]))
	}},
	{"messages API", "the cap is reached", anthropicReference, "stop_reason max_tokens", func(t *trial) {
		o := t.message(m{"messages": user(count), "max_tokens": 4}).object()
		t.needs(str(o, "stop_reason") == "max_tokens" || num(o, "usage", "output_tokens") >= 4, "an answer of 4 tokens")
		t.that(str(o, "stop_reason") == "max_tokens" && num(o, "usage", "output_tokens") == 4, "%s, %d tokens", brief(o["stop_reason"]), num(o, "usage", "output_tokens"))
	}},
	{"messages API", "stop_sequences", anthropicReference, "stop_reason stop_sequence, which is named, and not part of the text", func(t *trial) {
		text := str(block(t.message(m{"messages": user("Tell me about rivers."), "max_tokens": 30}).object(), "text"), "text")
		r := []rune(text)
		t.needs(len(r) > 10, "an answer that can be cut, not %q", text)
		stop := string(r[6:10])
		o := t.message(m{"messages": user("Tell me about rivers."), "max_tokens": 30, "stop_sequences": []string{stop}}).object()
		t.that(str(o, "stop_reason") == "stop_sequence" && str(o, "stop_sequence") == stop, "stop_reason %s, stop_sequence %s", brief(o["stop_reason"]), brief(o["stop_sequence"]))
		t.that(!strings.Contains(str(block(o, "text"), "text"), stop), "the text has it")
	}},
	{"messages API", "streamed", anthropicReference, "message_start, blocks with their deltas, message_delta, message_stop, each named", func(t *trial) {
		s := t.message(m{"stream": true}).stream()
		names := slices.DeleteFunc(s.names(), func(n string) bool { return n == "ping" })
		for _, e := range s.events {
			t.that(e.name == str(e.data, "type"), "event %q has the type %q", e.name, str(e.data, "type"))
		}
		t.that(len(names) > 5 && names[0] == "message_start" && names[1] == "content_block_start" && names[2] == "content_block_delta", "it begins with %v", names[:min(3, len(names))])
		t.that(slices.Equal(names[len(names)-3:], []string{"content_block_stop", "message_delta", "message_stop"}), "it ends with %v", names[len(names)-min(3, len(names)):])
		d := s.first("message_delta")
		t.that(str(d, "delta", "stop_reason") != "" && num(d, "usage", "output_tokens") > 0, "message_delta is %s", brief(d))
		var text strings.Builder
		for _, d := range s.of("content_block_delta") {
			t.that(whole(d["index"]), "a delta has no index")
			text.WriteString(str(d, "delta", "text"))
		}
		t.that(text.String() != "", "no text")
		t.that(has(s.first("message_start"), "message"), "message_start has no message")
	}},
	{"messages API", "system", anthropicReference, "it is part of the prompt, as text or as blocks", func(t *trial) {
		little := input(t.message(m{"system": "You."}).object())
		text := input(t.message(m{"system": "You are terse, and you never say more than three words."}).object())
		blocks := input(t.message(m{"system": []m{part("You are terse, and you never say more than three words.")}}).object())
		t.that(text > little+5, "a longer one adds %d tokens", text-little)
		t.needs(text > 0, "usage.input_tokens")
		t.near(blocks, text, "system as blocks")
	}},
	{"messages API", "tool_choice any", anthropicReference, "a tool_use block with an object as input, and stop_reason tool_use", func(t *trial) {
		o := t.message(anthropicTools).object()
		use := block(o, "tool_use")
		t.called(use != nil)
		_, ok := at(use, "input").(m)
		t.that(ok && str(use, "id") != "" && str(use, "name") == "get_weather", "content is %s", brief(o["content"]))
		t.that(str(o, "stop_reason") == "tool_use" || str(o, "stop_reason") == "max_tokens", "stop_reason is %s", brief(o["stop_reason"]))
	}},
	{"messages API", "streamed tool use", anthropicReference, "input_json_delta events that are an object together", func(t *trial) {
		s := t.message(anthropicTools, m{"stream": true}).stream()
		inputs := map[int]string{}
		for _, e := range s.of("content_block_start") {
			if str(e, "content_block", "type") == "tool_use" {
				inputs[num(e, "index")] = ""
			}
		}
		for _, e := range s.of("content_block_delta") {
			if str(e, "delta", "type") == "input_json_delta" {
				inputs[num(e, "index")] += str(e, "delta", "partial_json")
			}
		}
		t.called(len(inputs) > 0)
		finish := ""
		if str(s.first("message_delta"), "delta", "stop_reason") == "max_tokens" {
			finish = "length"
		}
		for _, text := range inputs {
			t.instance(weatherInput, text, finish)
		}
	}},
	{"messages API", "a tool's result", anthropicReference, "an answer that has seen it", func(t *trial) {
		ask := func(result string) int {
			return input(t.message(anthropicTools, m{"tool_choice": drop, "max_tokens": 4, "messages": []m{role("user", "The weather in Oslo?"),
				role("assistant", []m{{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": m{"city": "Oslo"}}}),
				role("user", []m{{"type": "tool_result", "tool_use_id": "toolu_1", "content": result}})}}).object())
		}
		few, many := ask("4"), ask("4 degrees, rain, and a strong wind from the north west")
		t.needs(few > 0, "usage.input_tokens")
		t.that(many > few+5, "the result makes no difference: %d and %d tokens", few, many)
	}},
	{"messages API", "count_tokens", anthropicReference, "the prompt's tokens of the same message", func(t *trial) {
		n := num(t.offered(t.post(pathMessages+"/count_tokens", m{"model": t.Model, "messages": user("Say hi"), "system": "Be brief."})).object(), "input_tokens")
		o := t.message(m{"system": "Be brief."}).object()
		t.that(n > 0 && n == input(o), "%d, and the message has %d", n, input(o))
	}},
	{"messages API", "usage with a prompt seen before", anthropicReference, "input, cache_read and cache_creation tokens are the prompt together", func(t *trial) {
		over := m{"system": strings.Repeat("The river runs past the mill and the old bridge. ", 40)}
		first := input(t.message(over).object())
		t.needs(first > 0, "usage.input_tokens")
		for range 2 {
			n := input(t.message(over).object())
			t.that(n == first, "%d, at first %d", n, first)
		}
	}},
	{"messages API", "the shape of errors", anthropicReference, "type error, and error with a documented type and a message", func(t *trial) {
		r := t.message(m{"max_tokens": drop})
		t.that(r.status == 400, "no max_tokens: %d", r.status)
		t.that(str(r.value(), "type") == "error" && str(r.value(), "error", "type") == "invalid_request_error" && r.message() != "", "it is %s", brief(r.value()))
	}},
	{"messages API", "what cannot be", anthropicReference, "an error", func(t *trial) {
		t.message().object()
		for _, over := range []m{{"messages": []m{}}, {"messages": []m{role("banana", "x")}}, {"max_tokens": 0}, {"temperature": 1.5}, {"tool_choice": m{"type": "tool", "name": "none"}}} {
			t.post(pathMessages, with(m{"model": t.Model, "max_tokens": 8, "messages": user("Say hi")}, over)).refused("%s", brief(over))
		}
	}},
	{"messages API", "an image for a text model", anthropicReference, "an error", func(t *trial) {
		t.message().object()
		r := t.post(pathMessages, m{"model": t.Model, "max_tokens": 8, "messages": user([]m{part("What is this?"),
			{"type": "image", "source": m{"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}})})
		t.that(r.status >= 400, "an image: accepted") // which status is a case of chats
	}},
}
