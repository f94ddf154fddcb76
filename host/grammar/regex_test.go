package grammar

import (
	"encoding/json"
	"math/rand"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/host/grammar/grammartest"
)

func TestBuilderRegex_MatchesTheWholeText(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{``, []string{""}, []string{"a"}},
		{`abc`, []string{"abc"}, []string{"", "ab", "abcd", "xabc"}},
		{`^abc$`, []string{"abc"}, []string{"ab", "abcd"}},
		{`a|bc|`, []string{"a", "bc", ""}, []string{"abc", "b"}},
		{`^a$|^b`, []string{"a", "b"}, []string{"ab"}},
		{`(a|ab)(c|bcd)?`, []string{"a", "ab", "ac", "abc", "abcd", "abbcd"}, []string{"abcdd"}},
		{`(?:x)(?<year>\d{4})(?P<m>y)`, []string{"x2024y"}, []string{"x202y"}},
		{`a{2}b{1,}c{0,2}d*?e+?f??`, []string{"aabe", "aabbccddeef"}, []string{"abe", "aabccce"}},
		{`{a}]}{,x}{1,2`, []string{"{a}]}{,x}{1,2"}, nil},
		{`(a*)*(b|)*(){3}`, []string{"", "aab", "abb"}, []string{"ba", "c"}},
		{`[a-cx\-z]`, []string{"a", "b", "c", "x", "-", "z"}, []string{"d", "y"}},
		{`[-a]|[b-]|[c^]|[\w-]`, []string{"-", "a", "b", "^", "_", "9"}, []string{"é", "ß"}},
		{`[^a-y\n]`, []string{"z", "A", "é", "😀", "\r"}, []string{"b", "\n", ""}},
		{`\d\D\w\W`, []string{"1a_-", "0éZ "}, []string{"١a_-", "11_-"}},
		{`\s\S`, []string{" a", "\tb"}, []string{"\u00a0a", " \u00a0", " \v"}},
		{`[^\s]`, []string{"a"}, []string{"\u00a0", " ", "\ufeff"}},
		{`.`, []string{"a", "😀", "\t"}, []string{"\n", "\r", "\u2028", "\u2029"}},
		{`[\s\S]`, []string{"a", "\n", " "}, nil},
		{`\.\/\*\-\_\ \"`, []string{`./*-_ "`}, nil},
		{`\t\n\r\f\v\cA\x41\u00e9\ud83d\ude00\u{1F601}[\b]`, []string{"\t\n\r\f\v\x01Aé😀😁\b"}, nil},
		{`\p{L}\p{Lu}\pN\P{L}`, []string{"éÉ٣-"}, []string{"éé٣-"}},
		{`\p{Script=Greek}\p{Greek}\p{Letter}\p{gc=Nd}[^\p{L}]`, []string{"αβz1-"}, []string{"aβz1-"}},
		{`(^a|b$)c?`, []string{"a", "ac", "b"}, []string{"bc"}},
		{`$^`, []string{""}, []string{"a"}},
		{`a*$^`, []string{""}, []string{"a", "aa"}},
		{`[1-9]\d{0,999}`, []string{"1", strings.Repeat("9", 1000)}, []string{"0", strings.Repeat("9", 1001)}},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			b := NewBuilder(Limits{})
			r, err := b.Regex(c.pattern)
			require.NoError(t, err)
			g := compiled(t, b, r)
			for _, text := range c.yes {
				require.True(t, g.Match(text), "%q", text)
			}
			for _, text := range c.no {
				require.False(t, g.Match(text), "%q", text)
			}
		})
	}
}

func TestBuilderRegex_SaysWhyItRefuses(t *testing.T) {
	const complex = "the pattern is too complex: its automaton has more than 16384 states or takes too long to make"
	const large = "the pattern has more than 32768 places when its repetitions are written out"
	for _, c := range []struct{ pattern, message string }{
		{`^(?=a)`, "the pattern has a lookahead (?=, which cannot be enforced, at character 2"},
		{`é(?!a)`, "the pattern has a lookahead (?!, which cannot be enforced, at character 2"},
		{`(?<=a)`, "the pattern has a lookbehind (?<=, which cannot be enforced, at character 1"},
		{`(?<!a)`, "the pattern has a lookbehind (?<!, which cannot be enforced, at character 1"},
		{`(?>a)`, "the pattern has an atomic group (?>, which cannot be enforced, at character 1"},
		{`(?i)a`, "the pattern has a group with flags or a comment (?, which cannot be enforced, at character 1"},
		{`(?P=x)`, "the pattern has a reference to a group, which cannot be enforced, at character 1"},
		{`(a)\1`, "the pattern has a reference to a group, which cannot be enforced, at character 4"},
		{`(?<x>a)\k<x>`, "the pattern has a reference to a group, which cannot be enforced, at character 8"},
		{`a\b`, `the pattern has a word boundary \b, which cannot be enforced, at character 2`},
		{`[\B]`, `the pattern has a word boundary \B, which cannot be enforced, at character 2`},
		{`\Aa`, `the pattern has an anchor \A other than ^ and $, which cannot be enforced, at character 1`},
		{`a*+`, "the pattern has a possessive or doubled repetition, which cannot be enforced, at character 3"},
		{`a**`, "the pattern has a possessive or doubled repetition, which cannot be enforced, at character 3"},
		{`^*`, "the pattern repeats an anchor, at character 2"},
		{`*a`, `the pattern has nothing before '*' to repeat, at character 1`},
		{`({2})`, "the pattern has nothing before a repetition to repeat, at character 2"},
		{`a{,5}`, "the pattern has a repetition {,5}, which means different things to different readers: write {0,5}, at character 2"},
		{`a{1,1001}`, "the pattern has a repetition {1,1001} that is too large: at most 1000 is allowed, at character 2"},
		{`a{99999999999999999999}`, "the pattern has a repetition {99999999999999999999} that is too large: at most 1000 is allowed, at character 2"},
		{`a{3,2}`, "the pattern has a repetition {3,2} that ends before it begins, at character 2"},
		{`(a`, `the pattern has a "(" without ")", at character 1`},
		{`a)`, `the pattern has a ")" too many, at character 2`},
		{`(?<x`, "the pattern has a group whose name does not end, at character 4"},
		{`[a`, "the pattern has a class that lacks its closing ], at character 1"},
		{`[a-`, "the pattern has a class that lacks its closing ], at character 1"},
		{`[]a]`, `the pattern has a class that begins with "]", which means different things to different readers: write \], or [\s\S] for any character, at character 2`},
		{`[^]`, `the pattern has a class that begins with "]", which means different things to different readers: write \], or [\s\S] for any character, at character 3`},
		{`[z-a]`, "the pattern has a range 'z'-'a' that ends before it begins, at character 5"},
		{`[\d-x]`, "the pattern has a range one end of which is a class, at character 6"},
		{`[[:alpha:]]`, "the pattern has a POSIX class [:, which cannot be enforced, at character 2"},
		{`\q`, `the pattern has an escape \q that is not known, at character 1`},
		{`\x4`, `the pattern has an escape \x that is not known, at character 1`},
		{`\ud800`, `the pattern has an escape \u that is not known, at character 1`},
		{`\`, "the pattern ends in a backslash, at character 1"},
		{`\p{Nonsense}`, `the pattern has a property \p{Nonsense} that is not known, at character 1`},
		{strings.Repeat("(", 101), "the pattern has groups nested deeper than 100, at character 101"},
		{"\xff", "the pattern must be valid UTF-8"},
		{strings.Repeat("a", 70000), "the pattern has 70000 bytes: at most 65536 are allowed"},
		{`a$b`, "no text matches the pattern"},
		{`[^\s\S]`, "no text matches the pattern"},
		{`\x00`, "no text matches the pattern"},
		{`(x{1,1000}){1,1000}`, large},
		{`((((((a{9}){9}){9}){9}){9}){9}){9}`, large},
		{`(a|b)*a(a|b){15}`, complex},
		{strings.Repeat("a?", 16000), complex},
		{`(\p{L}?\p{Lu}?\p{N}?){300}`, complex},
		{`(.*a){0,20}(.*b){0,20}(.*c){0,20}.{0,400}`, complex},
	} {
		t.Run(c.message, func(t *testing.T) {
			_, err := NewBuilder(Limits{}).Regex(c.pattern)
			require.EqualError(t, err, c.message)
			var is *Error
			require.ErrorAs(t, err, &is)
		})
	}
}

func TestBuilderRegex_TheGrammarIsBounded(t *testing.T) {
	b := NewBuilder(Limits{GrammarSize: 2048})
	r, err := b.Regex(`[a-z]{1,125}`)
	require.NoError(t, err)
	_, err = b.Build(r)
	require.EqualError(t, err, "the grammar would have more than 2048 bytes")
}

// patternOf draws a pattern whose parts mean the same here and in Go.
func patternOf(t *rapid.T, depth int) string {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		return rapid.SampledFrom([]string{`a`, `b`, `é`, `\d`, `\w`, `\W`, `[^ab]`, `[a-c"\\]`, `\D`, `.`, `\n`, `"`, `\\`, `^`, `$`, ``, `[\x00-\x1f]`, `😀`}).Draw(t, "leaf")
	}
	a := patternOf(t, depth-1)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return a + patternOf(t, depth-1)
	case 1:
		return "(" + a + "|" + patternOf(t, depth-1) + ")"
	case 2:
		return "(?:" + a + ")" + rapid.SampledFrom([]string{"*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"}).Draw(t, "count")
	default:
		return a + patternOf(t, depth-1)
	}
}

// alphabet leaves out \r and U+2028, which the dots of Go and of ECMA-262 treat
// differently.
const alphabet = "abcAé1_ \"\\/\n\t\x01\x7f😀-"

func drawText(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.SampledFrom([]rune(alphabet)), 0, 6).Draw(t, "text"))
}

// unlessRefused skips patterns that match no text, or cost too much.
func unlessRefused(t *rapid.T, err error) {
	if err != nil && (strings.Contains(err.Error(), "no text") || strings.Contains(err.Error(), "too complex")) {
		t.Skip(err.Error())
	}
	require.NoError(t, err)
}

func TestBuilderRegex_MatchesWhatGoMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := patternOf(t, 4)
		re := regexp.MustCompile(`^(?:` + pattern + `)$`)
		b := NewBuilder(Limits{})
		r, err := b.Regex(pattern)
		unlessRefused(t, err)
		g := compiled(t, b, r)
		for range 10 {
			text := drawText(t)
			require.Equal(t, re.MatchString(text), g.Match(text), "%s: %q", pattern, text)
		}
		member, ok := g.Generate(rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))), 12)
		require.True(t, ok)
		require.True(t, re.MatchString(member), "%s: %q", pattern, member)
	})
}

// spelledJSON is the string as the grammars of patterns write it.
func spelledJSON(s string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)
	return strings.NewReplacer("\n", "", "\x7f", `\u007f`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\\`, `\\`).Replace(out.String())
}

func TestBuilderJSONPattern_MatchesWhatGoMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := patternOf(t, 3)
		least, most := 0, -1
		if rapid.Bool().Draw(t, "lengths") {
			least = rapid.IntRange(0, 4).Draw(t, "least")
			most = rapid.SampledFrom([]int{-1, least, least + 2}).Draw(t, "most")
		}
		re := regexp.MustCompile(pattern)
		fits := func(s string) bool {
			n := len([]rune(s))
			return re.MatchString(s) && n >= least && (most < 0 || n <= most)
		}
		b := NewBuilder(Limits{})
		r, err := b.jsonMatching([]string{pattern}, nil, least, most)
		unlessRefused(t, err)
		g := compiled(t, b, r)
		for range 10 {
			text := drawText(t)
			require.Equal(t, fits(text), g.Match(spelledJSON(text)), "%s: %q", pattern, text)
		}
		member, ok := g.Generate(rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))), 12)
		require.True(t, ok)
		var s string
		require.NoError(t, json.Unmarshal([]byte(member), &s), member)
		require.True(t, fits(s), "%s: %s", pattern, member)
		require.Equal(t, member, spelledJSON(s))
	})
}

func FuzzBuilderRegex(f *testing.F) {
	for _, s := range []string{`^a{1,3}(b|[^c-e\d])+$`, `(?<n>\p{L}|\u{1F600})*?`, `[\w-\]]{2,}|^$`, `((a*)*b?){9}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		b := NewBuilder(Limits{GrammarSize: 64 << 10})
		whole, err := b.Regex(pattern)
		if err != nil {
			return
		}
		text, err := b.Build(whole)
		if err != nil {
			return
		}
		g, err := grammartest.Compile(text)
		require.NoError(t, err, text)
		member, ok := g.Generate(rand.New(rand.NewSource(1)), 10)
		require.True(t, ok)
		require.True(t, g.Match(member), "%q", member)
	})
}
