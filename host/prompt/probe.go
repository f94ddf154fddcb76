package prompt

import (
	"fmt"
	"slices"
	"strings"
)

// Texts of the probes: plain words no template would write or test for.
const (
	probeSystem = "probe-system-orchid"
	probeLate   = "probe-late-walnut"
	probeUser   = "probe-user-heron"
	probeReply  = "probe-reply-basalt"
	probeThink  = "probe-thought-cedar"
	probeTool   = "probe_tool_juniper"
	probeKey    = "probe_key_amber"
	probeArg    = "probe-argument-quartz"
	probeOther  = "probe-other-linden"
	probeListed = "probe_listed_alder"
	probeParam  = "probe_param_flint"
	probeResult = "probe-result-meadow"
	probeWord   = "probe-word-willow"
)

var (
	userProbe = Message{Role: User, Content: probeUser}
	toolProbe = Tool{Name: probeListed, Definition: []byte(`{"type":"function","function":{"name":"` + probeListed +
		`","description":"Probe","parameters":{"type":"object","properties":{"` + probeParam +
		`":{"type":"string","description":"Probe"}},"required":["` + probeParam + `"]}}}`)}
)

// prober renders made-up conversations.
type prober struct {
	*Template
	tools []Tool
}

func (p *prober) render(variables string, messages ...Message) (string, error) {
	r, err := p.renderer(Conversation{Messages: messages, Tools: p.tools, Variables: []byte(variables)})
	if err != nil {
		return "", err
	}
	return r.render(same)
}

// shows tells whether the rendering of messages holds all of want.
func (p *prober) shows(messages []Message, want ...string) bool {
	out, err := p.render("", messages...)
	return err == nil && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(out, w) })
}

// probe finds the abilities. A template that cannot show one user message is
// broken; everything else only lowers them.
func (t *Template) probe(text string) error {
	p := &prober{Template: t}
	out, err := p.render("", userProbe)
	if err != nil {
		return err
	}
	if !strings.Contains(out, probeUser) {
		return fmt.Errorf("it does not show the user's message")
	}
	reply := Message{Role: Assistant, Content: probeReply}
	system := Message{Role: System, Content: probeSystem}
	late := Message{Role: System, Content: probeLate}
	a := &t.Abilities
	a.System = p.shows([]Message{system, userProbe}, probeSystem, probeUser)
	a.ManySystems = a.System &&
		p.shows([]Message{system, late, userProbe}, probeSystem, probeLate, probeUser) &&
		p.shows([]Message{system, userProbe, reply, late, userProbe}, probeSystem, probeLate, probeReply)
	a.Efforts = p.words(text, "reasoning_effort", "none", "minimal", "low", "medium", "high", "xhigh")
	a.Verbosities = p.words(text, "verbosity", "low", "medium", "high")
	a.ThinkingSwitch = p.thinkingSwitch()

	p.tools = []Tool{toolProbe}
	if a.ToolList = p.shows([]Message{userProbe}, probeListed, probeParam, probeUser); !a.ToolList {
		p.tools = nil
	}
	if a.Tools = p.callStyle(); a.Tools && a.System {
		call, result := probeCall("call_probe1", probeArg)
		t.systemFades = !p.shows([]Message{system, userProbe, call, result}, probeSystem)
	}
	return nil
}

// words are the values of a variable, such as reasoning_effort, that make a
// difference: those the template names, and the three any model with the variable is
// trained on when it writes out what it is given.
func (p *prober) words(text, variable string, values ...string) []string {
	with := func(value string) string {
		out, err := p.render(`{"`+variable+`":"`+value+`"}`, userProbe)
		if err != nil {
			return ""
		}
		return out
	}
	quoted := func(s string) bool { return strings.Contains(text, `'`+s+`'`) || strings.Contains(text, `"`+s+`"`) }
	written := strings.Contains(with(probeWord), probeWord)
	var words []string
	renderings := map[string]bool{}
	for _, v := range values {
		usual := v == "low" || v == "medium" || v == "high"
		if out := with(v); out != "" && (quoted(v) || written && usual) {
			words = append(words, v)
			renderings[out] = true
		}
	}
	if plain, err := p.render("", userProbe); err == nil {
		renderings[plain] = true
	}
	if len(renderings) < 2 {
		return nil
	}
	return words
}

func (p *prober) thinkingSwitch() string {
	for _, name := range []string{"enable_thinking", "thinking"} {
		on, err1 := p.render(`{"`+name+`":true}`, userProbe)
		off, err2 := p.render(`{"`+name+`":false}`, userProbe)
		if err1 == nil && err2 == nil && on != off {
			return name
		}
	}
	return ""
}

// callStyle finds how the template wants calls; false when it shows them, or
// their results, in no way.
func (p *prober) callStyle() bool {
	best := 0
	var found callStyle
	for i := 0; i < 8 && best < 2; i++ {
		p.calls = callStyle{emptyContent: i&1 != 0, argumentsText: i&2 != 0, shortIDs: i&4 != 0}
		if score := p.scoreCalls(); score > best {
			best, found = score, p.calls
		}
	}
	if p.calls = found; best == 0 {
		return false
	}
	call, result := probeCall("call_probe1", probeArg)
	other, otherResult := probeCall("call_probe2", probeOther)
	both, spoken := call, call
	both.ToolCalls = slices.Concat(call.ToolCalls, other.ToolCalls)
	spoken.Content = probeReply
	// The conversation goes on after the calls: some templates count roles.
	shows := func(want string, turn ...Message) bool {
		turn = slices.Concat([]Message{userProbe}, turn, []Message{{Role: Assistant, Content: probeLate}, userProbe})
		return p.shows(turn, probeArg, want)
	}
	p.calls.single = !shows(probeOther, both, result, otherResult) && shows(probeOther, call, result, other, otherResult)
	p.calls.apart = !p.shows([]Message{userProbe, spoken, result}, probeReply, probeArg) &&
		shows(probeReply, Message{Role: Assistant, Content: probeReply}, call, result)

	thought, all := call, spoken
	thought.Reasoning, all.Reasoning = probeThink, probeThink
	p.calls.oneText = !p.calls.apart && shows("", thought, result) && !shows("", all, result)
	return true
}

// scoreCalls is 0 for calls that are not shown, and 2 for ones whose arguments
// can be read as they are: neither escaped in a string nor in Python's spelling.
func (p *prober) scoreCalls() int {
	call, result := probeCall("call_probe1", probeArg)
	out, err := p.render("", userProbe, call, result)
	switch {
	case err != nil:
		return 0
	case slices.ContainsFunc([]string{probeTool, probeKey, probeArg, probeResult}, func(w string) bool { return !strings.Contains(out, w) }):
		return 0
	case strings.Contains(out, `'`+probeKey+`'`), strings.Contains(out, `\"`+probeKey+`\"`):
		return 1
	}
	return 2
}

// probeCall is a call without text and its result.
func probeCall(id, argument string) (call, result Message) {
	return Message{Role: Assistant, ToolCalls: []ToolCall{{ID: id, Name: probeTool, Arguments: `{"` + probeKey + `": "` + argument + `"}`}}},
		Message{Role: ToolResult, Content: probeResult, ToolCallID: id, Name: probeTool}
}
