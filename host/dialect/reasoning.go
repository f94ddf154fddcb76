package dialect

import (
	"strings"
	"unicode"

	"github.com/ollama/ollama/thinking"
)

// tags are what opens and closes reasoning; none when empty.
type tags struct{ open, close string }

// opening says what the end of the prompt has done about the reasoning.
type opening int

const (
	byModel opening = iota // nothing: the model opens it, or not
	opened                 // the template has opened it
	closed                 // the template has closed it at once
)

func (t tags) opening(tail string) opening {
	tail = strings.TrimRightFunc(tail, unicode.IsSpace)
	switch {
	case t.open == "":
		return closed
	case strings.HasSuffix(tail, t.open):
		return opened
	case strings.HasSuffix(tail, t.close):
		return closed
	}
	return byModel
}

// sentinel ends ollama's waiting for the rest of a tag: no tag has it in it.
const sentinel = "\x00"

// reasoner takes the reasoning off the head of an answer.
type reasoner struct {
	parser thinking.Parser
	space  string // at the end of the reasoning; nothing if the closing tag follows
	over   bool
}

// newReasoner is nil when there is no reasoning to expect.
func newReasoner(t tags, tail string) *reasoner {
	how := t.opening(tail)
	if how == closed {
		return nil
	}
	r := &reasoner{parser: thinking.Parser{OpeningTag: t.open, ClosingTag: t.close}}
	if how == opened {
		r.parser.AddContent(t.open)
	}
	return r
}

// add returns the reasoning in the text and what follows it.
func (r *reasoner) add(text string) (reasoning, rest string) {
	if r.over {
		return "", text
	}
	reasoning, rest = r.parser.AddContent(text)
	if rest != "" {
		r.over = true
	}
	return r.trim(reasoning), rest
}

// end returns what the parser still held back.
func (r *reasoner) end() (reasoning, rest string) {
	if r.over {
		return "", ""
	}
	r.over = true
	reasoning, rest = r.parser.AddContent(sentinel)
	if rest != "" {
		return "", strings.TrimSuffix(rest, sentinel)
	}
	return r.space + strings.TrimSuffix(reasoning, sentinel), ""
}

// trim holds white space back until more reasoning follows it.
func (r *reasoner) trim(text string) string {
	text = r.space + text
	out := strings.TrimRightFunc(text, unicode.IsSpace)
	r.space = text[len(out):]
	return out
}
