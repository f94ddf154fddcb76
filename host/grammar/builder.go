package grammar

import "fmt"

// Rule is a GBNF expression that can stand anywhere in a rule's body: a rule's
// name, a literal, or a group in parentheses. The empty Rule matches nothing but
// the empty text.
type Rule string

// Error is a schema, expression or grammar that cannot be enforced.
type Error struct {
	Path    string // place in the schema as a JSON path below it, e.g. properties.mood.enum[3]; "" for the whole
	Message string // one sentence, without the path
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Message)
}

// Limits bound one grammar. The zero value of a field means its default.
type Limits struct {
	SchemaBytes int // of one schema, expression or grammar as the client sent it; default 64 KiB
	Depth       int // nesting of schemas; default 32
	Nodes       int // schemas visited, references followed once each included; default 2000
	Enum        int // values of one enum; default 1000
	Repeat      int // the largest bounded repetition: minItems, maxItems, {n,m}; default 1000
	Length      int // the largest minLength or maxLength; default 10,000
	GrammarSize int // bytes of the finished grammar; default 256 KiB, the station's own limit
}
