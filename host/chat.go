package host

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/prompt"
)

// chat is POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, openai.WriteError, func(in *intake) (*job, sink, *openai.Error) {
		req, e := openai.DecodeChat(in.body, in.limits)
		if e != nil {
			return nil, nil, e
		}
		cache := req.Cache()
		if e := s.admits(r.Context(), in.view, *req.Model, cache); e != nil {
			return nil, nil, e
		}
		start := time.Now()
		c, e := in.view.conversation(req)
		if e != nil {
			return nil, nil, e
		}
		j, e := s.newChat(r.Context(), in, start, &task{stream: req.Stream, conversation: c, cache: cache, tools: req.Tools, choice: req.Choice,
			parallel: req.Parallel(), format: req.Format, choices: req.Choices(), generate: req.Generate})
		if e != nil {
			return nil, nil, e
		}
		head := openai.Head{ID: "chatcmpl-" + strings.ToLower(rand.Text()), Created: j.rec.arrived.Unix(), Model: in.view.names[0],
			Fingerprint: in.view.fingerprint, ServiceTier: req.Tier()}
		if req.Stream {
			return j, newStreamSink(w, j, req, head, s.o.WriteTimeout), nil
		}
		return j, newAnswerSink(w, j, req, head, s.o.WriteTimeout), nil
	})
}

// conversation is the request as the template's package wants it, its variables
// apart. developer is OpenAI's newer word for system, and templates know the older
// one. The tools are shown whatever tool_choice is: the prefix stays the same.
func conversation(req *openai.ChatRequest) prompt.Conversation {
	c := prompt.Conversation{Messages: make([]prompt.Message, len(req.Messages))}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, prompt.Tool{Name: t.Name, Definition: t.Definition})
	}
	for i, m := range req.Messages {
		p := prompt.Message{Role: *m.Role, Content: m.Content.Text, Name: m.Name, ToolCallID: m.ToolCallID, Breakpoints: m.Content.Breakpoints}
		if p.Role == string(openai.RoleDeveloper) {
			p.Role = prompt.System
		}
		if m.ReasoningContent != nil {
			p.Reasoning = *m.ReasoningContent
		}
		for _, t := range m.ToolCalls {
			p.ToolCalls = append(p.ToolCalls, prompt.ToolCall{ID: t.ID, Name: t.Function.Name, Arguments: string(t.Function.Arguments)})
		}
		c.Messages[i] = p
	}
	return c
}

// conversation is the request as the model's template is to render it.
func (v *view) conversation(req *openai.ChatRequest) (c prompt.Conversation, e *openai.Error) {
	c = conversation(req)
	c.Generic = v.dialect.Generic()
	c.Variables, e = v.variables(req)
	return c, e
}

// variables are the template variables of a request.
func (v *view) variables(req *openai.ChatRequest) ([]byte, *openai.Error) {
	if e := v.maySwitch(req.Switch, req.ReasoningEffort); e != nil {
		return nil, e
	}
	words, e := v.words(req.ReasoningEffort, req.Verbosity)
	if e != nil {
		return nil, e
	}
	if name := v.template.Abilities.ThinkingSwitch; name != "" && req.Switch != nil && req.Switch.On {
		words[name] = jsontext.Value("true")
	}
	return withWords(req.ChatTemplateKwargs, words), nil
}

// maySwitch refuses a switch that the model does not have. On without one asks for
// what a model that reasons does by itself; but of one whose efforts have a "none",
// nobody knows what it does without an effort.
func (v *view) maySwitch(s *openai.Switch, effort *string) *openai.Error {
	if s == nil {
		return nil
	}
	a := v.template.Abilities
	_, _, off := a.Effort(effortNone)
	why := ""
	switch {
	case !s.On && v.dialect.Thinks && !off:
		why = "this model always reasons: leave it out"
	case s.On && a.ThinkingSwitch == "" && !v.dialect.Thinks:
		why = "this model does not reason: leave it out"
	case s.On && a.ThinkingSwitch == "" && off && effort == nil:
		why = "this model has no switch for it: use reasoning_effort, where " + v.efforts()
	default:
		return nil
	}
	return openai.NewError(openai.CodeUnsupported, s.Param, "%s is %s, and %s", s.Param, s, why)
}

// withWords adds words to given variables. What is given wins: chat_template_kwargs
// says more than the parameters that words are made of.
func withWords(given jsontext.Value, words map[string]jsontext.Value) []byte {
	if string(given) == "null" {
		given = nil
	}
	if len(words) == 0 {
		return given
	}
	all := map[string]jsontext.Value{}
	if len(given) > 0 {
		if err := json.Unmarshal(given, &all); err != nil {
			return given // the renderer refuses it by name
		}
	}
	for name, value := range words {
		if _, set := all[name]; !set {
			all[name] = value
		}
	}
	b, _ := json.Marshal(all, json.Deterministic(true))
	return b
}

// words are the template variables for an effort and a verbosity, which are refused
// where the template does not know them, unless they ask for what the model does
// anyway.
func (v *view) words(effort, verbosity *string) (map[string]jsontext.Value, *openai.Error) {
	a, set := v.template.Abilities, map[string]jsontext.Value{}
	if effort != nil {
		name, value, ok := a.Effort(*effort)
		switch {
		case ok:
			set[name] = jsontext.Value(value)
		case *effort != effortNone || v.dialect.Thinks:
			return nil, openai.NewError(openai.CodeUnsupported, "reasoning_effort", "reasoning_effort is %q, which this model does not know: %s", *effort, v.efforts())
		}
	}
	if verbosity != nil {
		switch known := slices.Contains(a.Verbosities, *verbosity); {
		case known:
			set["verbosity"] = jsontext.Value(strconv.Quote(*verbosity))
		case *verbosity != verbosityMedium:
			return nil, openai.NewError(openai.CodeUnsupported, "verbosity", "verbosity is %q, which this model does not know: leave it out", *verbosity)
		}
	}
	return set, nil
}

const verbosityMedium = "medium" // what a model does by itself

const effortNone = "none"

// efforts says which values of reasoning_effort the model takes.
func (v *view) efforts() string {
	known := slices.Clone(v.template.Abilities.Efforts)
	if _, _, ok := v.template.Abilities.Effort(effortNone); !slices.Contains(known, effortNone) && (ok || !v.dialect.Thinks) {
		known = append(known, effortNone)
	}
	if len(known) == 0 {
		return "its reasoning cannot be set"
	}
	return "allowed are " + strings.Join(known, ", ")
}
