package openai

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// wireForm is how answers are written: absent lists and objects are null, as
// encoding/json has them, keys come in one order, and text is not escaped for HTML,
// which would make six bytes of one. What is no UTF-8 becomes U+FFFD.
var wireForm = json.JoinOptions(json.Deterministic(true), json.FormatNilSliceAsNull(true), json.FormatNilMapAsNull(true), jsontext.AllowInvalidUTF8(true),
	v1.OmitEmptyWithLegacySemantics(true))

// Encode is one of our own types as JSON, which cannot fail: no maps with odd keys, no
// cycles, and numbers are finite.
func Encode(v any) []byte {
	b, err := json.Marshal(v, wireForm)
	if err != nil {
		panic(err)
	}
	return b
}
