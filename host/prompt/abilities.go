package prompt

import (
	"slices"
	"strconv"
)

// Abilities say what a template can show; they are measured, not declared.
type Abilities struct {
	System      bool // it has a system message at the head
	ManySystems bool // and further ones, also in the middle
	Tools       bool // it shows an assistant's tool calls and a tool's result
	ToolList    bool // it shows the tools a model may call

	// Efforts are the values of reasoning_effort that the template honours.
	Efforts []string
	// Verbosities are the values of verbosity that the template honours.
	Verbosities []string
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
