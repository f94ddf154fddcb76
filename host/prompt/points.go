package prompt

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"thoth/station/wire"
)

// Point is a place in a rendered prompt: after Offset bytes of the text of
// segment Segment. Offset is at least 1 and at most that text's length.
type Point struct{ Segment, Offset int }

// RenderPoints is Render, and tells where the messages' breakpoints lie in the
// segments, in their order and each place once.
//
// It renders once more, with a mark at each breakpoint: a private-use character
// that occurs nowhere else. When nothing but the marks has changed, they show the
// places. A template that trims has no place after a text's closing white
// space, so that a breakpoint there moves before it; one that leaves a text out
// (an old turn's reasoning) has it at the end of the nearest earlier message
// that it shows. A breakpoint for which no such place is found is left out: it
// was a wish about what to keep, and the answer does not depend on it.
func (t *Template) RenderPoints(c Conversation) ([]wire.Segment, []Point, error) {
	if err := checkVariables(c.Variables); err != nil {
		return nil, nil, err
	}
	r, err := t.prepare(c)
	if err != nil {
		return nil, nil, err
	}
	want, segs, err := r.split()
	if err != nil {
		return nil, nil, err
	}
	return segs, r.points(want, segs), nil
}

// place is a breakpoint: after offset bytes of the content of message.
type place struct{ message, offset int }

// maxEarlier bounds the search for an earlier place; each step is a rendering.
const maxEarlier = 4

func (r *renderer) points(want string, segs []wire.Segment) []Point {
	var all []place
	for i, m := range r.Messages {
		for _, at := range m.Breakpoints {
			if at = runeStart(m.Content, at); at > 0 {
				all = append(all, place{i, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.message, b.message), cmp.Compare(a.offset, b.offset))
	})
	if len(all) == 0 {
		return nil
	}
	all = slices.Compact(all)
	l := locator{r, want}
	offsets := l.find(all) // what nearly all templates allow
	if len(offsets) != len(all) {
		offsets = nil
		for _, p := range all {
			if at := l.nearest(p); at > 0 {
				offsets = append(offsets, at)
			}
		}
	}
	slices.Sort(offsets)
	points := make([]Point, 0, len(offsets))
	for _, at := range slices.Compact(offsets) {
		if p, ok := pointAt(segs, at); ok {
			points = append(points, p)
		}
	}
	return points
}

// locator finds places of a conversation in its rendering.
type locator struct {
	*renderer
	want string // the rendering without marks
}

// nearest is the offset of p in the rendering, or of the nearest place before
// it that the template shows; 0 when there is none.
func (l *locator) nearest(p place) int {
	for tries := 0; tries < maxEarlier; {
		for _, p := range slices.Compact([]place{p, l.beforeSpace(p)}) {
			if p.offset == 0 {
				continue
			}
			tries++
			if at := l.find([]place{p}); len(at) > 0 {
				return at[0] // the first one, where a text is shown twice
			}
		}
		if p.message == 0 {
			break
		}
		p.message--
		p.offset = len(l.Messages[p.message].Content)
	}
	return 0
}

// beforeSpace moves a place with nothing but white space after it before the
// white space at its left.
func (l *locator) beforeSpace(p place) place {
	content := l.Messages[p.message].Content
	if strings.TrimSpace(content[p.offset:]) == "" {
		p.offset = len(strings.TrimRightFunc(content[:p.offset], unicode.IsSpace))
	}
	return p
}

// find gives the offsets of places in the rendering; none when the template
// renders differently for the marks, and another number than that of the places
// when it leaves a text out or shows one twice.
func (l *locator) find(places []place) []int {
	var contents []string
	for _, m := range l.Messages {
		contents = append(contents, m.Content)
	}
	mark := string(freeRunes(1, l.want, contents)[0])
	r := *l.renderer
	r.Messages = slices.Clone(r.Messages)
	for _, p := range slices.Backward(places) { // those in front keep their offsets
		m := &r.Messages[p.message]
		m.Content = m.Content[:p.offset] + mark + m.Content[p.offset:]
	}
	got, err := r.render(same)
	if err != nil {
		return nil
	}
	parts := strings.Split(got, mark)
	if strings.Join(parts, "") != l.want {
		return nil
	}
	var offsets []int
	at := 0
	for _, before := range parts[:len(parts)-1] {
		at += len(before)
		offsets = append(offsets, at)
	}
	return offsets
}

// pointAt finds the segment that holds the text before an offset.
func pointAt(segs []wire.Segment, at int) (Point, bool) {
	for i, s := range segs {
		if at <= len(s.Text) {
			return Point{i, at}, at > 0
		}
		at -= len(s.Text)
	}
	return Point{}, false
}

// runeStart is the last start of a character of s at or before at, within s.
func runeStart(s string, at int) int {
	if at >= len(s) {
		return len(s)
	}
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return max(at, 0)
}
