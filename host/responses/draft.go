package responses

import (
	"strings"
	"time"

	"thoth/host/openai"
)

// Draft grows a response from the pieces of an answer, in their order. Pieces of one
// kind that follow each other are one item.
//
// Invariant: at most one item is open, the last of the response's output, and none
// once the response has ended.
type Draft struct {
	Response *Response

	open     bool
	text     strings.Builder       // of the open item
	logprobs []openai.TokenLogprob // of the open message
	spoken   bool                  // there is a message or a call
}

// NewDraft grows r.
func NewDraft(r *Response) *Draft { return &Draft{Response: r} }

// Text adds to a message. Without text there is nothing to begin one with, and what
// log-probabilities there are belong to the message that is open, or to none.
func (d *Draft) Text(text string, lp []openai.TokenLogprob) {
	if text == "" && !d.inside(TypeMessage) {
		return
	}
	d.enter(TypeMessage)
	d.text.WriteString(text)
	d.logprobs = append(d.logprobs, lp...)
}

// Reasoning adds to the model's reasoning.
func (d *Draft) Reasoning(text string) {
	d.enter(TypeReasoning)
	d.text.WriteString(text)
}

// Call begins a call.
func (d *Draft) Call(callID, name string) { d.begin(Item{Type: TypeCall, CallID: callID, Name: name}) }

// Arguments adds to the call that was begun last.
func (d *Draft) Arguments(text string) { d.text.WriteString(text) }

// End ends the response: whole, or cut by a limit of its tokens. What was cut has
// nothing after its last piece; what is whole has a message or a call.
func (d *Draft) End(cut bool, u *Usage, g *openai.Gnosis, now time.Time) {
	r := d.Response
	if d.lacksMessage(cut) {
		d.enter(TypeMessage)
	}
	r.Status = StatusCompleted
	if cut {
		r.Status, r.IncompleteDetails = StatusIncomplete, &Incomplete{Reason: "max_output_tokens"}
	} else {
		at := now.Unix()
		r.CompletedAt = &at
	}
	d.close(r.Status)
	r.Usage, r.Gnosis = u, g
}

// lacksMessage tells that a response about to end has nothing that clients, and the
// prompt of the next turn, could take for an answer.
func (d *Draft) lacksMessage(cut bool) bool {
	return !d.spoken && (!cut || len(d.Response.Output) == 0)
}

// Fail ends the response by an error.
func (d *Draft) Fail(e *openai.Error) {
	d.close(StatusIncomplete)
	d.Response.Fail(e)
}

// Cancel ends the response because it is not wanted any more.
func (d *Draft) Cancel() {
	d.close(StatusIncomplete)
	d.Response.Status = StatusCancelled
}

// last is the item that is open.
func (d *Draft) last() *Item { return &d.Response.Output[d.index()] }

// index is where the last item stands in the output.
func (d *Draft) index() int { return len(d.Response.Output) - 1 }

// inside tells whether an item of this type is open.
func (d *Draft) inside(kind string) bool { return d.open && d.last().Type == kind }

// enter makes an item of this type the open one.
func (d *Draft) enter(kind string) {
	if d.inside(kind) {
		return
	}
	it := Item{Type: kind}
	if kind == TypeMessage {
		it.Role = roleAssistant
	}
	d.begin(it)
}

// begin opens an item.
func (d *Draft) begin(it Item) {
	d.close(StatusCompleted)
	it.ID, it.Status = outputID(&it, d.Response.ID, len(d.Response.Output)), StatusInProgress
	d.Response.Output = append(d.Response.Output, it)
	d.open = true
	d.spoken = d.spoken || it.Type != TypeReasoning
}

// close closes the open item, if any.
func (d *Draft) close(status string) {
	if !d.open {
		return
	}
	it := d.last()
	it.Status = status
	switch it.Type {
	case TypeMessage:
		it.Content = []Part{{Type: partOutput, Text: d.text.String(), Logprobs: d.logprobs}}
	case TypeReasoning:
		it.Content = []Part{{Type: partReasoning, Text: d.text.String()}}
		if d.Response.seals {
			it.Encrypted = seal(d.text.String())
		}
	case TypeCall:
		it.Arguments = d.text.String()
	}
	d.open, d.logprobs = false, nil
	d.text.Reset()
}
