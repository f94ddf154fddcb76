package grammar

import (
	"math/rand"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/host/grammar/grammartest"
)

// compiled is the grammar of a rule, checked.
func compiled(t require.TestingT, b *Builder, root Rule) *grammartest.Grammar {
	text, err := b.Build(root)
	require.NoError(t, err)
	g, err := grammartest.Compile(text)
	require.NoError(t, err, text)
	return g
}

func TestBuilder_RulesMatchWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name    string
		make    func(b *Builder) Rule
		yes, no []string
	}{
		{"literal", func(b *Builder) Rule { return b.Literal("a\"\\\n(){1}é😀\x7f") },
			[]string{"a\"\\\n(){1}é😀\x7f"}, []string{"", "a"}},
		{"nothing", func(b *Builder) Rule { return b.Sequence(b.Literal(""), b.Repeat(`"x"`, 0, 0)) }, []string{""}, []string{"x"}},
		{"sequence", func(b *Builder) Rule { return b.Sequence(`"a"`, "[0-9]", "", `"b"`) }, []string{"a7b"}, []string{"ab", "a7"}},
		{"choice", func(b *Builder) Rule { return b.Choice(`"car"`, `"cat"`, `"c"`, "[0-9]", "") },
			[]string{"car", "cat", "c", "4", ""}, []string{"ca", "carc"}},
		{"exactly", func(b *Builder) Rule { return b.Repeat(`"ab"`, 7, 7) }, []string{strings.Repeat("ab", 7)}, []string{strings.Repeat("ab", 6), strings.Repeat("ab", 8)}},
		{"between", func(b *Builder) Rule { return b.Repeat("[ab]", 2, 4) }, []string{"ab", "aba", "bbbb"}, []string{"", "a", "aaaaa"}},
		{"at least", func(b *Builder) Rule { return b.Repeat("[ab]", 2, -1) }, []string{"ab", "abababab"}, []string{"", "a"}},
		{"of what may be empty", func(b *Builder) Rule { return b.Repeat(b.Repeat(`"a"`, 0, 2), 3, 4) },
			[]string{"", "a", "aaaaaaaa"}, []string{strings.Repeat("a", 9)}},
		{"named", func(b *Builder) Rule {
			return b.Sequence(b.Rule("Größe x", `"1"`), b.Rule("root", `"2"`), b.Rule("", `"3"`), b.Rule("gr--e-x", `"4"`))
		}, []string{"1234"}, []string{"123"}},
		{"recursive", func(b *Builder) Rule {
			r := b.declare("list")
			b.define(r, []Rule{`"("`, b.Repeat(r, 0, -1), `")"`})
			return r
		}, []string{"()", "(()(()))"}, []string{"", "(()"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder(Limits{})
			g := compiled(t, b, c.make(b))
			for _, text := range c.yes {
				require.True(t, g.Match(text), "%q", text)
			}
			for _, text := range c.no {
				require.False(t, g.Match(text), "%q", text)
			}
		})
	}
}

func TestBuilder_BuildWritesWhatRootNeeds(t *testing.T) {
	b := NewBuilder(Limits{})
	b.Rule("unused", `"u"`)
	number := b.Rule("number", b.Repeat("[0-9]", 1, -1))
	again := b.Rule("number", b.Repeat("[0-9]", 1, -1))
	require.Equal(t, number, again)
	other := b.Rule("number", `"none"`)
	text, err := b.Build(b.Sequence(number, b.Choice(other, `"?"`), again))
	require.NoError(t, err)
	require.Equal(t, `root ::= number r6 number
number ::= [0-9] r2
r6 ::= number-2 | "?"
r2 ::= [0-9] r2 | ""
number-2 ::= "none"
`, text)
}

func TestBuilder_FailuresAreRemembered(t *testing.T) {
	for _, c := range []struct {
		message string
		make    func(b *Builder) Rule
	}{
		{"the grammar would have more than 262144 bytes", func(b *Builder) Rule {
			// 1000^10 copies, if they were made.
			r := b.Literal(strings.Repeat("long ", 1000))
			for range 10 {
				r = b.Repeat(r, 1000, 1000)
			}
			return r
		}},
		{"the grammar would have more than 262144 bytes", func(b *Builder) Rule { return b.Literal(strings.Repeat("x", 1<<20)) }},
		{"the grammar would have more than 262144 bytes", func(b *Builder) Rule {
			r := Rule("")
			for i := 0; b.err == nil; i++ {
				r = b.Sequence(r, b.Rule("field", b.Literal(strings.Repeat("x", i%100))), "[0-9]")
			}
			return r
		}},
		{"a repetition of 1001 is too large: at most 1000 is allowed", func(b *Builder) Rule { return b.Repeat(`"x"`, 1001, -1) }},
		{"a repetition of 5000 is too large: at most 1000 is allowed", func(b *Builder) Rule { return b.Repeat(`"x"`, 1, 5000) }},
		{"a string of 50000 characters is too large a bound: at most 10000 is allowed", func(b *Builder) Rule { return b.jsonString(0, 50_000) }},
		{"a repetition from 3 to 2 times is not possible", func(b *Builder) Rule { return b.Repeat(`"x"`, 3, 2) }},
		{"a choice needs at least one rule", func(b *Builder) Rule { return b.Choice() }},
		{`the text "a\x00" cannot stand in a grammar: it must be valid UTF-8 without U+0000`, func(b *Builder) Rule { return b.Literal("a\x00") }},
		{`the marker "" must be valid UTF-8 and not empty`, func(b *Builder) Rule { return b.Without("x", "") }},
		{"the rule thing is not defined", func(b *Builder) Rule { return "thing" }},
		{"the rule later is not defined", func(b *Builder) Rule { return b.Sequence(`"a"`, b.declare("later")) }},
	} {
		t.Run(c.message, func(t *testing.T) {
			b := NewBuilder(Limits{})
			r := b.Sequence(`"first"`, c.make(b))
			_, err := b.Build(b.Choice(r, `"still"`))
			require.EqualError(t, err, c.message)
			var is *Error
			require.ErrorAs(t, err, &is)
			require.Less(t, b.size, 600<<10)
		})
	}
}

// expression draws a rule and the regular expression that says the same.
func expression(t *rapid.T, b *Builder, depth int) (Rule, string) {
	kinds := 2
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		text := rapid.SampledFrom([]string{"", "a", "b", "ab", "ba", "aab"}).Draw(t, "text")
		return b.Literal(text), text
	case 1:
		return "[a-b]", "[ab]"
	case 2, 3:
		var rules []Rule
		var texts []string
		for range rapid.IntRange(1, 3).Draw(t, "items") {
			r, s := expression(t, b, depth-1)
			rules, texts = append(rules, r), append(texts, s)
		}
		if rapid.Bool().Draw(t, "choice") {
			return b.Choice(rules...), "(?:" + strings.Join(texts, "|") + ")"
		}
		return b.Sequence(rules...), strings.Join(texts, "")
	default:
		r, s := expression(t, b, depth-1)
		least := rapid.IntRange(0, 3).Draw(t, "least")
		most := rapid.SampledFrom([]int{-1, least, least + 1, least + 3}).Draw(t, "most")
		count := "{" + itoa(least) + "," + itoa(most) + "}"
		if most < 0 {
			count = "{" + itoa(least) + ",}"
		}
		return b.Repeat(r, least, most), "(?:" + s + ")" + count
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

func TestBuilder_SaysWhatARegularExpressionSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(Limits{})
		root, pattern := expression(t, b, 3)
		re := regexp.MustCompile(`^(?:` + pattern + `)$`)
		text, err := b.Build(root)
		require.NoError(t, err)
		g, err := grammartest.Compile(text)
		if err != nil && strings.Contains(err.Error(), "reads some texts in more than") {
			t.Skip("ambiguous beyond what the engine takes")
		}
		require.NoError(t, err, text)
		for range 10 {
			word := rapid.StringMatching(`[ab]{0,8}`).Draw(t, "word")
			require.Equal(t, re.MatchString(word), g.Match(word), "%s in %s", word, text)
		}
		member, ok := g.Generate(rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))), 12)
		require.True(t, ok)
		require.True(t, re.MatchString(member), "%s in %s", member, text)
	})
}
