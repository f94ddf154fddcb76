package openai

import (
	"errors"
	"fmt"
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

// DecodeChat decodes and validates a request body.
func DecodeChat(body []byte, l Limits) (*ChatRequest, *Error) {
	r := new(ChatRequest)
	if e := decodeBody(body, l, r); e != nil {
		return nil, e
	}
	if err := r.validate(l); err != nil {
		return nil, err
	}
	return r, nil
}

// decodeBody decodes a body that is not nested too deeply.
func decodeBody(body []byte, l Limits, into any, opts ...json.Options) *Error {
	if most, has := l.WithDefaults().Depth, depth(body); has > most {
		return NewError(CodeInvalidJSON, "", "the body is nested %d levels deep: at most %d are allowed", has, most)
	}
	return decodeAt("", body, into, opts...)
}

// depth is the deepest nesting of arrays and objects, without recursion and
// without trusting the text to be JSON.
func depth(b []byte) int {
	deepest, now, inString, escaped := 0, 0, false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inString:
			switch c {
			case '\\':
				escaped = true
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// decodeAt decodes a part of the body that was kept as text; at is its path.
func decodeAt(at string, v jsontext.Value, into any, opts ...json.Options) *Error {
	if err := json.Unmarshal(v, into, opts...); err != nil {
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
		for _, own := range []error{errInteger, errIntegerSize, errStop, errContent, errArguments, errPrompt} {
			if errors.Is(err, own) {
				return NewError(CodeInvalidType, path, "%s %s", path, own)
			}
		}
		if path == "" {
			return NewError(CodeInvalidType, "", "the body must be a JSON object, not %s", kindName(sem.JSONKind))
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
		return "a number"
	case reflect.Int64, reflect.Int:
		return "an integer"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
