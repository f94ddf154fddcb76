package prompt

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"thoth/station/wire"
)

// split renders a conversation into segments.
//
// It renders twice: as it is, and with every text of the client between two
// marks, private-use characters that occur nowhere in it. White space at the
// edges stays outside of the marks, where trim finds it. When the second
// rendering without its marks equals the first and the marks are paired, what
// lies between them is the client's and the rest is the template's. A soft text,
// part of a tool's definition or of an answer with calls, has marks of its own:
// when it holds nothing a control token is made of it stays in the template's
// segment, so that its tokens are those the model was trained on and wrote.
//
// A template that looks into a text (startswith, split) renders differently or
// tears a pair apart. Then the texts it does this to are found, and in those only
// what could be a control token is broken: one mark inside each bracketed span,
// and the span becomes plain. A span without which the template renders
// differently is one it tests for, such as </think> in an old answer: it is left
// whole if it cannot be a token of the chat's structure, else the request is
// refused.
//
// want is the rendering, which is what the segments' texts join to.
func (r *renderer) split() (want string, segs []wire.Segment, err error) {
	s := splitter{renderer: r}
	s.want, err = r.render(func(text string, _ bool) string { s.texts = append(s.texts, text); return text })
	if err != nil {
		return "", nil, err
	}
	s.marks = newMarks(s.want, s.texts)
	segs, ok := s.try(func(_ int, text string, soft bool) string { return s.wrap(text, soft) })
	if !ok {
		segs, err = s.splitBroken()
	}
	return s.want, tidy(segs), err
}

// splitter is the state of one split.
type splitter struct {
	marks
	*renderer
	want  string   // the rendering without marks
	texts []string // the client's, in the order in which they are marked
}

// try renders with texts marked one by one and cuts; false when the marks
// changed the rendering or are not paired.
func (s *splitter) try(mark func(k int, text string, soft bool) string) ([]wire.Segment, bool) {
	k := -1
	got, err := s.render(func(text string, soft bool) string { k++; return mark(k, text, soft) })
	if err != nil {
		return nil, false
	}
	wrapped, ok := s.cutWrapped(got)
	if !ok {
		return nil, false
	}
	var segs []wire.Segment
	for _, w := range wrapped {
		if w.Special {
			segs = append(segs, s.cutBroken(w.Text)...)
		} else {
			segs = append(segs, w)
		}
	}
	return segs, joinsTo(segs, s.want)
}

// Bounds of the search for what a template looks at; each test is a rendering.
const (
	maxTexts = 32
	maxSpans = 16
)

// splitBroken is the second way.
func (s *splitter) splitBroken() ([]wire.Segment, error) {
	// Which texts can be wrapped after all? Those without a span are harmless in
	// any case, so they are tested together.
	suspect := make([]bool, len(s.texts))
	for k, text := range s.texts {
		suspect[k] = span.MatchString(text)
	}
	wrapped := make([]bool, len(s.texts))
	_, plainOnes := s.try(func(k int, text string, soft bool) string {
		if suspect[k] {
			return text
		}
		return s.wrap(text, soft)
	})
	tested := 0
	for k := range s.texts {
		switch {
		case !suspect[k]:
			wrapped[k] = plainOnes
		case tested < maxTexts:
			tested++
			_, wrapped[k] = s.try(func(other int, text string, soft bool) string {
				if other != k {
					return text
				}
				return s.wrap(text, soft)
			})
		}
	}
	breaking := func(breaks func(span string) bool) ([]wire.Segment, bool) {
		return s.try(func(k int, text string, soft bool) string {
			if wrapped[k] {
				return s.wrap(text, soft)
			}
			return s.breakSpans(text, breaks)
		})
	}
	if segs, ok := breaking(func(string) bool { return true }); ok {
		return segs, nil
	}
	kept := map[string]bool{}
	for i, found := range distinctSpans(s.texts) {
		if i >= maxSpans {
			return nil, ErrUnsafe
		}
		if _, ok := breaking(func(other string) bool { return other == found }); ok {
			continue
		}
		if structural.MatchString(found) || found == s.t.source.BOS || found == s.t.source.EOS {
			return nil, ErrUnsafe
		}
		kept[found] = true
	}
	if segs, ok := breaking(func(found string) bool { return !kept[found] }); ok {
		return segs, nil
	}
	return nil, ErrUnsafe
}

// span is what a control token can look like: bracketed, or opened and cut off
// at the end of a text, where the next text may go on with it.
var span = regexp.MustCompile(`<[^<>\n]{0,100}(?:>|$)|\[[^\[\]\n]{0,100}(?:\]|$)|>>[^<>\n]{1,40}(?:<<|$)`)

// structural are spans that give a chat its structure in some vocabulary.
var structural = regexp.MustCompile(`[|｜]|^<(s|/s|bos|eos|unk|pad|start_of_turn|end_of_turn|end_of_text)>$|^\[/?[A-Z_ ]+\]$`)

// breakSpans puts a mark after the first character of the spans to break.
func (m marks) breakSpans(s string, breaks func(string) bool) string {
	return span.ReplaceAllStringFunc(s, func(found string) string {
		if !breaks(found) {
			return found
		}
		return found[:1] + string(m.broken) + found[1:]
	})
}

// cutBroken makes every broken span a plain segment.
func (m marks) cutBroken(got string) []wire.Segment {
	var segs []wire.Segment
	mark := string(m.broken)
	for {
		at := strings.Index(got, mark)
		if at < 1 {
			return append(segs, wire.Segment{Text: strings.ReplaceAll(got, mark, ""), Special: true})
		}
		first, rest := got[at-1:at], got[at+len(mark):]
		if !strings.Contains("<[>", first) {
			// The template wrote the bracket otherwise, e.g. as \u003c: no token here.
			got = got[:at] + rest
			continue
		}
		// A template may have cut the span short; its first character alone is
		// enough to keep the rest from being a token.
		end := 0
		if loc := span.FindStringIndex(first + rest); loc != nil && loc[0] == 0 {
			end = loc[1] - 1
		}
		if next := strings.Index(rest[:end], mark); next >= 0 {
			end = 0
		}
		segs = append(segs, wire.Segment{Text: got[:at-1], Special: true}, wire.Segment{Text: first + rest[:end]})
		got = rest[end:]
	}
}

func distinctSpans(texts []string) []string {
	var all []string
	for _, s := range texts {
		all = append(all, span.FindAllString(s, -1)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func joinsTo(segs []wire.Segment, want string) bool {
	for _, s := range segs {
		rest, ok := strings.CutPrefix(want, s.Text)
		if !ok {
			return false
		}
		want = rest
	}
	return want == ""
}

// tidy drops empty segments, joins neighbours of one kind, and moves the white
// space before a client's text into its segment: segments are tokenised one by
// one, and " hi" is one token where " " and "hi" are two. Line breaks right
// after a control token stay: some tokens swallow them.
func tidy(in []wire.Segment) []wire.Segment {
	var out []wire.Segment
	add := func(s wire.Segment) {
		if s.Text == "" {
			return
		}
		if n := len(out); n > 0 && out[n-1].Special == s.Special {
			out[n-1].Text += s.Text
			return
		}
		out = append(out, s)
	}
	for _, s := range in {
		if n := len(out); !s.Special && s.Text != "" && n > 0 && out[n-1].Special {
			before, space := trailingSpace(out[n-1].Text)
			out[n-1].Text = before
			if before == "" {
				out = out[:n-1]
			}
			s.Text = space + s.Text
		}
		add(s)
	}
	return out
}

func trailingSpace(s string) (before, space string) {
	before = strings.TrimRightFunc(s, unicode.IsSpace)
	space = s[len(before):]
	if strings.HasSuffix(before, ">") && strings.ContainsAny(space, "\r\n") {
		return s, ""
	}
	return before, space
}
