package openai

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

// TokenizeRequest is the body of POST /tokenize. The text has the name it has at
// llama-server (content), vLLM (prompt) or in the embeddings API (input).
type TokenizeRequest struct {
	Model   *string `json:"model"`
	Content *string `json:"content"`
	Prompt  *string `json:"prompt"`
	Input   *string `json:"input"`

	AddSpecial   *bool `json:"add_special"`   // begin with the model's begin-of-sequence token; default false
	ParseSpecial *bool `json:"parse_special"` // the texts of control tokens become those tokens; default true
	WithPieces   *bool `json:"with_pieces"`   // also each token's text; default false

	Rest jsontext.Value `json:",embed"` // what is refused, or not known

	Text  string `json:"-"`
	Param string `json:"-"` // the name the text came by
}

// DecodeTokenize decodes and validates a body.
func DecodeTokenize(body []byte, l Limits) (*TokenizeRequest, *Error) {
	r := new(TokenizeRequest)
	if e := decodeBody(body, l, r); e != nil {
		return nil, e
	}
	if e := TokenizeParameters.Refuse(r.Rest); e != nil {
		return nil, e
	}
	given := 0
	for _, f := range []struct {
		name string
		text *string
	}{{"content", r.Content}, {"prompt", r.Prompt}, {"input", r.Input}} {
		if f.text != nil {
			given++
			r.Param, r.Text = f.name, *f.text
		}
	}
	switch {
	case given == 0:
		return nil, NewError(CodeMissing, "content", "content is missing: give the text")
	case given > 1:
		return nil, NewError(CodeInvalidValue, r.Param, "content, prompt and input are names of one thing: give one of them")
	}
	return r, nil
}

// Wire is the station's request.
func (r *TokenizeRequest) Wire() *wire.TokenizeRequest {
	bos := isTrue(r.AddSpecial)
	return &wire.TokenizeRequest{Pieces: isTrue(r.WithPieces),
		Prompt: wire.Prompt{Segments: []wire.Segment{{Text: r.Text, Special: r.ParseSpecial == nil || *r.ParseSpecial}}, AddBOS: &bos}}
}

func isTrue(b *bool) bool { return b != nil && *b }

// TokenList answers POST /tokenize.
type TokenList struct {
	Tokens []Token `json:"tokens"`
	Count  int     `json:"count"`
}

// Token is an id, or an object with id and piece.
type Token struct {
	ID    int32
	Piece []byte
	Named bool // whether it is an object
}

// MarshalJSON implements json.Marshaler. A piece is text, or the list of its
// bytes where it is no whole text, as at llama-server.
func (t Token) MarshalJSON() ([]byte, error) {
	if !t.Named {
		return strconv.AppendInt(nil, int64(t.ID), 10), nil
	}
	var piece any = string(t.Piece)
	if !utf8.Valid(t.Piece) {
		list := make([]int, len(t.Piece))
		for i, b := range t.Piece {
			list[i] = int(b)
		}
		piece = list
	}
	return json.Marshal(struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"`
	}{t.ID, piece})
}

// NewTokenList makes the answer of the station's.
func NewTokenList(a *wire.TokenizeResponse, pieces bool) *TokenList {
	list := &TokenList{Tokens: make([]Token, len(a.Tokens)), Count: len(a.Tokens)}
	for i, id := range a.Tokens {
		list.Tokens[i] = Token{ID: id, Named: pieces}
		if pieces && i < len(a.Pieces) {
			list.Tokens[i].Piece = a.Pieces[i]
		}
	}
	return list
}

// MaxDetokenized bounds the tokens of a request, whose text may be many times their
// body. It is beyond the context of any model.
const MaxDetokenized = 1 << 20

// DetokenizeRequest is the body of POST /detokenize.
type DetokenizeRequest struct {
	Model *string        `json:"model"`
	Raw   jsontext.Value `json:"tokens"`

	Tokens []int32 `json:"-"`
}

// DecodeDetokenize decodes and validates a body.
func DecodeDetokenize(body []byte, l Limits) (*DetokenizeRequest, *Error) {
	r := new(DetokenizeRequest)
	if e := decodeBody(body, l, r); e != nil {
		return nil, e
	}
	switch {
	case !present(r.Raw):
		return nil, NewError(CodeMissing, "tokens", "tokens is missing: give an array of token ids")
	case r.Raw.Kind() != '[':
		return nil, NewError(CodeInvalidType, "tokens", "tokens must be an array of token ids, not %s", kindName(r.Raw.Kind()))
	case atMost(r.Raw) > MaxDetokenized:
		return nil, NewError(CodeInvalidValue, "tokens", "tokens has more than %d entries: so many are allowed", MaxDetokenized)
	}
	var e *Error
	r.Tokens, e = readTokens("tokens", r.Raw, l)
	r.Raw = nil
	return r, e
}

const maxTokenID = 1<<31 - 1

// Wire is the station's request: control tokens are written as text.
func (r *DetokenizeRequest) Wire() *wire.DetokenizeRequest {
	return &wire.DetokenizeRequest{Tokens: r.Tokens, Special: true}
}

// Detokenized answers POST /detokenize.
type Detokenized struct {
	Content string `json:"content"`
}

// DecodeTemplate decodes and validates the body of POST /apply-template: that of
// a chat, whose model may be left out.
func DecodeTemplate(body []byte, l Limits, model string) (*ChatRequest, *Error) {
	r := new(ChatRequest)
	if e := r.decode(body, l); e != nil {
		return nil, e
	}
	if r.Model == nil {
		r.Model = &model
	}
	return r, r.validate(l)
}

// AppliedTemplate answers POST /apply-template.
type AppliedTemplate struct {
	Prompt string `json:"prompt"`
}
