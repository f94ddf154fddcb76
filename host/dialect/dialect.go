package dialect

import (
	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/grammar"
)

// Tool is a function the model may call.
type Tool struct {
	Name       string
	Parameters jsontext.Value // JSON Schema of the arguments, always an object's; nil: no arguments
	Strict     bool           // the arguments must follow the schema, also when the model is free to call
}

// Mode says whether the model may call a tool.
type Mode int

// The modes of tool_choice; a named tool is Required with that tool alone in
// Ask.Allowed.
const (
	ModeNone     Mode = iota // never: what looks like a call is text
	ModeAuto                 // the model decides
	ModeRequired             // at least one call
)

// Ask is what a request wants of an answer.
type Ask struct {
	Tools    []Tool // those the prompt shows
	Allowed  []int  // indexes in Tools that may be called; nil: all
	Mode     Mode
	Parallel bool // more than one call in an answer

	// Content is the rule the text of the answer must follow; "" leaves it free.
	// With ModeAuto a call may come in its place.
	Content grammar.Rule

	// Tail is the end of the rendered prompt: many templates open the reasoning
	// themselves, or close it at once. 256 bytes are enough.
	Tail string
}

// Kind tells events apart.
type Kind int

// The kinds of events.
const (
	Content   Kind = iota // Text for the user
	Reasoning             // Text the model wrote to itself
	Call                  // a call opens: Index, ID and Name are set
	Arguments             // Text is a piece of the arguments of call Index, JSON when joined
)

// Event is a piece of an answer.
type Event struct {
	Kind  Kind
	Text  string
	Index int    // of the call in the answer, from 0
	ID    string // unique, "call_" and 24 letters and digits
	Name  string
}

// A Parser takes one answer apart. Add takes text as it arrives, End what is
// left when the answer is over; cut says that a token limit ended it. The events
// of both are in the answer's order; Text is whole UTF-8 characters.
type Parser interface {
	Add(text string) []Event
	End(cut bool) []Event
}
