package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

// maxEmbeddingInputs bounds the texts of a request, as at OpenAI.
const maxEmbeddingInputs = 2048

// EmbeddingRequest is the body of POST /v1/embeddings.
type EmbeddingRequest struct {
	Model          *string        `json:"model"`
	Input          jsontext.Value `json:"input"`
	EncodingFormat *string        `json:"encoding_format"` // float or base64
	Dimensions     *Int           `json:"dimensions"`
	User           *string        `json:"user"` // without effect
	Rest           jsontext.Value `json:",embed"`

	// What Input is, one of both.
	Texts  []string  `json:"-"`
	Tokens [][]int32 `json:"-"`
}

// DecodeEmbedding decodes and validates a body.
func DecodeEmbedding(body []byte, l Limits) (*EmbeddingRequest, *Error) {
	r := new(EmbeddingRequest)
	if e := decodeBody(body, l, r); e != nil {
		return nil, e
	}
	if e := EmbeddingParameters.Refuse(r.Rest); e != nil {
		return nil, e
	}
	switch {
	case r.Model == nil:
		return nil, NewError(CodeMissing, "model", "model is missing: name one of GET /v1/models")
	case !present(r.Input):
		return nil, NewError(CodeMissing, "input", "input is missing: give a text, a list of texts, a list of token ids, or a list of such lists")
	case r.EncodingFormat != nil && *r.EncodingFormat != "float" && *r.EncodingFormat != "base64":
		return nil, NewError(CodeInvalidValue, "encoding_format", "encoding_format is %q: float and base64 are allowed", clip(*r.EncodingFormat))
	case r.Dimensions != nil && *r.Dimensions < 1:
		return nil, NewError(CodeInvalidValue, "dimensions", "dimensions is %d: it must be at least 1", *r.Dimensions)
	}
	if e := r.readInput(l); e != nil {
		return nil, e
	}
	return r, nil
}

// readInput tells the four forms of input apart by the first value in it.
func (r *EmbeddingRequest) readInput(l Limits) *Error {
	wrong := NewError(CodeInvalidType, "input", "input must be a text, a list of texts, a list of token ids, or a list of such lists")
	switch r.Input.Kind() {
	case '"':
		var text string
		if e := decodeAt("input", r.Input, &text); e != nil {
			return e
		}
		if text == "" {
			return NewError(CodeInvalidValue, "input", "input is empty")
		}
		r.Texts = []string{text}
		return nil
	case '[':
	default:
		return wrong
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(r.Input))
	if _, err := dec.ReadToken(); err != nil {
		return decodeError("input", err)
	}
	kind := dec.PeekKind()
	switch kind {
	case ']':
		return NewError(CodeInvalidValue, "input", "input is an empty list")
	case '0':
		tokens, e := readTokens("input", r.Input, l)
		r.Tokens = [][]int32{tokens}
		return e
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		if i == maxEmbeddingInputs {
			return NewError(CodeInvalidValue, "input", "input has more than %d elements: so many are allowed", maxEmbeddingInputs)
		}
		at := fmt.Sprintf("input[%d]", i)
		item, err := dec.ReadValue()
		if err != nil {
			return decodeError("input", err)
		}
		if item.Kind() != kind || kind != '"' && kind != '[' {
			wrong.Param = &at
			return wrong
		}
		if kind == '"' {
			var text string
			if e := decodeAt(at, item, &text); e != nil {
				return e
			}
			if text == "" {
				return NewError(CodeInvalidValue, at, "%s is empty", at)
			}
			r.Texts = append(r.Texts, text)
			continue
		}
		tokens, e := readTokens(at, item, l)
		switch {
		case e != nil:
			return e
		case len(tokens) == 0:
			return NewError(CodeInvalidValue, at, "%s is empty", at)
		}
		r.Tokens = append(r.Tokens, tokens)
	}
	return nil
}

// readTokens reads a list of token ids, one by one: kept as text they would take
// many times the body.
func readTokens(at string, list jsontext.Value, l Limits) ([]int32, *Error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(list))
	if _, err := dec.ReadToken(); err != nil {
		return nil, decodeError(at, err)
	}
	out := make([]int32, 0, atMost(list))
	var id Int
	for i := 0; dec.PeekKind() != ']'; i++ {
		if err := jsonv2.UnmarshalDecode(dec, &id); err != nil {
			return nil, decodeError(at, err)
		}
		switch {
		case id < 0 || id > maxTokenID:
			name := fmt.Sprintf("%s[%d]", at, i)
			return nil, NewError(CodeInvalidValue, name, "%s is %d: a token id is from 0 to %d", name, id, maxTokenID)
		case l.Vocabulary > 0 && id >= Int(l.Vocabulary):
			name := fmt.Sprintf("%s[%d]", at, i)
			return nil, NewError(CodeInvalidValue, name, "%s is %d: this model's ids run from 0 to %d", name, id, l.Vocabulary-1)
		}
		out = append(out, int32(id))
	}
	return out, nil
}

// Wire is the station's request.
func (r *EmbeddingRequest) Wire() *wire.EmbedRequest {
	return &wire.EmbedRequest{Input: r.Texts, InputTokens: r.Tokens}
}

// AnswerBytes is about how long the answer will be, where the model's vectors have so many
// dimensions.
func (r *EmbeddingRequest) AnswerBytes(dimensions int) int64 {
	if r.Dimensions != nil {
		dimensions = min(dimensions, int(*r.Dimensions))
	}
	each := 12 * dimensions // such as -0.01234567 and a comma
	if r.base64() {
		each = base64.StdEncoding.EncodedLen(4 * dimensions)
	}
	const around = len(`{"object":"embedding","index":0000,"embedding":[]},`)
	return int64(len(r.Texts)+len(r.Tokens)) * int64(each+around)
}

func (r *EmbeddingRequest) base64() bool {
	return r.EncodingFormat != nil && *r.EncodingFormat == "base64"
}

// EmbeddingList answers POST /v1/embeddings.
type EmbeddingList struct {
	Object string         `json:"object"` // list
	Data   []Embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  EmbeddingUsage `json:"usage"`
}

// Embedding is one text's vector.
type Embedding struct {
	Object    string          `json:"object"` // embedding
	Index     int             `json:"index"`
	Embedding EmbeddingVector `json:"embedding"`
}

// EmbeddingUsage counts tokens as the model saw them.
type EmbeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// EmbeddingVector is a vector as a list of numbers or as base64.
type EmbeddingVector struct {
	Numbers []float32
	Base64  bool
}

// MarshalJSON implements json.Marshaler.
func (v EmbeddingVector) MarshalJSON() ([]byte, error) {
	if v.Base64 {
		raw := make([]byte, 0, 4*len(v.Numbers))
		for _, x := range v.Numbers {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		return json.Marshal(base64.StdEncoding.EncodeToString(raw))
	}
	out := append(make([]byte, 0, 12*len(v.Numbers)+2), '[')
	for i, x := range v.Numbers {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendFloat(out, float64(x), 'g', -1, 32) // the shortest that reads back the same
	}
	return append(out, ']'), nil
}

// NewEmbeddingList makes the answer of the station's: vectors of length 1, cut to
// the dimensions asked for.
func NewEmbeddingList(r *EmbeddingRequest, model string, a *wire.VectorsResponse) (*EmbeddingList, *Error) {
	n := a.Dimensions
	if r.Dimensions != nil {
		if *r.Dimensions > Int(a.Dimensions) {
			return nil, NewError(CodeInvalidValue, "dimensions", "dimensions is %d: this model's vectors have %d", *r.Dimensions, a.Dimensions)
		}
		n = int(*r.Dimensions)
	}
	list := &EmbeddingList{Object: "list", Data: make([]Embedding, len(a.Vectors)), Model: model}
	base := r.base64()
	for i, v := range a.Vectors {
		list.Data[i] = Embedding{Object: "embedding", Index: i, Embedding: EmbeddingVector{unit(v[:n]), base}}
		list.Usage.PromptTokens += a.Tokens[i]
	}
	list.Usage.TotalTokens = list.Usage.PromptTokens
	return list, nil
}

// unit scales a vector to length 1; one of zeros stays as it is.
func unit(v []float32) []float32 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := make([]float32, len(v))
	if sum == 0 {
		return out
	}
	scale := 1 / math.Sqrt(sum)
	for i, x := range v {
		out[i] = float32(float64(x) * scale)
	}
	return out
}
