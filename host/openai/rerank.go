package openai

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

// maxDocuments bounds the documents of a request; the station's limit too.
const maxDocuments = 2048

// RerankRequest is the body of POST /v1/rerank, in the form that Jina's and
// Cohere's clients send.
type RerankRequest struct {
	Model           *string        `json:"model"`
	Query           *string        `json:"query"`
	Documents       jsontext.Value `json:"documents"`
	TopN            *Int           `json:"top_n"`            // the best so many; all when absent
	ReturnDocuments bool           `json:"return_documents"` // say the documents back
	RawScores       bool           `json:"raw_scores"`       // the model's logits in place of numbers from 0 to 1
	User            *string        `json:"user"`             // without effect
	Rest            jsontext.Value `json:",embed"`

	Texts []string `json:"-"` // the documents
}

// RerankParameters are those of /v1/rerank.
var RerankParameters = NewTable("POST /v1/rerank",
	Parameter{Name: "model", Treatment: Honoured, Allowed: modelAllowed, Note: "Required."},
	Parameter{Name: "query", Treatment: Honoured, Allowed: "a string", Note: "Required. An empty one is refused."},
	Parameter{Name: "documents", Treatment: Honoured, Allowed: "1 to 2,048 strings, or objects with `text` alone", Note: "Required. An empty one is refused."},
	Parameter{Name: "top_n", Treatment: Honoured, Allowed: "at least 1", Note: "The best so many; default all."},
	Parameter{Name: "return_documents", Treatment: Honoured, Allowed: "true, false", Note: "The documents are said back as `{\"text\": ...}`; default false."},
	Parameter{Name: "raw_scores", Treatment: Honoured, Allowed: "true, false", Note: "`relevance_score` is the model's logit, any number; default false: the logit's logistic function, from 0 to 1."},
	Parameter{Name: "user", Treatment: Accepted, Allowed: "a string", Note: "Names the end user.", Taken: []string{`"u"`}},
	Parameter{Name: "texts", Treatment: Refused, Note: "use documents"},
	Parameter{Name: "passages", Treatment: Refused, Note: "use documents"},
	Parameter{Name: "top_k", Treatment: Refused, Note: "use top_n"},
	Parameter{Name: "return_text", Treatment: Refused, Taken: []string{"false"}, Note: "use return_documents"},
	Parameter{Name: "rank_fields", Treatment: Refused, Note: "a document is a text"},
	Parameter{Name: "max_chunks_per_doc", Treatment: Refused, Note: "a document is taken whole"},
	Parameter{Name: "max_tokens_per_doc", Treatment: Refused, Note: "a document is taken whole"},
	Parameter{Name: "truncate", Treatment: Refused, Taken: []string{"false", `"NONE"`}, Note: "a document is taken whole"},
	Parameter{Name: "truncation", Treatment: Refused, Taken: []string{"false"}, Note: "a document is taken whole"},
	Parameter{Name: "truncate_prompt_tokens", Treatment: Refused, Note: "a document is taken whole"},
	Parameter{Name: "use_activation", Treatment: Refused, Taken: []string{"true"}, Note: "use raw_scores"},
	Parameter{Name: "activation", Treatment: Refused, Taken: []string{"true"}, Note: "use raw_scores"},
	Parameter{Name: "instruction", Treatment: Refused, Taken: []string{`""`}, Note: "the model file says how it is asked"},
)

// DecodeRerank decodes and validates a body.
func DecodeRerank(body []byte, l Limits) (*RerankRequest, *Error) {
	r := new(RerankRequest)
	if e := decodeBody(body, l, r); e != nil {
		return nil, e
	}
	if e := RerankParameters.Refuse(r.Rest); e != nil {
		return nil, e
	}
	switch {
	case r.Model == nil:
		return nil, NewError(CodeMissing, "model", "model is missing: name one of GET /v1/models")
	case r.Query == nil:
		return nil, NewError(CodeMissing, "query", "query is missing: give the text that documents are ranked for")
	case *r.Query == "":
		return nil, NewError(CodeInvalidValue, "query", "query is empty")
	case !present(r.Documents):
		return nil, NewError(CodeMissing, "documents", "documents is missing: give a list of texts")
	case r.TopN != nil && *r.TopN < 1:
		return nil, NewError(CodeInvalidValue, "top_n", "top_n is %d: it must be at least 1", *r.TopN)
	}
	if e := r.readDocuments(); e != nil {
		return nil, e
	}
	return r, nil
}

// readDocuments reads one document after the other, and stops at the first too many.
func (r *RerankRequest) readDocuments() *Error {
	if r.Documents.Kind() != '[' {
		return NewError(CodeInvalidType, "documents", "documents must be an array, not %s", kindName(r.Documents.Kind()))
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(r.Documents))
	if _, err := dec.ReadToken(); err != nil {
		return decodeError("documents", err)
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		if i == maxDocuments {
			return NewError(CodeInvalidValue, "documents", "documents has more than %d elements: so many are allowed", maxDocuments)
		}
		at := fmt.Sprintf("documents[%d]", i)
		item, err := dec.ReadValue()
		if err != nil {
			return decodeError("documents", err)
		}
		text, e := readDocument(at, item)
		if e != nil {
			return e
		}
		if text == "" {
			return NewError(CodeInvalidValue, at, "%s is empty", at)
		}
		r.Texts = append(r.Texts, text)
	}
	if len(r.Texts) == 0 {
		return NewError(CodeInvalidValue, "documents", "documents is an empty list")
	}
	return nil
}

// readDocument reads a string, or an object that has nothing but a text.
func readDocument(at string, item jsontext.Value) (string, *Error) {
	switch item.Kind() {
	case '"':
		var text string
		return text, decodeAt(at, item, &text)
	case '{':
	default:
		return "", NewError(CodeInvalidType, at, "%s must be a string, or an object with a text, not %s", at, kindName(item.Kind()))
	}
	var d struct {
		Text *string        `json:"text"`
		Rest jsontext.Value `json:",embed"`
	}
	if e := decodeAt(at, item, &d); e != nil {
		return "", e
	}
	if name := firstName(d.Rest); name != "" {
		return "", NewError(CodeUnsupported, at+"."+clip(name), "%s.%s is not supported: a document has a text alone", at, clip(name))
	}
	if d.Text == nil {
		return "", NewError(CodeMissing, at+".text", "%s.text is missing", at)
	}
	return *d.Text, nil
}

// firstName is the first name of an object; "" when it has none.
func firstName(object jsontext.Value) string {
	if len(object) == 0 {
		return ""
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(object))
	if _, err := dec.ReadToken(); err != nil || dec.PeekKind() != '"' {
		return ""
	}
	name, err := dec.ReadToken()
	if err != nil {
		return ""
	}
	return name.String()
}

// Wire is the station's request.
func (r *RerankRequest) Wire() *wire.RerankRequest {
	return &wire.RerankRequest{Query: *r.Query, Documents: r.Texts}
}

// AnswerBytes is about how long the answer will be, or the least of it where it says some
// of the documents.
func (r *RerankRequest) AnswerBytes() int64 {
	const around = len(`{"index":0000,"relevance_score":0.0000000000000000},`)
	n := len(r.Texts)
	if r.TopN != nil {
		n = int(min(int64(*r.TopN), int64(n)))
	}
	bytes := int64(n) * int64(around)
	if r.ReturnDocuments && n == len(r.Texts) {
		for _, text := range r.Texts {
			bytes += int64(len(text))
		}
	}
	return bytes
}

// RerankList answers POST /v1/rerank.
type RerankList struct {
	Model   string         `json:"model"`
	Object  string         `json:"object"` // list
	Usage   EmbeddingUsage `json:"usage"`
	Results []Ranked       `json:"results"` // the best first
}

// Ranked is a document with its score.
type Ranked struct {
	Index    int             `json:"index"` // in the request
	Score    float64         `json:"relevance_score"`
	Document *RankedDocument `json:"document,omitempty"`
}

// RankedDocument says a document back.
type RankedDocument struct {
	Text string `json:"text"`
}

// NewRerankList makes the answer of the station's. What is ranked are its logits,
// which still differ where their logistic function no longer does.
func NewRerankList(r *RerankRequest, model string, a *wire.RerankResponse) *RerankList {
	list := &RerankList{Model: model, Object: "list", Results: make([]Ranked, len(a.Scores))}
	for i, score := range a.Scores {
		list.Results[i] = Ranked{Index: i, Score: score}
		list.Usage.PromptTokens += a.Tokens[i]
	}
	list.Usage.TotalTokens = list.Usage.PromptTokens
	slices.SortStableFunc(list.Results, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	if r.TopN != nil && int64(*r.TopN) < int64(len(list.Results)) {
		list.Results = list.Results[:*r.TopN]
	}
	for i := range list.Results {
		d := &list.Results[i]
		if !r.RawScores {
			d.Score = 1 / (1 + math.Exp(-d.Score))
		}
		if r.ReturnDocuments {
			d.Document = &RankedDocument{r.Texts[d.Index]}
		}
	}
	return list
}
