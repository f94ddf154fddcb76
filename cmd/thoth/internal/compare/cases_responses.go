package compare

import (
	"encoding/json"
	"slices"
	"strings"
)

const pathResponses = "/v1/responses"

// respond asks by the responses API.
func (t *trial) respond(over ...m) *reply {
	return t.offered(t.post(pathResponses, with(m{"model": t.Model, "input": "Say hi", "max_output_tokens": 24, "temperature": 0}, over...)))
}

// item is the first item of output of a type.
func item(o any, kind string) any {
	for _, i := range list(o, "output") {
		if str(i, "type") == kind {
			return i
		}
	}
	return nil
}

// output is the text of a response.
func output(o any) string { return str(item(o, "message"), "content", 0, "text") }

var responseTools = m{"tools": []m{{"type": "function", "name": "get_weather", "description": "The weather.", "strict": true,
	"parameters": weatherSchema}},
	"tool_choice": "required", "max_output_tokens": 200, "input": "What is the weather in Oslo?"}

var responseCases = []Case{
	{"responses", "the members of an answer", reference, "object response, status, output items with content, usage", func(t *trial) {
		o := t.respond().object()
		t.that(strings.HasPrefix(str(o, "id"), "resp") && str(o, "object") == "response" && str(o, "model") != "" && whole(o["created_at"]), "it is %s", brief(o))
		t.that(str(o, "status") == "completed" || str(o, "status") == "incomplete", "status is %s", brief(o["status"]))
		msg := item(o, "message")
		t.that(str(msg, "role") == "assistant" && str(msg, "id") != "" && str(msg, "status") != "", "the message is %s", brief(msg))
		c := at(msg, "content", 0)
		_, annotations := at(c, "annotations").([]any)
		t.that(str(c, "type") == "output_text" && str(c, "text") != "" && annotations, "its content is %s", brief(c))
		u := o["usage"]
		t.that(num(u, "input_tokens") > 0 && num(u, "total_tokens") == num(u, "input_tokens")+num(u, "output_tokens"), "usage is %s", brief(u))
		t.that(has(at(u, "input_tokens_details"), "cached_tokens") && has(at(u, "output_tokens_details"), "reasoning_tokens"), "usage has no details: %s", brief(u))
	}},
	{"responses", "the cap is reached", reference, "status incomplete, with the reason max_output_tokens", func(t *trial) {
		o := t.respond(m{"input": count, "max_output_tokens": 16}).object()
		t.needs(str(o, "status") == "incomplete" || num(o, "usage", "output_tokens") >= 16, "an answer of 16 tokens")
		t.that(str(o, "status") == "incomplete" && str(o, "incomplete_details", "reason") == "max_output_tokens", "status %s, incomplete_details %s", brief(o["status"]), brief(o["incomplete_details"]))
	}},
	{"responses", "input as items", reference, "the same prompt as the text alone; parts are put together", func(t *trial) {
		text := num(t.respond().object(), "usage", "input_tokens")
		items := num(t.respond(m{"input": []m{{"type": "message", "role": "user", "content": []m{{"type": "input_text", "text": "Say "}, {"type": "input_text", "text": "hi"}}}}}).object(), "usage", "input_tokens")
		easy := num(t.respond(m{"input": []m{role("user", "Say hi")}}).object(), "usage", "input_tokens")
		t.needs(text > 0, "usage.input_tokens")
		t.near(items, text, "items")
		t.near(easy, text, "a message without a type")
	}},
	{"responses", "instructions", reference, "they are part of the prompt", func(t *trial) {
		few := num(t.respond(m{"instructions": "You."}).object(), "usage", "input_tokens")
		many := num(t.respond(m{"instructions": "You are terse, and you never say more than three words."}).object(), "usage", "input_tokens")
		t.that(many > few+5, "longer ones add %d tokens", many-few)
	}},
	{"responses", "streamed", reference, "the documented events in their order, numbered, each with its type as its name", func(t *trial) {
		s := t.respond(m{"stream": true}).stream()
		var kinds []string
		for i, e := range s.events {
			kind := str(e.data, "type")
			t.that(e.name == "" || e.name == kind, "event %q has the type %q", e.name, kind)
			t.that(whole(e.data["sequence_number"]) && num(e.data, "sequence_number") == i, "%s has the sequence_number %s", kind, brief(e.data["sequence_number"]))
			if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
				kinds = append(kinds, kind)
			}
		}
		last := kinds[len(kinds)-1]
		t.that(last == "response.completed" || last == "response.incomplete", "the last event is %s", last)
		want := []string{"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
			"response.output_text.done", "response.content_part.done", "response.output_item.done", last}
		t.that(slices.Equal(kinds, want), "the events are %s", strings.ReplaceAll(strings.Join(kinds, " "), "response.", ""))
		text := s.joined("response.output_text.delta", "delta")
		t.that(text != "" && text == str(s.first("response.output_text.done"), "text") && text == output(s.first(last)["response"]), "the texts differ")
	}},
	{"responses", "a function call", reference, "an item function_call with call_id, name and arguments as text", func(t *trial) {
		o := t.respond(responseTools).object()
		c := item(o, "function_call")
		t.called(c != nil)
		finish := ""
		if str(o, "status") == "incomplete" {
			finish = "length"
		}
		t.that(str(c, "call_id") != "" && str(c, "name") == "get_weather", "output is %s", brief(o["output"]))
		t.instance(weatherSchema, str(c, "arguments"), finish)
	}},
	{"responses", "a streamed function call", reference, "function_call_arguments deltas that are the arguments together", func(t *trial) {
		s := t.respond(responseTools, m{"stream": true}).stream()
		texts := map[string]string{} // by item
		for _, e := range s.of("response.function_call_arguments.delta") {
			texts[str(e, "item_id")] += str(e, "delta")
		}
		t.called(len(texts) > 0)
		done := s.of("response.function_call_arguments.done")
		t.that(len(done) == len(texts), "%d calls, %d of them done", len(texts), len(done))
		for _, e := range done {
			text := texts[str(e, "item_id")]
			t.that(text == str(e, "arguments") && json.Valid([]byte(text)), "the arguments are %q, and %q when done", short(text, 40), short(str(e, "arguments"), 40))
		}
	}},
	{"responses", "a function's output", reference, "an answer that has seen it", func(t *trial) {
		ask := func(result string) int {
			return num(t.respond(responseTools, m{"tool_choice": "auto", "max_output_tokens": 16, "input": []m{role("user", "The weather in Oslo?"),
				{"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": `{"city":"Oslo"}`},
				{"type": "function_call_output", "call_id": "call_1", "output": result}}}).object(), "usage", "input_tokens")
		}
		few, many := ask("4"), ask("4 degrees, rain, and a strong wind from the north west")
		t.needs(few > 0, "usage.input_tokens")
		t.that(many > few+5, "the output makes no difference: %d and %d tokens", few, many)
	}},
	{"responses", "structured output", reference, "an instance of text.format's schema", func(t *trial) {
		o := t.respond(m{"input": "How do you feel?", "max_output_tokens": 100, "text": m{"format": m{"type": "json_schema", "name": "mood", "strict": true, "schema": mood}}}).object()
		finish := ""
		if str(o, "status") == "incomplete" {
			finish = "length"
		}
		t.instance(mood, output(o), finish)
	}},
	{"responses", "a stored answer", reference, "GET gives it, DELETE deletes it", func(t *trial) {
		o := t.respond().object()
		t.needs(output(o) != "", "a text")
		path := pathResponses + "/" + str(o, "id")
		got := t.offered(t.send("GET", path, nil)).object()
		t.that(str(got, "id") == str(o, "id") && output(got) == output(o), "it is %s", brief(got))
		gone := t.send("DELETE", path, nil).object()
		t.that(gone["deleted"] == true && str(gone, "id") == str(o, "id"), "DELETE gives %s", brief(gone))
		t.that(t.send("GET", path, nil).status == 404, "it is there after DELETE")
	}},
	{"responses", "input_items", reference, "GET lists what was sent", func(t *trial) {
		id := str(t.respond().object(), "id")
		o := t.offered(t.send("GET", pathResponses+"/"+id+"/input_items", nil)).object()
		t.that(str(o, "object") == "list" && len(list(o, "data")) == 1 && str(o, "data", 0, "role") == "user", "it is %s", brief(o))
	}},
	{"responses", "previous_response_id", reference, "the answer has seen the turn before; an unknown one is an error", func(t *trial) {
		o := t.respond(m{"input": "My code is K-77, please remember it well."}).object()
		next := t.respond(m{"input": "Say hi", "previous_response_id": str(o, "id")}).object()
		alone := num(t.respond().object(), "usage", "input_tokens")
		t.that(num(next, "usage", "input_tokens") > alone+10, "ignored: %d prompt tokens, alone %d", num(next, "usage", "input_tokens"), alone)
		t.that(str(next, "previous_response_id") == str(o, "id"), "the answer does not say which one")
		none := t.post(pathResponses, m{"model": t.Model, "input": "Say hi", "previous_response_id": "resp_none"})
		t.that(none.status == 400 || none.status == 404, "an unknown one: %d", none.status)
	}},
	{"responses", "store false", reference, "the answer cannot be fetched", func(t *trial) {
		o := t.respond(m{"store": false}).object()
		t.that(o["store"] != true, "store is true")
		r := t.send("GET", pathResponses+"/"+str(o, "id"), nil)
		t.that(r.status >= 400 && r.status < 500 || r.status == 501, "GET is %d", r.status)
	}},
	{"responses", "input_tokens", reference, "the prompt's tokens of the same request", func(t *trial) {
		r := t.offered(t.post(pathResponses+"/input_tokens", m{"model": t.Model, "input": "Say hi", "instructions": "Be brief."}))
		n := num(r.object(), "input_tokens")
		o := t.respond(m{"instructions": "Be brief."}).object()
		t.that(n > 0 && n == num(o, "usage", "input_tokens"), "%d, and the response has %d", n, num(o, "usage", "input_tokens"))
	}},
	{"responses", "what was asked is said", reference, "temperature, metadata, tools and instructions stand in the answer", func(t *trial) {
		o := t.respond(m{"metadata": m{"a": "b"}, "instructions": "Be brief."}).object()
		t.that(str(o, "metadata", "a") == "b", "metadata is %s", brief(o["metadata"]))
		t.that(str(o, "instructions") == "Be brief.", "instructions is %s", brief(o["instructions"]))
		t.that(has(o, "temperature") && o["temperature"] == 0.0, "temperature is %s", brief(o["temperature"]))
		t.that(has(o, "tools") && has(o, "tool_choice") && has(o, "parallel_tool_calls"), "tools, tool_choice or parallel_tool_calls is missing")
	}},
	{"responses", "what only other models can do", reference, "an error, not ignored", func(t *trial) {
		t.respond().object()
		for _, over := range []m{{"tools": []m{{"type": "web_search"}}}, {"input": []m{role("user", []m{{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}})}}} {
			t.post(pathResponses, with(m{"model": t.Model, "input": "Say hi", "max_output_tokens": 16}, over)).refused("%s", brief(over))
		}
	}},
	{"responses", "what cannot be", reference, "an error", func(t *trial) {
		t.respond().object()
		for _, over := range []m{{"input": drop}, {"input": 5}, {"temperature": "hot"}, {"max_output_tokens": -1}, {"input": []m{role("banana", "x")}}, {"text": m{"format": m{"type": "yaml"}}}} {
			t.post(pathResponses, with(m{"model": t.Model, "input": "Say hi", "max_output_tokens": 16}, over)).refused("%s", brief(over))
		}
	}},
}
