//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// whole is the greedy answer that stop strings are taken out of: cut by the cap
// or ended by the model.
func whole(t *testing.T, merge ...obj) answer {
	t.Helper()
	a, err := ask(t.Context(), false, merge...)
	require.NoError(t, err)
	require.NotEmpty(t, a.Text)
	return a
}

var aboutRivers = obj{"messages": []obj{user(rivers)}, "max_tokens": 60}

func TestStop_NothingOfItIsInTheAnswer(t *testing.T) {
	defer shared.unharmed(t)()
	text := whole(t, aboutRivers).Text
	var stops []string
	for i, length := 0, 3; i+length <= len(text); i += 2 {
		stop := text[i : i+length]
		if utf8.ValidString(stop) {
			stops = append(stops, stop)
		}
		if length++; length > 12 {
			length = 3
		}
	}
	require.Greater(t, len(stops), 60)
	parallel(t, len(stops), func(ctx context.Context, i int) error {
		want, _ := upTo(text, stops[i])
		forms := []bool{true}
		if i%4 == 0 {
			forms = append(forms, false)
		}
		for _, stream := range forms {
			a, err := ask(ctx, stream, aboutRivers, obj{"stop": stops[i]})
			if err != nil {
				return err
			}
			if a.Text != want || a.Finish != "stop" {
				return fmt.Errorf("stop %q, streamed %v: got %q (%s), want %q", stops[i], stream, a.Text, a.Finish, want)
			}
		}
		return nil
	})
}

func TestStop_AtTheFirstTokenIsAnEmptyAnswer(t *testing.T) {
	defer shared.unharmed(t)()
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(shared.chat(t).Text(t)))
	merge := obj{"stop": []string{string(first)}}
	r := shared.chat(t, merge)
	require.Equal(t, "", r.choice(t)["message"].(obj)["content"])
	require.Equal(t, "stop", r.Finish(t))
	require.Positive(t, r.Usage(t, "prompt_tokens"))

	e := shared.stream(t, merge, obj{"stream_options": obj{"include_usage": true}})
	require.True(t, e.Done)
	require.Equal(t, "assistant", e.JSON[0]["choices"].([]any)[0].(obj)["delta"].(obj)["role"])
	require.Equal(t, "", e.Text(0))
	require.Equal(t, []string{"stop"}, e.Finishes(0))
	require.EqualValues(t, r.Usage(t, "prompt_tokens"), e.JSON[len(e.JSON)-1]["usage"].(obj)["prompt_tokens"])
}

func TestStop_FalseAlarmIsInvisible(t *testing.T) {
	defer shared.unharmed(t)()
	for name, merge := range map[string]obj{"end of turn": {"max_tokens": 64}, "token cap": aboutRivers} {
		a := whole(t, merge)
		middle := len(a.Text) / 2
		for _, stop := range []any{
			a.Text[len(a.Text)-5:] + "QQ",
			a.Text[len(a.Text)-1:] + "QQ",
			a.Text[middle:middle+6] + "QQ",
			[]string{a.Text[middle:middle+6] + "QQ", a.Text[middle+2:middle+9] + "QQ", a.Text[len(a.Text)-5:] + "QQ"},
		} {
			text, finish := sameBothWays(t, merge, obj{"stop": stop})
			require.Equal(t, a.Text, text, "%s, stop %q", name, stop)
			require.Equal(t, a.Finish, finish, "%s, stop %q", name, stop)
		}
	}
}

// A long stop string must not hold text back: only an end of the text that could
// be its beginning is held. How many tokens an event waited for is counted by
// its log-probabilities, so that no clock is needed.
func TestStop_LongOneDoesNotHoldTheStreamBack(t *testing.T) {
	defer shared.unharmed(t)()
	merge := obj{"messages": []obj{user(rivers)}, "max_tokens": 150, "ignore_eos": true, "logprobs": true}
	tokens := func(more ...obj) (text string, each []int) {
		e := shared.stream(t, append(more, merge)...)
		e.each(0, func(c obj) {
			if s, _ := c["delta"].(obj)["content"].(string); s != "" {
				each = append(each, len(c["logprobs"].(obj)["content"].([]any)))
			}
		})
		return e.Text(0), each
	}
	text, control := tokens()
	middle := text[len(text)/2 : len(text)/2+6]
	for name, stop := range map[string]string{
		"never begun": strings.Repeat("ξ", 100),
		"begun once":  middle + strings.Repeat("ξ", 97),
	} {
		got, each := tokens(obj{"stop": stop})
		require.Equal(t, text, got, name)
		require.LessOrEqual(t, each[0], control[0]+2, name)
		for i, n := range each {
			require.LessOrEqual(t, n, 12, "%s: event %d of %d had to wait", name, i, len(each))
		}
	}
}

func TestStop_EarliestMatchWins(t *testing.T) {
	defer shared.unharmed(t)()
	text := whole(t, aboutRivers).Text
	part := func(at, length int) string { return text[at : at+length] }
	third := len(text) / 3
	for _, pair := range [][2]string{
		{part(2*third, 6), part(third, 6)},      // late and early
		{part(third, 4), part(third, 7)},        // one is the other's beginning
		{part(third, 7), part(third+5, 6)},      // they overlap
		{part(third, 1), part(third, 12)},       // a letter and a phrase
		{part(third+1, 5), part(third, 8)[:2]},  // end of one in the other
		{part(third, 6), part(third, 6) + "QQ"}, // the longer never comes
	} {
		want, cut := upTo(text, pair[0], pair[1])
		require.True(t, cut)
		for _, stops := range [][]string{{pair[0], pair[1]}, {pair[1], pair[0]}} {
			got, finish := sameBothWays(t, aboutRivers, obj{"stop": stops})
			require.Equal(t, want, got, "%q", stops)
			require.Equal(t, "stop", finish)
		}
	}
}

// One stop inside another: when the inner one is there, the outer one may still
// come, and begins earlier. Either end is right; it must be one of the two.
func TestStop_OneInsideAnother(t *testing.T) {
	defer shared.unharmed(t)()
	text := whole(t, aboutRivers).Text
	at := len(text) / 3
	outer, inner := text[at:at+16], text[at+5:at+8]
	outerCut, _ := upTo(text, outer)
	innerCut, _ := upTo(text, inner)
	for _, stops := range [][]string{{outer, inner}, {inner, outer}} {
		got, finish := sameBothWays(t, aboutRivers, obj{"stop": stops})
		require.Contains(t, []string{outerCut, innerCut}, got)
		require.Equal(t, "stop", finish)
	}
}
