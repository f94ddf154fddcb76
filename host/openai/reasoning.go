package openai

import "github.com/go-json-experiment/json/jsontext"

// Reasoning is reasoning_effort as an object.
type Reasoning struct {
	Effort  *string        `json:"effort"`
	Enabled *bool          `json:"enabled"`
	Rest    jsontext.Value `json:",embed"`
}

// Thinking is enable_thinking as an object.
type Thinking struct {
	Type *string        `json:"type"` // enabled, disabled
	Rest jsontext.Value `json:",embed"`
}

// Switch turns a model's reasoning on or off.
type Switch struct {
	Param string // the parameter that said so
	On    bool
}

const (
	effortNone       = "none"
	thinkingEnabled  = "enabled"
	thinkingDisabled = "disabled"
)

// validateReasoning brings the names of the effort together, and those of the switch,
// off being an effort of none: what a request says twice it must say alike, since one
// of the two would be dropped.
func (r *ChatRequest) validateReasoning() *Error {
	param, e := r.readEffort()
	if e != nil {
		return e
	}
	if e := r.readSwitch(); e != nil || r.Switch == nil {
		return e
	}
	if effort := r.ReasoningEffort; effort != nil && r.Switch.On == (*effort == effortNone) {
		return NewError(CodeInvalidValue, r.Switch.Param, "%s (%s) and %s (%s) differ: give one of them", r.Switch.Param, r.Switch, param, *effort)
	}
	if !r.Switch.On {
		r.ReasoningEffort = new(effortNone)
	}
	return nil
}

// readEffort reads both names of the effort, and tells under which it was given.
func (r *ChatRequest) readEffort() (param string, e *Error) {
	const plain, nested = "reasoning_effort", "reasoning.effort"
	efforts := []string{effortNone, "minimal", "low", "medium", "high", "xhigh"}
	if e := oneOf(plain, r.ReasoningEffort, efforts...); e != nil || r.Reasoning == nil || r.Reasoning.Effort == nil {
		return plain, e
	}
	effort := r.Reasoning.Effort
	if e := oneOf(nested, effort, efforts...); e != nil {
		return nested, e
	}
	if r.ReasoningEffort != nil && *r.ReasoningEffort != *effort {
		return nested, NewError(CodeInvalidValue, nested, "%s (%s) and %s (%s) differ: give one of them", nested, *effort, plain, *r.ReasoningEffort)
	}
	r.ReasoningEffort = effort
	return nested, nil
}

// readSwitch reads all names of the switch.
func (r *ChatRequest) readSwitch() *Error {
	var typed, nested *bool
	if t := r.Thinking; t != nil {
		if t.Type == nil {
			return NewError(CodeMissing, "thinking.type", "thinking.type is missing: allowed are %s and %s", thinkingEnabled, thinkingDisabled)
		}
		if e := oneOf("thinking.type", t.Type, thinkingEnabled, thinkingDisabled); e != nil {
			return e
		}
		typed = new(*t.Type == thinkingEnabled)
	}
	if r.Reasoning != nil {
		nested = r.Reasoning.Enabled
	}
	for _, f := range []struct {
		param string
		on    *bool
	}{{"enable_thinking", r.EnableThinking}, {"think", r.Think}, {"thinking.type", typed}, {"reasoning.enabled", nested}} {
		if f.on == nil {
			continue
		}
		s := &Switch{Param: f.param, On: *f.on}
		if r.Switch != nil && r.Switch.On != s.On {
			return NewError(CodeInvalidValue, s.Param, "%s (%s) and %s (%s) differ: give one of them", s.Param, s, r.Switch.Param, r.Switch)
		}
		if r.Switch == nil {
			r.Switch = s
		}
	}
	return nil
}

// String is the value as its parameter has it.
func (s *Switch) String() string {
	switch {
	case s.Param != "thinking.type" && s.On:
		return "true"
	case s.Param != "thinking.type":
		return "false"
	case s.On:
		return thinkingEnabled
	}
	return thinkingDisabled
}
