package openai

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// errInteger and the like are what a custom decoder says about a value; the
// field's path is added by [decodeError].
var (
	errInteger     = errors.New("must be an integer")
	errIntegerSize = errors.New("must be an integer within 64 bits")
	errStop        = errors.New("must be a string or an array of strings")
	errContent     = errors.New("must be a string or an array of content parts")
	errArguments   = errors.New("must be a string that holds a JSON object")
)

// maxExact is the largest magnitude below which every integer is a float64.
const maxExact = 1 << 53

// Int is an integer that may be written as a whole float (8.0), because several
// client languages have one number type. Plain integers never pass through a
// float: seeds use all 64 bits.
type Int int64

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (i *Int) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '0' {
		return skip(dec, errInteger)
	}
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	s := string(v)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		*i = Int(n)
		return nil
	}
	if !strings.ContainsAny(s, ".eE") {
		return errIntegerSize
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) {
		return errInteger
	}
	if math.Abs(f) >= maxExact {
		return errIntegerSize
	}
	*i = Int(f)
	return nil
}

// Stop is the stop parameter: one string or several.
type Stop []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *Stop) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*s = nil
	switch dec.PeekKind() {
	case 'n':
		return dec.SkipValue()
	case '"':
		var one string
		if err := json.UnmarshalDecode(dec, &one); err != nil {
			return err
		}
		*s = Stop{one}
		return nil
	case '[':
		return json.UnmarshalDecode(dec, (*[]string)(s))
	}
	return skip(dec, errStop)
}

// skip reads past the value, so that a syntax error in it is reported first.
func skip(dec *jsontext.Decoder, err error) error {
	if e := dec.SkipValue(); e != nil {
		return e
	}
	return err
}
