package prompt

import "slices"

// callStyle is how a template wants an assistant's calls; it is found by
// probing, since templates of one language disagree on all of it.
type callStyle struct {
	argumentsText bool // arguments as their JSON text, not as an object
	emptyContent  bool // "" and not none for the content of a message without text
	shortIDs      bool // ids of nine letters and digits
	single        bool // one call a message: more are refused or left out
	apart         bool // text in a message before that of the calls, since beside them it is left out
	oneText       bool // content or reasoning beside calls, not both
}

// adapt rewrites a conversation for a template without some ability. What the
// client said is moved, never dropped; what a template leaves out itself (the
// reasoning of old turns, a text beside calls) stays its own affair.
func (t *Template) adapt(c Conversation) Conversation {
	native := t.Abilities.Tools && !c.Generic && (len(c.Tools) == 0 || t.Abilities.ToolList)
	explained := "" // the tools, where the template does not show them
	if hasTools(c.Messages) {
		c.Messages = namedResults(c.Messages)
		if native {
			c.Messages = t.calls.adapt(c.Messages)
		} else {
			c.Messages = genericCalls(c.Messages)
		}
	}
	if len(c.Tools) > 0 && !native {
		explained = genericList(c.Tools)
		c.Tools = nil
	}
	if !t.Abilities.ManySystems {
		c.Messages = systemsToHead(c.Messages)
	}
	if explained != "" {
		c.Messages = addToSystem(c.Messages, explained)
	}
	last := len(c.Messages) - 1
	if !t.Abilities.System || t.systemFades && last >= 0 && c.Messages[last].Role != User {
		c.Messages = systemIntoUser(c.Messages)
	}
	return c
}

func hasTools(in []Message) bool {
	return slices.ContainsFunc(in, func(m Message) bool { return m.Role == ToolResult || len(m.ToolCalls) > 0 })
}

// systemsToHead puts all system messages together as one at the head.
func systemsToHead(in []Message) []Message {
	head := Message{Role: System}
	systems := 0
	var rest []Message
	for _, m := range in {
		if m.Role != System {
			rest = append(rest, m)
			continue
		}
		if systems++; systems > 1 {
			head.join("\n\n", nil)
		}
		head.join(m.Content, m.Breakpoints)
	}
	if systems == 0 || (systems == 1 && in[0].Role == System) {
		return in
	}
	return append([]Message{head}, rest...)
}

// addToSystem puts text at the end of the first system message, or makes one.
func addToSystem(in []Message, text string) []Message {
	if len(in) == 0 || in[0].Role != System {
		return append([]Message{{Role: System, Content: text}}, in...)
	}
	out := slices.Clone(in)
	if out[0].Content != "" {
		text = "\n\n" + text
	}
	out[0].join(text, nil)
	return out
}

// systemIntoUser gives the system text to the first user message, the way the
// makers of models without a system role advise. It follows systemsToHead.
func systemIntoUser(in []Message) []Message {
	if len(in) == 0 || in[0].Role != System {
		return in
	}
	rest := in[1:]
	user := Message{Role: User, Content: in[0].Content, Breakpoints: in[0].Breakpoints}
	if len(rest) == 0 || rest[0].Role != User {
		return append([]Message{user}, rest...)
	}
	out := append([]Message(nil), rest...)
	if user.Content != "" {
		user.join("\n\n", nil)
		user.join(out[0].Content, out[0].Breakpoints)
		out[0].Content, out[0].Breakpoints = user.Content, user.Breakpoints
	}
	return out
}

// namedResults gives tool results the name of the function they come from, and
// puts the results after a message in the order of its calls: many templates
// show neither ids nor names, and then the order is all the model has.
func namedResults(in []Message) []Message {
	out := slices.Clone(in)
	names := map[string]string{} // of tool calls, by id
	for i := 0; i < len(out); i++ {
		for _, c := range out[i].ToolCalls {
			names[c.ID] = c.Name
		}
		if out[i].Role == ToolResult && out[i].Name == "" {
			out[i].Name = names[out[i].ToolCallID]
		}
	}
	for i, m := range out {
		if len(m.ToolCalls) < 2 {
			continue
		}
		place := func(r Message) int {
			return slices.IndexFunc(m.ToolCalls, func(c ToolCall) bool { return c.ID == r.ToolCallID })
		}
		results := resultsAt(out, i+1)
		if !slices.ContainsFunc(results, func(r Message) bool { return place(r) < 0 }) {
			slices.SortStableFunc(results, func(a, b Message) int { return place(a) - place(b) })
		}
	}
	return out
}

// resultsAt is the run of tool results that begins at i.
func resultsAt(messages []Message, i int) []Message {
	end := i
	for end < len(messages) && messages[end].Role == ToolResult {
		end++
	}
	return messages[i:end]
}

// adapt rewrites messages with calls for a template that shows calls.
func (s callStyle) adapt(in []Message) []Message {
	if !s.single && !s.apart && !s.oneText {
		return in
	}
	var out []Message
	for i := 0; i < len(in); i++ {
		m := in[i]
		if len(m.ToolCalls) == 0 {
			out = append(out, m)
			continue
		}
		if s.apart && m.Content != "" {
			out = append(out, Message{Role: m.Role, Content: m.Content, Breakpoints: m.Breakpoints})
			m.Content, m.Breakpoints = "", nil
		}
		if s.oneText && m.Content != "" && m.Reasoning != "" {
			m.Reasoning += "\n\n" + m.Content
			m.Content, m.Breakpoints = "", nil
		}
		if !s.single || len(m.ToolCalls) == 1 {
			out = append(out, m)
			continue
		}
		results := resultsAt(in, i+1)
		i += len(results)
		calls := m.ToolCalls
		for j, c := range calls {
			m.ToolCalls = []ToolCall{c}
			out = append(out, m)
			m = Message{Role: m.Role}
			// Results that belong to no call here stay together at the end.
			for len(results) > 0 && (j == len(calls)-1 || results[0].ToolCallID == c.ID) {
				out, results = append(out, results[0]), results[1:]
			}
		}
	}
	return out
}
