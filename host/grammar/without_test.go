package grammar

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// firstMarker is where the first marker that occurs in text ends, and which; of
// two that end together it is the longer.
func firstMarker(text string, markers []string) (end, which int) {
	for end = 1; end <= len(text); end++ {
		which = -1
		for i, m := range markers {
			if strings.HasSuffix(text[:end], m) && (which < 0 || len(m) > len(markers[which])) {
				which = i
			}
		}
		if which >= 0 {
			return end, which
		}
	}
	return 0, -1
}

func drawMarkers(t *rapid.T) (markers []string, text string) {
	markers = rapid.SliceOfNDistinct(rapid.StringMatching(`[ab<]{1,4}`), 1, 3, rapid.ID[string]).Draw(t, "markers")
	return markers, rapid.StringMatching(`[ab<é\n]{0,10}`).Draw(t, "text")
}

func TestBuilder_WithoutIsTextInWhichNoMarkerOccurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		markers, text := drawMarkers(t)
		_, found := firstMarker(text, markers)
		b := NewBuilder(Limits{})
		require.Equal(t, found < 0, compiled(t, b, b.Without(markers...)).Match(text))

		// What follows may begin as a marker does, or be one.
		then := markers[0]
		g := compiled(t, b, b.Sequence(b.Without(markers...), b.Literal(then), "[0-9]"))
		require.Equal(t, found < 0, g.Match(text+then+"1"))
	})
}

func TestBuilder_UntilEndsWithTheFirstMarker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		markers, text := drawMarkers(t)
		var marks []Mark
		for i, m := range markers {
			marks = append(marks, Mark{m, Rule(`"` + itoa(i) + `"`)})
		}
		b := NewBuilder(Limits{})
		until := compiled(t, b, b.Until(marks...))
		end, which := firstMarker(text, markers)
		require.False(t, until.Match(text))
		for i := range markers {
			whole := text[:end] + itoa(i)
			require.Equal(t, which == i, until.Match(whole), whole)
			if which >= 0 {
				require.Equal(t, end == len(text), until.Prefix(text))
			}
		}
	})
}

// One reading of the text at any time: its state's alternatives and no more. Text
// before a marker costs two where the marker has begun.
func TestBuilder_TextBeforeAMarkerHasOneReading(t *testing.T) {
	text := "If a < b then <tool is not <tool_cal" + strings.Repeat(" more <", 20) + "<tool_call>"
	b := NewBuilder(Limits{})
	call := b.Sequence(`"{"`, "[a-z]", `"}"`)
	until := compiled(t, b, b.Until(Mark{"<tool_call>", call}))
	require.True(t, until.Match(text+"{x}"))
	require.LessOrEqual(t, until.Stacks(text+"{x}"), 3)
	two := compiled(t, b, b.Sequence(b.Without("<tool_call>"), b.Literal("<tool_call>"), call))
	require.True(t, two.Match(text+"{x}"))
	require.LessOrEqual(t, two.Stacks(text+"{x}"), 5)
}
