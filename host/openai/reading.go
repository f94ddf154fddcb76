package openai

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// What other shapes of the same requests (packages anthropic, responses) read and word the way
// this one does.

// Decode decodes a body that is not nested too deeply; the error names the field.
// Lists of it are bounded where they are given by [ListOf].
func Decode(body []byte, l Limits, into any, lists ...List) *Error {
	return decodeBody(body, l, into, lists...)
}

// DecodeAt decodes a part of a body that was kept as text; at is its path.
func DecodeAt(at string, v jsontext.Value, into any, lists ...List) *Error {
	return decodeAt(at, v, into, lists...)
}

// Present tells a field that was given from one that is absent or null.
func Present(v jsontext.Value) bool { return present(v) }

// KindName says what a value is, for an error message.
func KindName(v jsontext.Value) string { return kindName(v.Kind()) }

// Clip shortens a client's text for an error message.
func Clip(s string) string { return clip(s) }

// Validate checks the stop strings against the limits; param is what their
// endpoint calls them.
func (s Stop) Validate(param string, l Limits) *Error {
	e := s.validate(l.WithDefaults())
	if e != nil && param != "stop" {
		e = NewError(e.Code, param, "%s%s", param, e.Message[len("stop"):])
	}
	return e
}

// Validate checks the sampling against the limits.
func (r *Sampling) Validate(l Limits) *Error { return r.validate(l.WithDefaults()) }

// Validate checks what is said about the reuse of a prompt.
func (r *Caching) Validate() *Error { return r.validate() }

// MaxBreakpoints is the most places of a request that it may want kept.
const MaxBreakpoints = maxBreakpoints

// Validate checks a breakpoint at path.
func (b *CacheBreakpoint) Validate(path string) *Error { return b.validate(path) }

// Lifetime is the ttl of a validated breakpoint, 0 for none.
func (b *CacheBreakpoint) Lifetime() time.Duration { return lifetime(b.TTL) }

// CheckName checks the name of a function or schema at path.
func CheckName(path string, name *string) *Error { return checkName(path, name) }

// CheckParameters wants the schema of an object at path: arguments are one.
func CheckParameters(path string, v jsontext.Value) *Error { return checkParameters(path, v) }

// CheckArguments completes the arguments of a call at path, "" for none, and wants
// the text of a JSON object.
func CheckArguments(path string, arguments *string) *Error { return checkArguments(path, arguments) }

// SchemaFormat is the format of text that follows the schema at path.
func SchemaFormat(path string, v jsontext.Value) (Format, *Error) { return schemaOf(path, v) }
