package openai

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Chunk is one event of a stream, in its general form.
type Chunk struct {
	Head
	Choices []ChunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage,omitempty"`
	Gnosis  *Gnosis       `json:"_gnosis,omitempty"`
}

// ChunkChoice is a choice's part of a chunk.
type ChunkChoice struct {
	Index        int             `json:"index"`
	Delta        Delta           `json:"delta"`
	Logprobs     *ChoiceLogprobs `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
}

// Delta is what a chunk adds. Absent fields are left out, never null.
type Delta struct {
	Role             string       `json:"role,omitempty"`
	Content          *string      `json:"content,omitempty"`
	ReasoningContent *string      `json:"reasoning_content,omitempty"`
	ToolCalls        []AnswerCall `json:"tool_calls,omitempty"`
}

// usageNull is what a chunk carries when the usage chunk is still to come.
const usageNull = `,"usage":null`

// Encoder writes the events of one stream. The text chunk is by far the most
// frequent and differs only in index, text and log-probabilities, so it is put
// together from pieces made once; a test compares it with the general form.
type Encoder struct {
	head   Head
	before []byte // data: {...,"choices":[{"index":
	usage  bool   // a usage chunk ends the stream
}

// NewEncoder makes an encoder; withUsage is stream_options.include_usage.
func NewEncoder(h Head, withUsage bool) *Encoder {
	h.Object = objectChunk
	e := &Encoder{head: h, usage: withUsage}
	b := append([]byte("data: "), Encode(h)...)
	e.before = append(b[:len(b)-1], `,"choices":[{"index":`...)
	return e
}

// Role appends the event that opens a choice.
func (e *Encoder) Role(dst []byte, index int) []byte {
	return e.delta(dst, index, `{"role":"assistant","content":""}`, nil, "")
}

// Text appends an event with text.
func (e *Encoder) Text(dst []byte, index int, text string, lp *ChoiceLogprobs) []byte {
	dst = e.open(dst, index)
	dst = append(dst, `{"content":`...)
	// The station sends whole characters; AppendQuote replaces anything else.
	dst, _ = jsontext.AppendQuote(dst, text)
	dst = append(dst, '}')
	return e.end(dst, lp, "", nil)
}

// Reasoning appends an event with text the model wrote to itself.
func (e *Encoder) Reasoning(dst []byte, index int, text string, lp *ChoiceLogprobs) []byte {
	dst = append(e.open(dst, index), `{"reasoning_content":`...)
	dst, _ = jsontext.AppendQuote(dst, text)
	dst = append(dst, '}')
	return e.end(dst, lp, "", nil)
}

// Call appends the event that opens call number call of a choice.
func (e *Encoder) Call(dst []byte, index, call int, id, name string, lp *ChoiceLogprobs) []byte {
	dst = e.openCall(dst, index, call)
	dst = append(dst, `"id":`...)
	dst, _ = jsontext.AppendQuote(dst, id)
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst, _ = jsontext.AppendQuote(dst, name)
	dst = append(dst, `,"arguments":""}}]}`...)
	return e.end(dst, lp, "", nil)
}

// Arguments appends an event with a piece of a call's arguments.
func (e *Encoder) Arguments(dst []byte, index, call int, text string, lp *ChoiceLogprobs) []byte {
	dst = e.openCall(dst, index, call)
	dst = append(dst, `"function":{"arguments":`...)
	dst, _ = jsontext.AppendQuote(dst, text)
	dst = append(dst, `}}]}`...)
	return e.end(dst, lp, "", nil)
}

// Finish appends a choice's last event; g is set on the stream's last one.
func (e *Encoder) Finish(dst []byte, index int, reason string, g *Gnosis) []byte {
	dst = append(e.open(dst, index), `{}`...)
	return e.end(dst, nil, reason, g)
}

// Usage appends the event with the token counts and no choices.
func (e *Encoder) Usage(dst []byte, u Usage, g *Gnosis) []byte {
	c := Chunk{Head: e.head, Choices: []ChunkChoice{}, Usage: &u, Gnosis: g}
	dst = append(dst, "data: "...)
	dst = append(dst, Encode(c)...)
	return append(dst, "\n\n"...)
}

// AppendDone appends the sentinel that ends a stream that went well.
func AppendDone(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }

// AppendPing appends a comment, which every event-stream parser skips.
func AppendPing(dst []byte) []byte { return append(dst, ": ping\n\n"...) }

// AppendErrorEvent appends the event of an error after the first byte. No
// [DONE] follows: the sentinel says that the answer is complete.
func AppendErrorEvent(dst []byte, err *Error) []byte {
	dst = append(dst, "data: "...)
	dst = AppendEnvelope(dst, err)
	return append(dst, "\n\n"...)
}

func (e *Encoder) delta(dst []byte, index int, delta string, lp *ChoiceLogprobs, reason string) []byte {
	dst = append(e.open(dst, index), delta...)
	return e.end(dst, lp, reason, nil)
}

func (e *Encoder) open(dst []byte, index int) []byte {
	dst = append(dst, e.before...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	return append(dst, `,"delta":`...)
}

func (e *Encoder) openCall(dst []byte, index, call int) []byte {
	dst = append(e.open(dst, index), `{"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(call), 10)
	return append(dst, ',')
}

func (e *Encoder) end(dst []byte, lp *ChoiceLogprobs, reason string, g *Gnosis) []byte {
	return endChoice(dst, lp, reason, e.usage, g)
}

// endChoice ends the event of one choice behind what it says, in a stream of
// either kind. usage says that the stream ends with the token counts; g is set on
// the last event of a choice.
func endChoice[L any](dst []byte, lp *L, reason string, usage bool, g *Gnosis) []byte {
	dst = append(dst, `,"logprobs":`...)
	if lp == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, Encode(lp)...)
	}
	dst = append(dst, `,"finish_reason":`...)
	if reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendQuote(dst, reason)
	}
	dst = append(dst, "}]"...)
	if usage {
		dst = append(dst, usageNull...)
	}
	if g != nil {
		dst = append(dst, `,"_gnosis":`...)
		dst = append(dst, Encode(g)...)
	}
	return append(dst, "}\n\n"...)
}
