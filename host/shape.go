package host

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/dialect"
	"thoth/host/grammar"
	"thoth/host/openai"
	"thoth/station/wire"
)

// shape is what a request wants of its answers beyond plain text: the grammar
// that holds the model to it, and how what it writes is taken apart. The zero
// shape is plain text.
type shape struct {
	grammar string           // GBNF; "" leaves the model free
	dialect *dialect.Dialect // its parser takes the answers apart; nil: all text is content
	ask     dialect.Ask
	param   string // the parameter the grammar comes from, for the station's errors
}

// shape makes the shape of a request whose prompt is known. All that is wrong
// with a schema, an expression or a grammar is said here.
func (s *Server) shape(t *task, d *dialect.Dialect, prompt []wire.Segment) (shape, *openai.Error) {
	f := &t.format
	if f.Kind == openai.FormatGrammar {
		// It describes the answer as the model writes it, reasoning included.
		if err := grammar.Check(f.Text, s.o.Grammars); err != nil {
			return shape{}, grammarError(err, f.Param)
		}
		return shape{grammar: f.Text, param: f.Param}, nil
	}
	var out shape
	if len(t.tools) > 0 || d.Thinks {
		out.dialect = d
	}
	if len(t.tools) == 0 && f.Kind == openai.FormatText {
		out.ask.Tail = tail(prompt)
		return out, nil
	}
	out.param = cmp.Or(f.Param, "tools")
	out.ask = ask(t, tail(prompt))
	made, err := s.grammars.Get(shapeKey(d, &out.ask, f), func() (string, error) {
		b := grammar.NewBuilder(s.o.Grammars)
		a := out.ask
		var err error
		if a.Content, err = contentRule(b, f); err != nil {
			return "", &formatError{err}
		}
		rule, bound, err := d.Grammar(b, a)
		if err != nil || !bound {
			return "", err
		}
		return b.Build(rule)
	})
	var format *formatError
	switch {
	case errors.As(err, &format):
		return shape{}, grammarError(err, f.Param)
	case err != nil:
		return shape{}, toolsError(err, out.param)
	}
	out.grammar = made
	if f.Kind != openai.FormatText {
		out.ask.Content = someRule
	}
	return out, nil
}

// someRule stands for the content's rule in what the parser is asked: it wants to
// know only that there is one, and the rule itself belongs to a builder.
const someRule grammar.Rule = "content"

// parser takes one answer apart; nil when all of it is content.
func (s *shape) parser() dialect.Parser {
	if s.dialect == nil {
		return nil
	}
	return s.dialect.Parser(s.ask)
}

// apply puts the shape into the station's request of a choice.
func (s *shape) apply(q *wire.GenerateRequest) {
	q.Sampling.Grammar = s.grammar
	q.ControlText = s.dialect != nil && s.dialect.ControlText()
}

// named gives the station's error about a grammar the parameter it comes from.
func (s *shape) named(e *openai.Error) *openai.Error {
	if s.grammar != "" && e.Param != nil && *e.Param == openai.ParamGrammar {
		e.Param = &s.param
	}
	return e
}

// ask is what the request wants of the dialect, the content's rule apart.
func ask(t *task, tail string) dialect.Ask {
	a := dialect.Ask{Allowed: t.choice.Allowed, Parallel: t.parallel, Tail: tail}
	switch t.choice.Mode {
	case openai.ToolAuto:
		a.Mode = dialect.ModeAuto
	case openai.ToolRequired:
		a.Mode = dialect.ModeRequired
	}
	for _, t := range t.tools {
		a.Tools = append(a.Tools, dialect.Tool{Name: t.Name, Parameters: parameters(t.Parameters), Strict: t.Strict})
	}
	return a
}

// parameters completes the schema of a tool's arguments: one without a type is an
// object's all the same.
func parameters(schema jsontext.Value) jsontext.Value {
	if schema == nil || schemaType(schema) {
		return schema
	}
	rest := bytes.TrimSpace(schema)[1:]
	head := `{"type":"object",`
	if bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		head = `{"type":"object"`
	}
	return append([]byte(head), rest...)
}

// schemaType tells whether a schema has a type at its top.
func schemaType(schema jsontext.Value) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(schema))
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil || name.String() == "type" {
			return err == nil
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return false
}

// contentRule is the rule of the answer's text; "" leaves it free, so that a
// format never has it.
func contentRule(b *grammar.Builder, f *openai.Format) (grammar.Rule, error) {
	rule, err := formatRule(b, f)
	if rule != "" || err != nil || f.Kind == openai.FormatText {
		return rule, err
	}
	if _, err := b.Build(""); err != nil { // the builder remembers what it could not do
		return "", err
	}
	return "", &grammar.Error{Message: "only the empty text follows it"}
}

func formatRule(b *grammar.Builder, f *openai.Format) (grammar.Rule, error) {
	switch f.Kind {
	case openai.FormatObject:
		return b.Object(), nil
	case openai.FormatSchema:
		return b.Schema([]byte(f.Text))
	case openai.FormatRegex:
		return b.Regex(f.Text)
	case openai.FormatChoice:
		rules := make([]grammar.Rule, len(f.Choices))
		for i, text := range f.Choices {
			rules[i] = b.Literal(text)
		}
		return b.Choice(rules...), nil
	}
	return "", nil
}

// tailBytes is how much of the prompt's end tells what the template has done
// about the reasoning.
const tailBytes = 256

// tail is the end of the prompt: of the template's own last words where they are
// apart, so that no client's text is taken for them, and equal requests have
// equal tails.
func tail(prompt []wire.Segment) string {
	end := ""
	if n := len(prompt); n > 0 && prompt[n-1].Special {
		end = prompt[n-1].Text
	} else {
		end = text(prompt)
	}
	return strings.ToValidUTF8(end[max(0, len(end)-tailBytes):], "")
}

// shapeKey is of all that a grammar depends on.
func shapeKey(d *dialect.Dialect, a *dialect.Ask, f *openai.Format) string {
	h := sha256.New()
	number := func(n int) { _ = binary.Write(h, binary.LittleEndian, int64(n)) }
	write := func(text string) {
		number(len(text))
		h.Write([]byte(text))
	}
	flag := func(set bool) {
		if set {
			number(1)
		} else {
			number(0)
		}
	}
	write(d.Fingerprint())
	write(a.Tail)
	number(int(a.Mode))
	flag(a.Parallel)
	flag(a.Allowed != nil)
	number(len(a.Allowed))
	for _, i := range a.Allowed {
		number(i)
	}
	number(len(a.Tools))
	for _, t := range a.Tools {
		write(t.Name)
		flag(t.Strict)
		write(string(t.Parameters))
	}
	number(int(f.Kind))
	write(f.Text)
	number(len(f.Choices))
	for _, c := range f.Choices {
		write(c)
	}
	return string(h.Sum(nil))
}

// formatError is an error of the content's rule, not of the tools.
type formatError struct{ error }

func (e *formatError) Unwrap() error { return e.error }

// grammarError names the parameter and, below it, the place that cannot be
// enforced.
func grammarError(err error, param string) *openai.Error {
	var bad *grammar.Error
	if !errors.As(err, &bad) {
		return openai.NewError(openai.CodeInternal, "", "the grammar cannot be made: %s", err)
	}
	path := param
	if bad.Path != "" && !strings.HasPrefix(bad.Path, "[") {
		path += "."
	}
	return refused(path+bad.Path, bad)
}

// toolsError is of the tools, whose errors bring their own path, or of the whole,
// which the parameter stands for.
func toolsError(err error, param string) *openai.Error {
	var bad *grammar.Error
	if !errors.As(err, &bad) {
		return grammarError(err, param)
	}
	return refused(cmp.Or(bad.Path, param), bad)
}

func refused(path string, bad *grammar.Error) *openai.Error {
	code := openai.CodeUnsupported
	if path == "grammar" || path == "guided_regex" || path == "guided_choice" {
		code = openai.CodeInvalidValue // our own words, in which anything goes that is right
	}
	path = printable(path)
	if about(bad.Message) {
		return openai.NewError(code, path, "%s %s", path, strings.ToValidUTF8(bad.Message, "\ufffd"))
	}
	return openai.NewError(code, path, "%s cannot be enforced: %s", path, strings.ToValidUTF8(bad.Message, "\ufffd"))
}

// about tells whether what is wrong is said of the place, as "must be a number",
// and not in a sentence of its own.
func about(message string) bool {
	verb, _, _ := strings.Cut(message, " ")
	return slices.Contains([]string{"is", "has", "must", "can", "asks", "allows", "nests", "refers"}, verb)
}
