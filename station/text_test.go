package station

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func stream(stops []string, pieces ...string) (text, stop string) {
	ts := textStream{stops: stops}
	var sb strings.Builder
	for _, p := range pieces {
		out, s := ts.push([]byte(p))
		sb.WriteString(out)
		if s != "" {
			return sb.String(), s
		}
	}
	rest, _ := ts.finish()
	return sb.String() + rest, ""
}

func TestTextStream_Stops(t *testing.T) {
	for name, c := range map[string]struct {
		stops, pieces []string
		text, stop    string
	}{
		"none":                       {nil, []string{"ab", "c"}, "abc", ""},
		"inside a piece":             {[]string{"b"}, []string{"abc"}, "a", "b"},
		"across pieces":              {[]string{"END"}, []string{"xE", "N", "Dy"}, "x", "END"},
		"false alarm":                {[]string{"END"}, []string{"xE", "N", "E"}, "xENE", ""},
		"false alarm restarts":       {[]string{"aab"}, []string{"a", "a", "a", "b", "c"}, "a", "aab"},
		"earliest start":             {[]string{"late", "ear"}, []string{"an early and late"}, "an ", "ear"},
		"order does not matter":      {[]string{"ear", "late"}, []string{"an early and late"}, "an ", "ear"},
		"shorter of two prefixes":    {[]string{"abc", "ab"}, []string{"xabc"}, "x", "ab"},
		"first token":                {[]string{"H"}, []string{"Hi"}, "", "H"},
		"multi-byte":                 {[]string{"。"}, []string{"一\xe3\x80", "\x82二"}, "一", "。"},
		"emoji":                      {[]string{"🙂"}, []string{"a\xf0\x9f", "\x99", "\x82b"}, "a", "🙂"},
		"replacement character":      {[]string{"\ufffd"}, []string{"a\xf0\x9f", "zb"}, "a", "\ufffd"},
		"replacements held back":     {[]string{"\ufffd\ufffdb"}, []string{"a\xff", "\xfe", "\xffb"}, "a\ufffd", "\ufffd\ufffdb"},
		"composed is not decomposed": {[]string{"é"}, []string{"cafe\u0301"}, "cafe\u0301", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, stop := stream(c.stops, c.pieces...)
			require.Equal(t, c.text, text)
			require.Equal(t, c.stop, stop)
		})
	}
}

func TestTextStream_WholeCharacters(t *testing.T) {
	ts := textStream{}
	out, _ := ts.push([]byte("a\xf0\x9f\x98"))
	require.Equal(t, "a", out)
	out, _ = ts.push([]byte("\x80b"))
	require.Equal(t, "😀b", out)
	out, _ = ts.push([]byte("\xe6\x9d"))
	require.Empty(t, out)
	rest, cut := ts.finish()
	require.Empty(t, rest, "a character cut by the cap is withheld")
	require.Equal(t, "\xe6\x9d", string(cut), "and kept for a next call")

	text, _ := stream(nil, "a\xf0\x9f", "z\xff", "\xc3")
	require.Equal(t, "a\ufffd\ufffdz\ufffd", text, "what cannot become a character does not wait")
}

func TestTextStream_HoldsNoMoreThanItMust(t *testing.T) {
	ts := textStream{stops: []string{"a" + strings.Repeat("x", 200)}}
	out, _ := ts.push([]byte("hello xx"))
	require.Equal(t, "hello xx", out)
	out, _ = ts.push([]byte("ba"))
	require.Equal(t, "b", out)
}

func TestTextStream_LogprobsFollowTheirText(t *testing.T) {
	ts := textStream{stops: []string{"STOP"}}
	add := func(s string, id int32) (string, string) {
		ts.note(wire.TokenLogprob{ID: id})
		return ts.push([]byte(s))
	}
	add("one", 1)
	require.Len(t, ts.takeLogprobs(false), 1)
	add(" S", 2)
	require.Len(t, ts.takeLogprobs(false), 1, "its space has left")
	add("T", 3)
	require.Empty(t, ts.takeLogprobs(false), "held with its text")
	_, stop := add("OP", 4)
	require.Equal(t, "STOP", stop)
	ts.dropCut()
	require.Empty(t, ts.takeLogprobs(true), "tokens of the stop string are not told")
}

// However the text is cut in pieces, what leaves is the same, valid, and never
// holds a stop string.
func FuzzTextStream_CutsDoNotShow(f *testing.F) {
	f.Add("hello 😀 wörld STOP more", "STOP", uint64(1))
	f.Add("aaab\xff\xf0\x9f", "aab", uint64(7))
	f.Add("a\xf0\x9fb\xff", "\ufffdb", uint64(3))
	f.Fuzz(func(t *testing.T, text, stop string, seed uint64) {
		if !utf8.ValidString(stop) || stop == "" {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		var pieces []string
		for rest := text; rest != ""; {
			n := 1 + rng.IntN(min(4, len(rest)))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		cut, _ := stream([]string{stop}, pieces...)
		whole, _ := stream([]string{stop}, text)
		require.Equal(t, whole, cut)
		require.True(t, utf8.ValidString(cut))
		require.NotContains(t, cut, stop)
	})
}
