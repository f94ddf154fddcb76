package prompt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Abilities say what a template can show; they are measured, not declared.
type Abilities struct {
	System      bool // it has a system message at the head
	ManySystems bool // and further ones, also in the middle
	Tools       bool // it shows an assistant's tool calls and a tool's result
	ToolList    bool // it shows the tools a model may call

	// Efforts are the values of reasoning_effort that the template honours.
	Efforts []string
	// ThinkingSwitch is the boolean variable that turns reasoning off and on
	// (enable_thinking, thinking), or empty.
	ThinkingSwitch string
}

// NativeTools says that the template has its own format for tools, calls and
// results, and not the generic one.
func (a Abilities) NativeTools() bool { return a.ToolList && a.Tools }

// Effort is the template variable, and its JSON value, that stands for a
// reasoning_effort; not ok when the template knows none for it. "none" also
// means reasoning turned off by the template's switch.
func (a Abilities) Effort(effort string) (name, value string, ok bool) {
	switch {
	case slices.Contains(a.Efforts, effort):
		return "reasoning_effort", strconv.Quote(effort), true
	case effort == "none" && a.ThinkingSwitch != "":
		return a.ThinkingSwitch, "false", true
	}
	return "", "", false
}

// Texts of the probes: plain words no template would write or test for.
const (
	probeSystem = "probe-system-orchid"
	probeLate   = "probe-late-walnut"
	probeUser   = "probe-user-heron"
	probeReply  = "probe-reply-basalt"
	probeTool   = "probe_tool_juniper"
	probeArg    = "probe-argument-quartz"
	probeResult = "probe-result-meadow"
)

// probe renders made-up conversations. A template that cannot show one user
// message is broken; everything else only lowers the abilities.
func (t *Template) probe() (Abilities, error) {
	user := Message{Role: User, Content: probeUser}
	reply := Message{Role: Assistant, Content: probeReply}
	system := Message{Role: System, Content: probeSystem}
	late := Message{Role: System, Content: probeLate}

	out, err := t.render(Conversation{Messages: []Message{user}}, same, t.now())
	if err != nil {
		return Abilities{}, err
	}
	if !strings.Contains(out, probeUser) {
		return Abilities{}, fmt.Errorf("it does not show the user's message")
	}
	shows := func(messages []Message, want ...string) bool {
		out, err := t.render(Conversation{Messages: messages}, same, t.now())
		for _, w := range want {
			if err != nil || !strings.Contains(out, w) {
				return false
			}
		}
		return true
	}
	var a Abilities
	a.System = shows([]Message{system, user}, probeSystem, probeUser)
	a.ManySystems = a.System &&
		shows([]Message{system, late, user}, probeSystem, probeLate, probeUser) &&
		shows([]Message{system, user, reply, late, user}, probeSystem, probeLate, probeReply)
	call := Message{Role: Assistant, ToolCalls: []ToolCall{{ID: "abcdefghi", Name: probeTool, Arguments: `{"key":"` + probeArg + `"}`}}}
	result := Message{Role: ToolResult, Content: probeResult, ToolCallID: "abcdefghi", Name: probeTool}
	a.Tools = shows([]Message{user, call, result}, probeTool, probeArg, probeResult)
	return a, nil
}

// adapt rewrites a conversation for a template without some ability. What the
// client said is moved, never dropped.
func (a Abilities) adapt(in []Message) []Message {
	out := in
	if !a.Tools {
		out = toolsAsText(out)
	}
	if !a.ManySystems {
		out = systemsToHead(out)
	}
	if !a.System {
		out = systemIntoUser(out)
	}
	return out
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

// toolsAsText writes tool calls and results as ordinary text, since a result the
// model does not see is a result it invents. Results join the user message
// after them: many of these templates insist that roles alternate.
func toolsAsText(in []Message) []Message {
	var out []Message
	names := map[string]string{} // of tool calls, by id
	joined := false              // the last of out holds a result
	for _, m := range in {
		switch {
		case m.Role == Assistant && len(m.ToolCalls) > 0:
			var b strings.Builder
			b.WriteString(m.Content)
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Name
				if b.Len() > 0 {
					b.WriteByte('\n')
				}
				fmt.Fprintf(&b, "Call of the tool %s with the arguments %s", c.Name, c.Arguments)
			}
			m.Content, m.ToolCalls = b.String(), nil
			out, joined = append(out, m), false
		case m.Role == ToolResult:
			name := m.Name
			if name == "" {
				name = names[m.ToolCallID]
			}
			text := "Result of the tool"
			if name != "" {
				text += " " + name
			}
			text += ":\n"
			if joined {
				text = "\n\n" + text
			} else {
				out, joined = append(out, Message{Role: User}), true
			}
			last := &out[len(out)-1]
			last.join(text, nil)
			last.join(m.Content, m.Breakpoints)
		case m.Role == User && joined:
			last := &out[len(out)-1]
			last.join("\n\n", nil)
			last.join(m.Content, m.Breakpoints)
			joined = false
		default:
			out, joined = append(out, m), false
		}
	}
	return out
}

func same(s string) string { return s }
