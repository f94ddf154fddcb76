package responses

import (
	"strconv"
	"time"

	"thoth/host/openai"
)

// Events grows a response as a [Draft] does, and each of its methods appends to dst
// the events that tell of it. The deltas are by far the most frequent, so they are put
// together by hand.
type Events struct {
	*Draft
	number int // sequence_number of the next event
}

// NewEvents tells of a response from its beginning.
func NewEvents(r *Response) *Events { return &Events{Draft: NewDraft(r)} }

// Created opens the stream: the response as far as it is known.
func (e *Events) Created(dst []byte) []byte { return e.state(dst, "response.created", nil) }

// Queued says that the response waits for its turn.
func (e *Events) Queued(dst []byte) []byte { return e.state(dst, "response.queued", nil) }

// InProgress says that the response is being made.
func (e *Events) InProgress(dst []byte) []byte { return e.state(dst, "response.in_progress", nil) }

// Text adds to a message, as [Draft.Text] does.
func (e *Events) Text(dst []byte, text string, lp []openai.TokenLogprob) []byte {
	if text == "" && (len(lp) == 0 || !e.inside(TypeMessage)) {
		return dst
	}
	dst = e.enter(dst, TypeMessage)
	e.Draft.Text(text, lp)
	dst = append(e.delta(dst, "response.output_text.delta", text, true), `,"logprobs":`...)
	return append(appendLogprobs(dst, lp), "}\n\n"...)
}

// Reasoning adds to the model's reasoning.
func (e *Events) Reasoning(dst []byte, text string) []byte {
	dst = e.enter(dst, TypeReasoning)
	e.Draft.Reasoning(text)
	return append(e.delta(dst, "response.reasoning_text.delta", text, true), "}\n\n"...)
}

// Call begins a call.
func (e *Events) Call(dst []byte, callID, name string) []byte {
	dst = e.close(dst, StatusCompleted)
	e.Draft.Call(callID, name)
	return e.item(dst, "response.output_item.added")
}

// Arguments adds to the call that was begun last.
func (e *Events) Arguments(dst []byte, text string) []byte {
	e.Draft.Arguments(text)
	return append(e.delta(dst, "response.function_call_arguments.delta", text, false), "}\n\n"...)
}

// End ends the response but for its last event, [Events.Over]: all of it is known then,
// and must be stored before the client hears of the end.
func (e *Events) End(dst []byte, cut bool, u *Usage, g *openai.Gnosis, now time.Time) []byte {
	if e.lacksMessage(cut) {
		dst = e.enter(dst, TypeMessage)
	}
	status := StatusCompleted
	if cut {
		status = StatusIncomplete
	}
	dst = e.close(dst, status)
	e.Draft.End(cut, u, g, now)
	return dst
}

// Over appends the last event of a response that has ended, however it did. encoded is its
// JSON where somebody has it already, and else nil: a large one takes a while to encode.
func (e *Events) Over(dst, encoded []byte) []byte {
	name := "response." + e.Response.Status
	if e.Response.Status == StatusCancelled {
		name = "response.failed" // there is no event of this name
	}
	return e.state(dst, name, encoded)
}

// AppendError is the event of an error that ends a stream otherwise than its response
// ended: because none has begun, or because its events cannot be told.
func AppendError(dst []byte, err *openai.Error, number int) []byte {
	return appendEvent(dst, "error", struct {
		Type    string      `json:"type"`
		Number  int         `json:"sequence_number"`
		Code    openai.Code `json:"code"`
		Message string      `json:"message"`
		Param   *string     `json:"param"`
	}{"error", number, err.Code, err.Message, err.Param})
}

// enter makes an item of this type the open one.
func (e *Events) enter(dst []byte, kind string) []byte {
	if e.inside(kind) {
		return dst
	}
	dst = e.close(dst, StatusCompleted)
	e.Draft.enter(kind)
	dst = e.item(dst, "response.output_item.added")
	part := Part{Type: partOutput}
	if kind == TypeReasoning {
		part.Type = partReasoning
	}
	return e.part(dst, "response.content_part.added", part)
}

// close closes the open item, if any.
func (e *Events) close(dst []byte, status string) []byte {
	if !e.open {
		return dst
	}
	e.Draft.close(status)
	it := e.last()
	switch it.Type {
	case TypeMessage, TypeReasoning:
		p := it.Content[0]
		name := "response.output_text.done"
		if it.Type == TypeReasoning {
			name = "response.reasoning_text.done"
		}
		dst = e.about(dst, name)
		dst = appendText(append(dst, `,"content_index":0,"text":`...), p.Text)
		if it.Type == TypeMessage {
			dst = appendLogprobs(append(dst, `,"logprobs":`...), p.Logprobs)
		}
		dst = append(dst, "}\n\n"...)
		dst = e.part(dst, "response.content_part.done", p)
	case TypeCall:
		dst = e.about(dst, "response.function_call_arguments.done")
		dst = appendText(append(dst, `,"name":`...), it.Name)
		dst = appendText(append(dst, `,"arguments":`...), it.Arguments)
		dst = append(dst, "}\n\n"...)
	}
	return e.item(dst, "response.output_item.done")
}

// state is an event with the whole response, which is encoded here where it is not yet.
func (e *Events) state(dst []byte, name string, encoded []byte) []byte {
	if encoded == nil {
		encoded = openai.Encode(e.Response)
	}
	dst = append(e.begin(dst, name), `,"response":`...)
	return append(append(dst, encoded...), "}\n\n"...)
}

// item is an event with the last item.
func (e *Events) item(dst []byte, name string) []byte {
	return appendEvent(dst, name, struct {
		Type   string `json:"type"`
		Number int    `json:"sequence_number"`
		Index  int    `json:"output_index"`
		Item   *Item  `json:"item"`
	}{name, e.next(), e.index(), e.last()})
}

// part is an event with the only part of the last item.
func (e *Events) part(dst []byte, name string, p Part) []byte {
	return appendEvent(dst, name, struct {
		Type    string `json:"type"`
		Number  int    `json:"sequence_number"`
		ID      string `json:"item_id"`
		Index   int    `json:"output_index"`
		Content int    `json:"content_index"`
		Part    Part   `json:"part"`
	}{name, e.next(), e.last().ID, e.index(), 0, p})
}

// delta is an event with a piece of the last item, but for its end.
func (e *Events) delta(dst []byte, name, text string, content bool) []byte {
	dst = e.about(dst, name)
	if content {
		dst = append(dst, `,"content_index":0`...)
	}
	return appendText(append(dst, `,"delta":`...), text)
}

// about begins an event about the last item.
func (e *Events) about(dst []byte, name string) []byte {
	dst = append(append(e.begin(dst, name), `,"item_id":"`...), e.last().ID...)
	return strconv.AppendInt(append(dst, `","output_index":`...), int64(e.index()), 10)
}

// begin begins an event, up to its number.
func (e *Events) begin(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	return strconv.AppendInt(append(dst, `","sequence_number":`...), int64(e.next()), 10)
}

func appendEvent(dst []byte, name string, v any) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: "...), openai.Encode(v)...)
	return append(dst, "\n\n"...)
}

func (e *Events) next() int {
	n := e.number
	e.number++
	return n
}
