package host

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/anthropic"
	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/station/wire"
)

// routeMessages is Anthropic's; below it, errors have its form, and answers its header.
const routeMessages = "/v1/messages"

// headerAnthropicID is where Anthropic's clients look for the request's id.
const headerAnthropicID = "Request-Id"

// messages is POST /v1/messages.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, func(w http.ResponseWriter, e *openai.Error) { writeError(w, r, e) }, func(in *intake) (*job, sink, *openai.Error) {
		req, c, start, e := s.readMessages(r.Context(), in, false)
		if e != nil {
			return nil, nil, e
		}
		j, e := s.newChat(r.Context(), in, start, &task{stream: req.Stream, conversation: c, cache: req.Cache(), tools: req.Tools, choice: req.Choice,
			parallel: req.Parallel(), format: req.Format, prefill: req.Prefill, choices: 1, generate: req.Generate, param: messagesParam})
		if e != nil {
			return nil, nil, e
		}
		m := anthropic.NewMessage("msg_"+strings.ToLower(rand.Text()), in.view.names[0])
		if req.Stream {
			return j, newMessageStream(w, j, req, m, s.o.WriteTimeout), nil
		}
		return j, newMessageAnswer(w, j, req, m, s.o.WriteTimeout), nil
	})
}

// ofMessages tells whether a request is one of Anthropic's API.
func ofMessages(r *http.Request) bool {
	return r.URL.Path == routeMessages || strings.HasPrefix(r.URL.Path, routeMessages+"/")
}

// writeError answers with an error in the form of the request's API.
func writeError(w http.ResponseWriter, r *http.Request, e *openai.Error) {
	if ofMessages(r) {
		anthropic.WriteError(w, e, recordOf(r.Context()).id)
		return
	}
	openai.WriteError(w, e)
}

// countTokens is POST /v1/messages/count_tokens: the tokens of the prompt that these
// messages would make.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(ctx context.Context, in *intake) (any, *openai.Error) {
		req, c, _, e := s.readMessages(ctx, in, true)
		if e != nil {
			return nil, e
		}
		segments, _, e := render(in.view.template, c, false)
		if e == nil {
			e = in.view.mayContinue(req.Prefill, segments)
		}
		if e != nil {
			return nil, e
		}
		got, err := s.o.Station.Tokenize(ctx, &wire.TokenizeRequest{Prompt: wire.Prompt{Segments: withPrefill(segments, req.Prefill)}})
		if err != nil {
			return nil, s.textError(ctx, err, "messages")
		}
		return anthropic.Count{InputTokens: len(got.Tokens)}, nil
	})
}

// readMessages decodes a request of either and makes the conversation of it, which
// began at start.
func (s *Server) readMessages(ctx context.Context, in *intake, counting bool) (req *anthropic.Request, c prompt.Conversation, start time.Time, e *openai.Error) {
	if req, e = anthropic.Decode(in.body, in.limits, counting); e != nil {
		return nil, c, start, e
	}
	if e = s.admits(ctx, in.view, *req.Model, req.Cache()); e != nil {
		return nil, c, start, e
	}
	start = time.Now()
	c = req.Conversation
	c.Generic = in.view.dialect.Generic()
	c.Variables, e = in.view.thinking(req)
	return req, c, start, e
}

// thinking are the template variables for what the request says about reasoning. In
// this API a model does not reason unless it is asked to.
func (v *view) thinking(req *anthropic.Request) ([]byte, *openai.Error) {
	vars := map[string]jsontext.Value{}
	a := v.template.Abilities
	switch on := req.Thinks(); on {
	case "enabled":
		if !v.dialect.Thinks {
			return nil, openai.NewError(openai.CodeUnsupported, "thinking.type", "thinking.type is \"enabled\", and this model does not reason: leave thinking out")
		}
		if a.ThinkingSwitch != "" {
			vars[a.ThinkingSwitch] = jsontext.Value("true")
		}
	case "adaptive": // it is the model's choice
	default:
		name, value, ok := a.Effort(effortNone)
		if ok {
			vars[name] = jsontext.Value(value)
		} else if on != "" && v.dialect.Thinks {
			return nil, openai.NewError(openai.CodeUnsupported, "thinking.type", "thinking.type is \"disabled\", and this model always reasons: leave thinking out, or enable it")
		}
	}
	if effort := req.Effort(); effort != "" {
		name, value, ok := a.Effort(effort)
		if ok && effort != effortNone {
			vars[name] = jsontext.Value(value)
		} else if effort != "high" { // what Anthropic's models do by themselves
			return nil, openai.NewError(openai.CodeUnsupported, "output_config.effort", "output_config.effort is %q, which this model does not know: %s", printable(effort), v.efforts())
		}
	}
	if len(vars) == 0 {
		return nil, nil
	}
	b, _ := json.Marshal(vars, json.Deterministic(true))
	return b, nil
}

// messagesParam is Anthropic's name of a parameter.
func messagesParam(name string) string {
	switch name {
	case "stop":
		return "stop_sequences"
	case "chat_template_kwargs":
		return "thinking"
	}
	return strings.Replace(name, ".function.parameters", ".input_schema", 1)
}
