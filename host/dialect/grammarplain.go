package dialect

import (
	"regexp"
	"slices"
	"strings"

	"thoth/host/grammar"
)

// The formats that are not JSON write each argument by itself, so their grammars
// take a tool's schema apart: an object with properties is what they can enforce.
// A text without quotes follows its schema only if that allows every text or
// lists them; anything else of texts is refused.

// property is an argument of a tool.
type property struct {
	name     string
	at       *grammar.Place
	schema   schema // at that place, or where it refers to
	required bool
}

// properties are a tool's arguments, in the schema's order.
func (c callee) properties(key func(name string) bool) ([]property, error) {
	if c.root == nil {
		return nil, nil
	}
	s := newSchema(c.root)
	for _, word := range s.Names() {
		switch {
		case annotation(word), word == "type", word == "properties", word == "required", word == "additionalProperties", word == "strict":
		case c.must:
			return nil, c.refuse(s.Member(word), "this model writes arguments one by one; with tool_choice or strict, allowed beside them are type, properties, required and additionalProperties")
		}
	}
	if types := s.types(); c.must && !slices.Equal(types, []string{"object"}) && len(types) > 0 {
		return nil, c.refuse(s.Member("type"), "must be object: a function's arguments are one")
	}
	return c.members(s, key)
}

// members are the properties of an object's schema.
func (c callee) members(s schema, key func(name string) bool) ([]property, error) {
	var out []property
	required := map[string]bool{}
	for _, name := range s.required() {
		required[name] = true
	}
	declared := s.Member("properties")
	for _, name := range declared.Names() {
		at := declared.Member(name)
		if !key(name) {
			if required[name] && c.must {
				return nil, c.refuse(at, "this model cannot write an argument of this name")
			}
			continue
		}
		out = append(out, property{name, at, newSchema(at), required[name]})
	}
	for _, name := range s.required() {
		if declared.Member(name) == nil && c.must {
			return nil, c.refuse(s.Member("required"), "names %s, which properties does not declare", name)
		}
	}
	return out, nil
}

// joined is the rule of arguments in a row with a separator between them, the
// optional ones or not.
func joined(b *grammar.Builder, items []grammar.Rule, required []bool, separator string) grammar.Rule {
	first, rest := grammar.Rule(""), grammar.Rule("")
	for i := len(items) - 1; i >= 0; i-- {
		begun := b.Sequence(items[i], rest)
		more := b.Sequence(b.Literal(separator), begun)
		if required[i] {
			first, rest = begun, more
		} else {
			first, rest = b.Choice(first, begun), b.Choice(rest, more)
		}
	}
	return first
}

// rawText is the rule of a text that stands without quotes before an end mark;
// exclude is what else may not be in it. It is not ok when the schema says more
// of texts than this can.
func rawText(b *grammar.Builder, s schema, exclude ...string) (rule grammar.Rule, ok bool) {
	if s.plain() {
		return b.Without(exclude...), true
	}
	if !slices.Equal(s.types(), []string{"string"}) {
		return "", false
	}
	var texts []grammar.Rule
	for _, value := range s.literals() {
		text := value.Text()
		if text != strings.Trim(text, "\n") || slices.ContainsFunc(exclude, func(mark string) bool { return strings.Contains(text, mark) }) {
			return "", false
		}
		texts = append(texts, b.Literal(text))
	}
	for _, word := range s.Names() {
		if !annotation(word) && word != "type" && word != "enum" && word != "const" {
			return "", false
		}
	}
	if len(texts) == 0 {
		return "", false
	}
	return b.Choice(texts...), true
}

// taggedWriter writes calls with a tag around each argument.
type taggedWriter struct {
	form                 tagForm
	before, name, after  string // around a call's name, and behind its arguments
	valueOpen, valueShut string // between a key's tag and its value, and behind the value
}

func (w taggedWriter) calls(b *grammar.Builder, tools []callee, most int) (grammar.Rule, error) {
	writable := func(name string) bool {
		return name != "" && name == strings.TrimSpace(name) && !strings.ContainsAny(name, "<>\n\x00")
	}
	return each(b, tools, most, "\n", func(c callee) (grammar.Rule, error) {
		properties, err := c.properties(writable)
		if err != nil {
			return "", err
		}
		parts := []grammar.Rule{b.Literal(w.before + c.Name + w.name)}
		for _, p := range properties {
			value, err := w.value(b, c, p)
			if err != nil {
				return "", err
			}
			argument := b.Sequence(b.Literal(w.form.key+p.name+w.form.keyEnd+w.valueOpen), value, b.Literal(w.valueShut))
			if !p.required {
				argument = b.Choice("", argument)
			}
			parts = append(parts, argument)
		}
		return b.Sequence(append(parts, b.Literal(w.after))...), nil
	})
}

func (w taggedWriter) value(b *grammar.Builder, c callee, p property) (grammar.Rule, error) {
	types := p.schema.types()
	if len(types) > 0 && !slices.Contains(types, "string") {
		return c.rule(p.at, b.Value)
	}
	rule, ok := rawText(b, p.schema, w.form.valueEnd)
	switch {
	case ok:
		return rule, nil
	case c.must:
		return "", c.refuse(p.at, "this model writes texts without quotes; with tool_choice or strict, allowed for them are type, and enum or const of texts alone")
	}
	return b.Without(w.form.valueEnd), nil
}

// pythonWriter writes calls as Python does, with the values in JSON.
type pythonWriter struct{}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (pythonWriter) calls(b *grammar.Builder, tools []callee, most int) (grammar.Rule, error) {
	calls, err := each(b, tools, most, "\n", func(c callee) (grammar.Rule, error) {
		properties, err := c.properties(identifier.MatchString)
		if err != nil {
			return "", err
		}
		var items []grammar.Rule
		var required []bool
		for _, p := range properties {
			value, err := c.rule(p.at, b.Value)
			if err != nil {
				return "", err
			}
			items = append(items, b.Sequence(b.Literal(p.name+"="), value))
			required = append(required, p.required)
		}
		return b.Sequence(b.Literal(c.Name+"("), joined(b, items, required, ", "), b.Literal(")")), nil
	})
	return b.Sequence(b.Literal(olmoCalls), calls, b.Literal(olmoCallsEnd)), err
}

// gemmaWriter writes functiongemma's calls. Its template sorts arguments by name,
// so the model does too.
type gemmaWriter struct{}

func (w gemmaWriter) calls(b *grammar.Builder, tools []callee, most int) (grammar.Rule, error) {
	return each(b, tools, most, "", func(c callee) (grammar.Rule, error) {
		properties, err := c.properties(identifier.MatchString)
		if err != nil {
			return "", err
		}
		arguments, err := w.members(b, c, properties, 0)
		return b.Sequence(b.Literal(gemmaCall+"call:"+c.Name+"{"), arguments, b.Literal("}"+gemmaCallEnd)), err
	})
}

func (w gemmaWriter) members(b *grammar.Builder, c callee, properties []property, depth int) (grammar.Rule, error) {
	slices.SortStableFunc(properties, func(x, y property) int { return strings.Compare(x.name, y.name) })
	var items []grammar.Rule
	var required []bool
	for _, p := range properties {
		value, err := w.value(b, c, p, depth)
		if err != nil {
			return "", err
		}
		items = append(items, b.Sequence(b.Literal(p.name+":"), value))
		required = append(required, p.required)
	}
	return joined(b, items, required, ","), nil
}

func (w gemmaWriter) value(b *grammar.Builder, c callee, p property, depth int) (grammar.Rule, error) {
	text := func(rule grammar.Rule) grammar.Rule {
		return b.Sequence(b.Literal(gemmaEscape), rule, b.Literal(gemmaEscape))
	}
	types := p.schema.types()
	only := func(allowed ...string) bool {
		return !slices.ContainsFunc(p.schema.Names(), func(word string) bool {
			return !annotation(word) && word != "type" && !slices.Contains(allowed, word)
		})
	}
	if len(types) == 0 || slices.Contains(types, "string") {
		if rule, ok := rawText(b, p.schema, gemmaEscape); ok {
			return text(rule), nil
		}
	} else if len(types) == 1 && depth < 8 {
		switch types[0] {
		case "integer", "number", "boolean":
			return c.rule(p.at, func() grammar.Rule { return text(b.Without(gemmaEscape)) })
		case "array":
			if items := p.schema.Member("items"); items != nil && only("items") {
				item, err := w.value(b, c, property{at: items, schema: newSchema(items)}, depth+1)
				return b.Sequence(b.Literal("["), b.Choice("", b.Sequence(item, b.Repeat(b.Sequence(b.Literal(","), item), 0, -1))), b.Literal("]")), err
			}
		case "object":
			if only("properties", "required", "additionalProperties") {
				properties, err := c.members(p.schema, identifier.MatchString)
				if err != nil {
					return "", err
				}
				members, err := w.members(b, c, properties, depth+1)
				return b.Sequence(b.Literal("{"), members, b.Literal("}")), err
			}
		}
	}
	if c.must {
		return "", c.refuse(p.at, "this model writes values in a format of its own; with tool_choice or strict, allowed are texts, also an enum of them, numbers, booleans, and arrays and objects of these")
	}
	return text(b.Without(gemmaEscape)), nil
}
