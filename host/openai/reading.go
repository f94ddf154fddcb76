package openai

import "github.com/go-json-experiment/json/jsontext"

// What other shapes of the same requests (package anthropic) read and word the way
// this one does.

// Decode decodes a body that is not nested too deeply; the error names the field.
func Decode(body []byte, l Limits, into any) *Error { return decodeBody(body, l, into) }

// DecodeAt decodes a part of a body that was kept as text; at is its path.
func DecodeAt(at string, v jsontext.Value, into any) *Error { return decodeAt(at, v, into) }

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
