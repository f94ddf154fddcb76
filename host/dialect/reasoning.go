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

// Opens tells whether a prompt that ends so has opened the reasoning itself: text
// that is put behind it would not be the answer's. Harmony's prompts end inside a
// header, where no text of an answer may stand.
func (d *Dialect) Opens(tail string) bool { return d.harmony || d.think.opening(tail) == opened }

// sentinel ends ollama's waiting for the rest of a tag: no tag has it in it.
const sentinel = "\x00"

// reasoner takes the reasoning off the head of an answer.
type reasoner struct {
	parser thinking.Parser
	lead   strings.Builder // white space before all else, which is the text's if no reasoning comes
	begun  bool            // something else has come
	head   string          // of it, as long as an opening tag
	space  strings.Builder // at the end of the reasoning; nothing if the closing tag follows
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
		r.head = t.open
	}
	return r
}

// add returns the reasoning in the text and what follows it.
func (r *reasoner) add(text string) (reasoning, rest string) {
	if r.over {
		return "", text
	}
	if !r.begun {
		// Ollama's parser would look at all of it again with each piece.
		rest := strings.TrimLeftFunc(text, unicode.IsSpace)
		r.lead.WriteString(text[:len(text)-len(rest)])
		if rest == "" {
			return "", ""
		}
		r.begun, text = true, rest
	}
	if missing := len(r.parser.OpeningTag) - len(r.head); missing > 0 {
		r.head += text[:min(missing, len(text))]
	}
	reasoning, rest = r.parser.AddContent(text)
	if rest != "" {
		r.over = true
		rest = r.unread() + rest
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
		return "", r.unread() + strings.TrimSuffix(rest, sentinel)
	}
	return r.space.String() + strings.TrimSuffix(reasoning, sentinel), ""
}

// unread is the white space before a text that no reasoning precedes.
func (r *reasoner) unread() string {
	if r.head == r.parser.OpeningTag {
		return ""
	}
	return r.lead.String()
}

// trim holds white space back until more reasoning follows it.
func (r *reasoner) trim(text string) string {
	said := strings.TrimRightFunc(text, unicode.IsSpace)
	space := text[len(said):]
	if said != "" {
		said = r.space.String() + said
		r.space.Reset()
	}
	r.space.WriteString(space)
	return said
}
