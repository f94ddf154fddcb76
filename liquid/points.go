package liquid

import (
	"context"
	"slices"

	"thoth/station/wire"
)

// Point is a place in a prompt's segments: after Offset bytes of the text of
// segment Segment.
type Point struct{ Segment, Offset int }

// cut gives the segments up to a point.
func (p Point) cut(segments []wire.Segment) []wire.Segment {
	if p.Segment >= len(segments) {
		return segments
	}
	head := slices.Clone(segments[:p.Segment+1])
	last := &head[p.Segment]
	last.Text = last.Text[:min(p.Offset, len(last.Text))]
	return head
}

// positions turns points into lengths of the prompt's tokens, ascending. A point
// may lie inside a token of the whole prompt: the tokens that its text has in
// common with the prompt end before it.
func (m *Manager) positions(ctx context.Context, segments []wire.Segment, tokens []int32, points []Point) ([]int, error) {
	var lengths []int
	for _, p := range points {
		r, err := m.o.Station.Tokenize(ctx, &wire.TokenizeRequest{Prompt: wire.Prompt{Segments: p.cut(segments)}})
		if err != nil {
			return nil, err
		}
		if n := common(r.Tokens, tokens); n > 0 {
			lengths = append(lengths, n)
		}
	}
	slices.Sort(lengths)
	return slices.Compact(lengths), nil
}

// common is the length of the longest common prefix.
func common(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
