package openai

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of a body, unless [Limits] do, and that of a call's
// arguments: OpenAI's own requests stay below 16, JSON schemas included, and a
// recursive reader must not meet 20,000.
const maxDepth = 128

// maxNames bounds the names of one object, all of which the decoder keeps in order to
// find one that stands there twice.
const maxNames = 1 << 14

// DecodeChat decodes and validates a request body.
func DecodeChat(body []byte, l Limits) (*ChatRequest, *Error) {
	r := new(ChatRequest)
	if e := r.decode(body, l); e != nil {
		return nil, e
	}
	if err := r.validate(l); err != nil {
		return nil, err
	}
	return r, nil
}

// decode is what a chat's body and that of a prompt alone have in common.
func (r *ChatRequest) decode(body []byte, l Limits) *Error {
	parts := l.PartsBound()
	return decodeBody(body, l, r, ListOf[[]Message](&Bound{Most: l.WithDefaults().Messages}), ListOf[[]part](parts), ListOf[[]ToolCall](parts),
		ListOf[[]string](&Bound{Most: maxGuidedChoices}))
}

// decodeBody decodes a body that is not nested too deeply, and in which no object is
// too wide; lists are bounded beside those that every endpoint has.
func decodeBody(body []byte, l Limits, into any, lists ...List) *Error {
	l = l.WithDefaults()
	deepest, widest := extent(body)
	switch {
	case deepest > l.Depth:
		return NewError(CodeInvalidJSON, "", "the body is nested %d levels deep: at most %d are allowed", deepest, l.Depth)
	case widest > maxNames:
		return NewError(CodeInvalidJSON, "", "an object in the body has %d names: at most %d are allowed", widest, maxNames)
	}
	return decodeAt("", body, into, append(lists, ListOf[Stop](&Bound{Most: l.Stops}))...)
}

// extent is the deepest nesting of arrays and objects, and the most names that one of
// its objects has, without recursion and without trusting the text to be JSON. Objects
// are not counted below the depth that is allowed by default: they are refused, or
// their operator has wanted them.
func extent(b []byte) (deepest, widest int) {
	var names [maxDepth + 1]int // of the open object at each depth
	now := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			i += pastString(b[i+1:])
		case c == '{' || c == '[':
			if now++; now >= 0 && now < len(names) {
				names[now] = 0
			}
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		case c == ':' && now >= 0 && now < len(names):
			names[now]++
			widest = max(widest, names[now])
		}
	}
	return deepest, widest
}

// pastString is the length of a string after its opening quote: up to the quote that no
// backslash escapes, which is included, or up to the end of the text.
func pastString(b []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			return len(b)
		}
		at += quote
		escapes := 0
		for escapes < at && b[at-1-escapes] == '\\' {
			escapes++
		}
		if at++; escapes%2 == 0 {
			return at
		}
	}
}

// decodeAt decodes a part of the body that was kept as text; at is its path.
func decodeAt(at string, v jsontext.Value, into any, lists ...List) *Error {
	var options []json.Options
	if len(lists) > 0 {
		d := decodersOf(lists)
		defer d.giveBack()
		options = append(options, d.options)
	}
	if err := json.Unmarshal(v, into, options...); err != nil {
		return decodeError(at, err)
	}
	return nil
}

// decodeError words a decoder's error for the client: the field's path, below
// at, and what is allowed there. The library's own text never leaves.
func decodeError(at string, err error) *Error {
	var sem *json.SemanticError
	var syn *jsontext.SyntacticError
	// A syntax error met by one of our decoders comes wrapped in a semantic one.
	if errors.As(err, &syn) {
		path := below(at, syn.JSONPointer)
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return NewError(CodeInvalidJSON, path, "the name %q appears twice in one object", clip(path))
		case strings.Contains(syn.Error(), "UTF-8"), strings.Contains(syn.Error(), "surrogate"):
			return NewError(CodeInvalidJSON, path, "the text at byte %d is not valid Unicode: send UTF-8, and \\u surrogates in pairs", syn.ByteOffset)
		}
		return NewError(CodeInvalidJSON, path, "the body is not valid JSON (at byte %d)", syn.ByteOffset)
	}
	if errors.As(err, &sem) {
		path := below(at, sem.JSONPointer)
		var long tooMany
		if errors.As(err, &long) {
			return NewError(CodeInvalidValue, path, "%s %s", path, long)
		}
		for _, own := range []error{errInteger, errIntegerSize, errStop, errContent, errArguments, errPrompt} {
			if errors.Is(err, own) {
				return NewError(CodeInvalidType, path, "%s %s", path, own)
			}
		}
		if path == "" {
			return NewError(CodeInvalidType, "", "the body must be a JSON object, not %s", kindName(sem.JSONKind))
		}
		if sem.JSONKind == '0' && typeName(sem.GoType) == aNumber {
			return NewError(CodeInvalidValue, path, "%s is too large a number: at most %g, of either sign, is allowed in any parameter", path, math.MaxFloat64)
		}
		return NewError(CodeInvalidType, path, "%s must be %s, not %s", path, typeName(sem.GoType), kindName(sem.JSONKind))
	}
	return NewError(CodeInvalidJSON, "", "the body is not valid JSON")
}

// below writes a JSON pointer the way OpenAI names a parameter:
// messages[0].content. It starts at the path at.
func below(at string, p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(at)
	for tok := range p.Tokens() {
		if _, err := strconv.Atoi(tok); err == nil {
			fmt.Fprintf(&b, "[%s]", tok)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(tok)
	}
	return clip(b.String())
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	}
	return "another type"
}

const aNumber = "a number"

func typeName(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean (true or false)"
	case reflect.Float64, reflect.Float32:
		return aNumber
	case reflect.Int64, reflect.Int:
		return "an integer"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
