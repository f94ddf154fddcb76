package compare

import (
	"maps"
	"slices"
)

// call is a call in a history.
func call(id, name, arguments string) m {
	return m{"id": id, "type": "function", "function": m{"name": name, "arguments": arguments}}
}

func tool(name string, properties m, required ...string) m {
	if required == nil {
		required = []string{}
	}
	return m{"type": "function", "function": m{"name": name, "description": "A tool.", "parameters": m{"type": "object", "properties": properties, "required": required, "additionalProperties": false}}}
}

var (
	weatherSchema = object(m{"city": m{"type": "string", "enum": []string{"Paris", "Oslo"}}})

	weather = tool("get_weather", m{"city": m{"type": "string", "enum": []string{"Paris", "Oslo"}}}, "city")
	clock   = tool("get_time", m{})
	tools   = m{"tools": []m{weather, clock}, "max_tokens": 200, "messages": user("What is the weather in Oslo?")}
)

// called wants a call where tool_choice forces one. Where it brings none in the case
// that is about it, the others are not shown.
func (t *trial) called(ok bool) {
	if ok {
		return
	}
	if t.asker.forces == nil {
		forces := len(list(t.chat(tools, m{"tool_choice": "required"}).value(), "choices", 0, "message", "tool_calls")) > 0
		t.asker.forces = &forces
	}
	t.needs(*t.asker.forces, "a call, and tool_choice required brings none")
	t.wrong("no call")
}

// call wants a call of an answer: arguments that are those of the tool.
func (t *trial) call(c any, finish string) (name string) {
	t.that(str(c, "id") != "" && str(c, "type") == "function", "the call is %s", brief(c))
	name = str(c, "function", "name")
	text, ok := at(c, "function", "arguments").(string)
	t.that(ok, "arguments is no string: %s", brief(at(c, "function", "arguments")))
	t.arguments(name, text, finish)
	return name
}

func (t *trial) arguments(name, text, finish string) {
	schema := object(m{})
	if name == "get_weather" {
		schema = weatherSchema
	}
	t.instance(schema, text, finish)
}

var toolCases = []Case{
	{"tools", "tool_choice required", "ggml-org/llama.cpp#27217", "at least one call, with arguments by the schema and finish_reason tool_calls", func(t *trial) {
		o := t.chat(tools, m{"tool_choice": "required"}).object()
		calls := list(choice(o, 0), "message", "tool_calls")
		t.that(len(calls) > 0, "no call")
		for _, c := range calls {
			t.call(c, finishOf(o))
		}
		t.that(finishOf(o) == "tool_calls" || finishOf(o) == "length", "finish_reason is %q", finishOf(o))
	}},
	{"tools", "tool_choice names a tool", "ollama/ollama#8421", "a call of that tool", func(t *trial) {
		r := t.chat(tools, m{"tool_choice": m{"type": "function", "function": m{"name": "get_time"}}})
		if r.status != 200 {
			t.offered(r).refused("a named tool")
			return
		}
		o := r.object()
		calls := list(choice(o, 0), "message", "tool_calls")
		t.called(len(calls) > 0)
		name := t.call(calls[0], finishOf(o))
		t.that(name == "get_time", "it calls %s", name)
	}},
	{"tools", "tool_choice names no tool", "google-ai-edge/LiteRT-LM#2471", "an error", func(t *trial) {
		t.chat(tools, m{"tool_choice": m{"type": "function", "function": m{"name": "no_such"}}}).refused("a tool that is not there")
		t.chat(m{"tool_choice": "required"}).refused("required without tools")
	}},
	{"tools", "tool_choice none", "ggml-org/llama.cpp PR 28806", "no call", func(t *trial) {
		o := t.chat(tools, m{"tool_choice": "none", "max_tokens": 40}).object()
		t.that(len(list(choice(o, 0), "message", "tool_calls")) == 0, "a call")
		t.that(finishOf(o) != "tool_calls", "finish_reason tool_calls")
	}},
	{"tools", "an unknown tool_choice", reference, "an error", func(t *trial) {
		for _, choice := range []any{"banana", 5} {
			t.chat(tools, m{"tool_choice": choice}).refused("tool_choice %v", choice)
		}
	}},
	{"tools", "streamed calls", "ollama/ollama#7881", "each opens with index, id, type and name; the pieces of arguments are JSON together", func(t *trial) {
		s := t.stream(tools, m{"tool_choice": "required"}).ended()
		type one struct{ id, name, arguments string }
		calls := map[int]*one{}
		for _, c := range s.choices(0) {
			for _, d := range list(c, "delta", "tool_calls") {
				t.that(whole(at(d, "index")), "a piece has no index: %s", brief(d))
				i := num(d, "index")
				if calls[i] == nil {
					t.that(str(d, "id") != "" && str(d, "type") == "function" && str(d, "function", "name") != "", "call %d opens with %s", i, brief(d))
					calls[i] = &one{id: str(d, "id"), name: str(d, "function", "name")}
				}
				_, text := at(d, "function", "arguments").(string)
				t.that(text || at(d, "function", "arguments") == nil, "arguments are %s", brief(at(d, "function", "arguments")))
				calls[i].arguments += str(d, "function", "arguments")
			}
		}
		finish := s.finish(0)
		t.called(len(calls) > 0)
		ids := map[string]bool{}
		for _, c := range calls {
			t.that(!ids[c.id], "two calls have the id %q", c.id)
			ids[c.id] = true
			t.arguments(c.name, c.arguments, finish)
		}
		t.that(finish == "tool_calls" || finish == "length", "finish_reason is %q", finish)
	}},
	{"tools", "parallel_tool_calls false", reference, "at most one call", func(t *trial) {
		o := t.chat(tools, m{"tool_choice": "required", "parallel_tool_calls": false, "messages": user("The weather in Oslo and in Paris, and the time.")}).object()
		n := len(list(choice(o, 0), "message", "tool_calls"))
		t.needs(n > 0, "a call")
		t.that(n == 1, "%d calls", n)
	}},
	{"tools", "a history with calls", "BerriAI/litellm PR 37792", "an answer that has seen the result", func(t *trial) {
		history := func(result string) []m {
			return []m{role("user", "The weather in Oslo?"), {"role": "assistant", "content": nil, "tool_calls": []m{call("call_1", "get_weather", `{"city":"Oslo"}`)}},
				{"role": "tool", "tool_call_id": "call_1", "content": result}}
		}
		short := num(t.chat(tools, m{"messages": history("4"), "max_tokens": 4}).object(), "usage", "prompt_tokens")
		long := num(t.chat(tools, m{"messages": history("4 degrees, rain, and a strong wind from the north west"), "max_tokens": 4}).object(), "usage", "prompt_tokens")
		t.that(long > short+5, "the result makes no difference to the prompt: %d and %d tokens", short, long)
	}},
	{"tools", "tools that are none", reference, "an error", func(t *trial) {
		t.refused(m{"tools": []m{{"type": "function"}}})
		t.refused(m{"tools": []m{{"type": "function", "function": m{"description": "no name"}}}})
		t.refused(m{"tools": []m{{"type": "web_search"}}})
		t.refused(m{"tools": "get_weather"})
	}},
}

func format(name string, schema any) m {
	return m{"response_format": m{"type": "json_schema", "json_schema": m{"name": name, "strict": true, "schema": schema}}}
}

func object(properties m) m {
	return m{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(properties)), "additionalProperties": false}
}

var mood = object(m{"mood": m{"type": "string", "enum": []string{"calm", "angry"}}, "level": m{"type": "integer"}})

var formatCases = []Case{
	{"structured output", "json_object", "ggml-org/llama.cpp#24096", "a JSON object, or the beginning of one where the cap ends it, also at temperature 1", func(t *trial) {
		for seed := range 4 {
			o := t.chat(m{"messages": user("Give status ok as JSON."), "response_format": m{"type": "json_object"}, "max_tokens": 100, "temperature": 1, "seed": seed}).object()
			t.instance(m{"type": "object"}, textOf(o), finishOf(o))
		}
	}},
	{"structured output", "json_schema", "ggml-org/llama.cpp#24097", "an instance of the schema, or the beginning of one where the cap ends it, also at temperature 1", func(t *trial) {
		for seed := range 4 {
			o := t.chat(format("mood", mood), m{"messages": user("How do you feel?"), "max_tokens": 100, "temperature": 1, "seed": seed}).object()
			t.instance(mood, textOf(o), finishOf(o))
		}
	}},
	{"structured output", "json_schema, streamed", reference, "the same in pieces", func(t *trial) {
		s := t.stream(format("mood", mood), m{"messages": user("How do you feel?"), "max_tokens": 100})
		t.instance(mood, s.text(0), s.finish(0))
	}},
	{"structured output", "cut by the cap", "ggml-org/llama.cpp#27279", "the beginning of an instance, with finish_reason length", func(t *trial) {
		over := m{"messages": user("How do you feel?"), "max_tokens": 3}
		o := t.chat(format("mood", mood), over).object()
		t.that(finishOf(o) == "length", "finish_reason is %q", finishOf(o))
		t.instance(mood, textOf(o), finishOf(o))
		s := t.stream(format("mood", mood), over)
		t.that(s.finish(0) == "length", "streamed: finish_reason is %q", s.finish(0))
		t.instance(mood, s.text(0), s.finish(0))
	}},
	{"structured output", "type text", reference, "an ordinary answer", func(t *trial) {
		t.that(textOf(t.chat(m{"response_format": m{"type": "text"}}).object()) != "", "no text")
	}},
	{"structured output", "unknown formats", "bkataru/igllama PR 81", "an error", func(t *trial) {
		t.refused(m{"response_format": m{"type": "yaml"}})
		t.refused(m{"response_format": "json"})
		t.refused(m{"response_format": m{"type": "json_schema"}})
	}},
	{"structured output", "a pattern that cannot be enforced", "ggml-org/llama.cpp#19051", "an error: here nothing is an instance", func(t *trial) {
		schema := object(m{"a": m{"type": "string", "pattern": "^(?=a)b$"}})
		r := t.chat(format("p", schema), m{"max_tokens": 60})
		if r.status == 200 {
			t.wrong("accepted, and the answer is %q", short(textOf(r.object()), 50)) // the pattern matches nothing
		}
		r.refused("a lookahead")
	}},
	{"structured output", "a schema that is none", "ikawrakow/ik_llama.cpp#778", "an error", func(t *trial) {
		for _, schema := range []any{5, m{"type": "object", "properties": m{"a": m{"$ref": "#/$defs/nowhere"}}, "required": []string{"a"}}, m{"type": "banana"}} {
			t.chat(format("n", schema)).refused("schema %s", brief(schema))
		}
	}},
	{"structured output", "bounds of a schema", "ggml-org/llama.cpp#23463", "minimum, maximum, length and pattern hold, or an error", func(t *trial) {
		schema := object(m{"n": m{"type": "integer", "minimum": 10, "maximum": 12}, "p": m{"type": "string", "pattern": "^[a-c]{2,3}$"},
			"s": m{"type": "string", "minLength": 2, "maxLength": 3}})
		r := t.chat(format("b", schema), m{"max_tokens": 100, "temperature": 1, "seed": 3})
		if r.status != 200 {
			r.refused("bounds")
			return
		}
		o := r.object()
		t.instance(schema, textOf(o), finishOf(o))
	}},
}
