package dialect

import (
	"errors"
	"fmt"

	"thoth/host/grammar"
)

// maxCalls bounds the calls of an answer whose grammar writes them.
const maxCalls = 16

// Grammar is the rule that makes an answer what the request asks for. It is not
// bound, and there is no rule, when any answer will do. An error is an
// [*grammar.Error] whose path begins at the request's root.
//
// Where a grammar binds calls, a tool's arguments follow its schema. A schema
// that cannot be enforced is an error when the choice is required or the tool is
// strict; else the arguments are any JSON object.
func (d *Dialect) Grammar(b *grammar.Builder, ask Ask) (rule grammar.Rule, bound bool, err error) {
	callable := len(ask.callable()) > 0
	if ask.Mode == ModeRequired && !callable {
		return "", false, &grammar.Error{Path: "tool_choice", Message: "asks for a call, but there is no tool that may be called"}
	}
	if !ask.bindsCalls() && ask.Content == "" && (callable || len(ask.Tools) == 0 || len(d.Markers()) == 0) {
		return "", false, nil
	}
	var tools []callee
	if ask.bindsCalls() {
		if tools, err = ask.callees(b); err != nil {
			return "", false, err
		}
	}
	most := maxCalls
	if !ask.Parallel || d.single {
		most = 1
	}
	if d.harmony {
		rule, err = harmonyAnswer(b, ask, tools)
		return rule, err == nil, err
	}
	var calls grammar.Rule
	if len(tools) > 0 {
		if calls, err = d.write.calls(b, tools, most); err != nil {
			return "", false, err
		}
		calls = b.Rule("calls", calls)
	}
	how := d.think.opening(ask.Tail)
	switch {
	case ask.Mode == ModeRequired:
		rule = calls
	case ask.Content != "" && calls != "":
		rule = b.Choice(ask.Content, calls)
	case ask.Content != "":
		rule = ask.Content
	default:
		return d.reasoned(b, how, d.text(b, how, calls), true), true, nil
	}
	return d.reasoned(b, how, rule, false), true, nil
}

// reasoned is the answer with the reasoning before it. White space follows the
// reasoning, unless the answer is text, whose own it is.
func (d *Dialect) reasoned(b *grammar.Builder, how opening, answer grammar.Rule, text bool) grammar.Rule {
	if how == closed {
		return answer
	}
	then := answer
	if !text {
		then = b.Sequence(b.Repeat(b.Literal("\n"), 0, 2), answer)
	}
	reasoning := b.Rule("reasoning", b.Until(grammar.Mark{Marker: d.think.close, Then: then}))
	if how == byModel {
		return b.Choice(b.Sequence(b.Literal(d.think.open), reasoning), answer)
	}
	return reasoning
}

// text is free text, and calls behind it if there are any. A marker in it would
// open a block, and so would a { at its head where calls are bare.
func (d *Dialect) text(b *grammar.Builder, how opening, calls grammar.Rule) grammar.Rule {
	markers := d.openers()
	if how == byModel {
		markers = append(markers, d.think.open)
	}
	free := b.Without(markers...)
	if d.bare == nil {
		return b.Sequence(free, b.Choice("", calls))
	}
	head, err := b.Regex(`[ \t\r\n]*([^{< \t\r\n]|<[^|<])`)
	if err != nil {
		return ""
	}
	return b.Choice("", b.Sequence(head, free), calls)
}

// callee is a tool that may be called.
type callee struct {
	*Tool
	index int
	must  bool           // its schema has to be enforced
	root  *grammar.Place // of its parameters, nil if there are none
	free  bool           // nothing of the schema is enforced: it is beyond the limits
}

func (a Ask) callees(b *grammar.Builder) ([]callee, error) {
	var out []callee
	for _, i := range a.callable() {
		c := callee{Tool: &a.Tools[i], index: i, must: a.Mode == ModeRequired || a.Tools[i].Strict}
		if len(c.Parameters) > 0 {
			d, err := b.Document(c.Parameters)
			switch {
			case err == nil:
				c.root = d.Root()
			case c.must:
				return nil, c.placed(err)
			default:
				c.root, c.free = readParameters(c.Parameters), true
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// path is a place in the request below the tool's parameters.
func (c callee) path(below string) string {
	path := fmt.Sprintf("tools[%d].function.parameters", c.index)
	if below != "" && below[0] != '[' {
		path += "."
	}
	return path + below
}

func (c callee) refuse(at *grammar.Place, format string, args ...any) error {
	return &grammar.Error{Path: c.path(at.Path()), Message: fmt.Sprintf(format, args...)}
}

// placed gives an error of the parameters' schema its place in the request.
func (c callee) placed(err error) error {
	var at *grammar.Error
	if errors.As(err, &at) {
		return &grammar.Error{Path: c.path(at.Path), Message: at.Message}
	}
	return err
}

// rule is JSON that is valid under the schema at a place. Where that need not be,
// otherwise stands in.
func (c callee) rule(at *grammar.Place, otherwise func() grammar.Rule) (grammar.Rule, error) {
	if c.free {
		return otherwise(), nil
	}
	rule, err := at.Rule()
	switch {
	case err == nil:
		return rule, nil
	case c.must:
		return "", c.placed(err)
	}
	return otherwise(), nil
}

// arguments is the rule of all arguments as one JSON object.
func (c callee) arguments(b *grammar.Builder) (grammar.Rule, error) {
	if len(c.Parameters) == 0 {
		return b.Literal("{}"), nil
	}
	return c.rule(c.root, b.Object)
}

// A writer makes the rule of one call or up to most calls.
type writer interface {
	calls(b *grammar.Builder, tools []callee, most int) (grammar.Rule, error)
}

// each is the rule of a row of calls of any of the tools.
func each(b *grammar.Builder, tools []callee, most int, between string, one func(c callee) (grammar.Rule, error)) (grammar.Rule, error) {
	var any []grammar.Rule
	for _, c := range tools {
		rule, err := one(c)
		if err != nil {
			return "", err
		}
		any = append(any, b.Rule("call-"+c.Name, rule))
	}
	call := b.Choice(any...)
	return b.Sequence(call, b.Repeat(b.Sequence(b.Literal(between), call), 0, most-1)), nil
}

// listWriter writes calls whose arguments are a JSON object.
type listWriter struct {
	open, close   string // of the block
	before, after string // each call
	between       string
	call          func(name string) (head, tail string)
	id            bool // an id of nine letters and digits may follow the arguments
}

// named is a call as a JSON object.
func named(key string) func(name string) (head, tail string) {
	return func(name string) (string, string) {
		return `{"name": ` + quote(name) + `, "` + key + `": `, "}"
	}
}

func (w listWriter) calls(b *grammar.Builder, tools []callee, most int) (grammar.Rule, error) {
	calls, err := each(b, tools, most, w.between, func(c callee) (grammar.Rule, error) {
		arguments, err := c.arguments(b)
		if err != nil {
			return "", err
		}
		head, tail := w.call(c.Name)
		var id grammar.Rule
		if w.id {
			nine, err := b.Regex("[a-zA-Z0-9]{9}")
			if err != nil {
				return "", err
			}
			id = b.Choice("", b.Sequence(b.Literal(`, "id": "`), nine, b.Literal(`"`)))
		}
		return b.Sequence(b.Literal(w.before+head), arguments, id, b.Literal(tail+w.after)), nil
	})
	return b.Sequence(b.Literal(w.open), calls, b.Literal(w.close)), err
}

// harmonyAnswer is gpt-oss's: reasoning and announcements, then the text or one
// call, which ends the answer.
func harmonyAnswer(b *grammar.Builder, ask Ask, tools []callee) (grammar.Rule, error) {
	// No text has a mark in it but the one that ends it.
	next := b.Literal(harmonyEnd + harmonyStart + "assistant")
	body := b.Without(harmonyStart, harmonyChannel, harmonyMessage, harmonyEnd)
	message := func(channel string) grammar.Rule {
		return b.Sequence(b.Literal(harmonyChannel+channel+harmonyMessage), body, next)
	}
	before := []grammar.Rule{message("analysis")}
	var ends []grammar.Rule
	if ask.Mode != ModeRequired {
		text := ask.Content
		if text == "" {
			text = body
			before = append(before, message("commentary"))
		}
		ends = append(ends, b.Sequence(b.Literal(harmonyChannel+"final"),
			b.Choice("", b.Literal(" "+harmonyConstrain+"json")), b.Literal(harmonyMessage), text))
	}
	for _, c := range tools {
		arguments, err := c.arguments(b)
		if err != nil {
			return "", err
		}
		to := harmonyCall + c.Name
		head := b.Choice(
			b.Literal(harmonyChannel+"commentary "+to+" "+harmonyConstrain+"json"+harmonyMessage),
			b.Literal(" "+to+harmonyChannel+"commentary json"+harmonyMessage),
			b.Literal(" "+to+harmonyChannel+"commentary "+harmonyConstrain+"json"+harmonyMessage),
		)
		ends = append(ends, b.Rule("call-"+c.Name, b.Sequence(head, arguments)))
	}
	return b.Sequence(b.Repeat(b.Choice(before...), 0, 8), b.Choice(ends...)), nil
}
