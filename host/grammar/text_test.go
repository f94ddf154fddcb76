package grammar

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/host/grammar/grammartest"
)

func TestBuilderJSONString_IsAnyStringOfItsLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.IntRange(0, 9).Draw(t, "least")
		most := rapid.SampledFrom([]int{-1, least, least + 1, least + 20}).Draw(t, "most")
		b := NewBuilder(Limits{})
		g := compiled(t, b, b.jsonString(least, most))
		fits := func(s string) bool {
			n := utf8.RuneCountInString(s)
			return n >= least && (most < 0 || n <= most)
		}
		s := rapid.StringN(0, 30, -1).Draw(t, "text")
		for _, html := range []bool{true, false} {
			var out strings.Builder
			encoder := json.NewEncoder(&out)
			encoder.SetEscapeHTML(html)
			require.NoError(t, encoder.Encode(s))
			text := strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\x7f", `\u007F`)
			require.Equal(t, fits(s), g.Match(text), text)
		}
		member, ok := g.Generate(rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))), 40)
		require.True(t, ok)
		var back string
		require.NoError(t, json.Unmarshal([]byte(member), &back), member)
		require.True(t, fits(back), member)
	})
}

func TestBuilderJSONString_EscapesAreWholeCharacters(t *testing.T) {
	b := NewBuilder(Limits{})
	g := compiled(t, b, b.jsonString(1, 1))
	for _, text := range []string{`"a"`, `"\""`, `"\\"`, `"\/"`, `"\u00e9"`, `"\uD83D\uDE00"`, `"😀"`, `"\ud7ff"`} {
		require.True(t, g.Match(text), text)
	}
	for _, text := range []string{`""`, `"ab"`, `"\"`, `"\x"`, `"\u00g0"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, "\"\n\"", "\"\x7f\"", `"\ud83d\ude00a"`} {
		require.False(t, g.Match(text), text)
	}
}

// One reading at a time, whatever the bounds: a character, an escape, the end.
func TestBuilderJSONString_HasOneReading(t *testing.T) {
	for _, bounds := range [][2]int{{0, -1}, {3, 1000}, {500, 1000}, {1000, 1000}} {
		b := NewBuilder(Limits{})
		g := compiled(t, b, b.jsonString(bounds[0], bounds[1]))
		require.LessOrEqual(t, g.Stacks(`"`+strings.Repeat(`a\n`, 400)), 4)
	}
}

// Long bounds are counted in blocks: few rules, and two readings.
func TestBuilderJSONString_LongBoundsAreExactAndSmall(t *testing.T) {
	for _, bounds := range [][2]int{{0, 1001}, {0, 4096}, {7, 5000}, {4096, 4096}, {1, 10_000}, {10_000, -1}, {3000, 9999}} {
		least, most := bounds[0], bounds[1]
		b := NewBuilder(Limits{})
		g := compiled(t, b, b.jsonString(least, most))
		require.Less(t, b.size, 10<<10)
		size := 32
		if most > least {
			size = int(math.Sqrt(float64(most - least)))
		}
		for _, n := range []int{0, 1, least - 1, least, least + 1, least + size - 1, least + size, least + size + 1, least + 2*size, (least + most) / 2, most - size, most - 1, most, most + 1, most + size} {
			if n >= 0 {
				text := `"` + strings.Repeat(`é`, n)
				require.Equal(t, n >= least && (most < 0 || n <= most), g.Match(text+`"`), "%d of %v", n, bounds)
				require.Equal(t, most < 0 || n <= most, g.Prefix(text), "%d of %v", n, bounds)
			}
		}
		require.LessOrEqual(t, g.Stacks(`"`+strings.Repeat(`a\n`, max(least, most)/2)), 7)
	}
}

func TestBuilderJSONMatching_AllConditionsHoldTogether(t *testing.T) {
	b := NewBuilder(Limits{})
	r, err := b.jsonMatching([]string{`^[a-f]`, `[0-9]$`, `^[^x]*$`}, []string{"hostname"}, 3, 5)
	require.NoError(t, err)
	g := compiled(t, b, r)
	for _, text := range []string{`"a.1"`, `"ab-c9"`} {
		require.True(t, g.Match(text), text)
	}
	for _, text := range []string{`"a1"`, `"abcde1"`, `"axb1"`, `"g.1"`, `"a.b"`, `"a-.1"`} {
		require.False(t, g.Match(text), text)
	}
	_, err = b.jsonMatching([]string{`^a`, `^b`}, nil, 0, -1)
	require.EqualError(t, err, "no text meets the pattern, the format and the lengths together")
	_, err = b.jsonMatching(nil, []string{"date"}, 11, -1)
	require.EqualError(t, err, "no text meets the pattern, the format and the lengths together")
	_, err = b.jsonMatching([]string{`^a`}, nil, 0, 50000)
	require.EqualError(t, err, "a string of 50000 characters is too large a bound: at most 10000 is allowed")
	_, err = b.jsonMatching([]string{`a$b`}, nil, 0, -1)
	require.EqualError(t, err, "no text matches the pattern")
	_, err = b.jsonMatching([]string{`^a{0,600}b?$`}, nil, 3, 900)
	require.NoError(t, err)
	_, err = NewBuilder(Limits{}).jsonMatching([]string{`(a|b)*a(a|b){9}c`}, nil, 0, 900)
	require.EqualError(t, err, "the conditions on the text together need more than 16384 states")
}

func TestAutomaton_Lengths(t *testing.T) {
	for pattern, want := range map[string][2]int{
		`a`: {1, 1}, `a|bcd`: {1, 3}, `(ab?){2,4}`: {2, 8}, `a*`: {0, -1}, `ab+c|d`: {1, -1}, `x(yx)*`: {1, -1}, `[0-9]{40}`: {40, 40}, `|abc?`: {0, 3},
	} {
		d, err := NewBuilder(Limits{}).compile(pattern, false)
		require.NoError(t, err)
		require.True(t, d.trim())
		shortest, longest := d.lengths()
		require.Equal(t, want, [2]int{shortest, longest}, pattern)
	}
	shortest, longest := count(3, 7).lengths()
	require.Equal(t, [2]int{3, 7}, [2]int{shortest, longest})
}

// To count what is bounded anyway would multiply the states.
func TestBuilderJSONMatching_LengthsThatHoldAnywayCostNothing(t *testing.T) {
	size := func(least, most int) int {
		b := NewBuilder(Limits{})
		_, err := b.jsonMatching(nil, []string{"email"}, least, most)
		require.NoError(t, err)
		return b.size
	}
	require.Equal(t, size(0, -1), size(5, 254))
}

func formatOf(t require.TestingT, name string) *grammartest.Grammar {
	b := NewBuilder(Limits{})
	r, err := b.jsonMatching(nil, []string{name}, 0, -1)
	require.NoError(t, err)
	return compiled(t, b, r)
}

func TestBuilderJSONFormat_MembersAreValid(t *testing.T) {
	for name := range formats {
		t.Run(name, func(t *testing.T) {
			c := jsonschema.NewCompiler()
			c.AssertFormat()
			require.NoError(t, c.AddResource("s", map[string]any{"format": name}))
			schema, err := c.Compile("s")
			require.NoError(t, err)
			require.Error(t, schema.Validate("? "), "the validator knows the format")
			g := formatOf(t, name)
			r := rand.New(rand.NewSource(7))
			for range 1000 {
				member, ok := g.Generate(r, 1+r.Intn(120))
				require.True(t, ok)
				var s string
				require.NoError(t, json.Unmarshal([]byte(member), &s))
				require.NoError(t, schema.Validate(s), s)
			}
		})
	}
}

func TestBuilderJSONFormat_TakesWhatPeopleWrite(t *testing.T) {
	for name, c := range map[string]struct{ yes, no []string }{
		"date":      {[]string{"2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"}, []string{"2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "24-01-01", "0000-01-01"}},
		"time":      {[]string{"23:59:59Z", "00:00:00.123+05:30"}, []string{"24:00:00Z", "23:59:60Z", "12:00:00", "12:00:00.Z", "12:00:00+24:00"}},
		"date-time": {[]string{"2024-02-29T12:30:00Z", "2024-01-01T00:00:00.5-08:00"}, []string{"2024-02-30T12:30:00Z", "2024-02-29 12:30:00Z", "2024-02-29"}},
		"duration":  {[]string{"P3Y6M4DT12H30M5S", "PT36H", "P4W", "P1D"}, []string{"P", "PT", "P1Y1D", "1D", "P1W1D"}},
		"uuid":      {[]string{"123e4567-E89b-12d3-a456-426614174000"}, []string{"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"}},
		"email":     {[]string{"jo.smith+tag@mail.example.com", "x@y.de"}, []string{"@example.com", "a@b", "a..b@c.de", ".a@c.de", "a@-c.de", "a b@c.de"}},
		"hostname":  {[]string{"localhost", "www.example-1.com"}, []string{"", "-a.com", "a-.com", "a..b", "a_b", strings.Repeat("a", 64)}},
		"ipv4":      {[]string{"0.0.0.0", "255.249.10.1"}, []string{"256.1.1.1", "1.1.1", "01.1.1.1", "1.1.1.1.1"}},
		"ipv6":      {[]string{"::", "::1", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8", "1::", "1:2:3:4:5:6:7::"}, []string{"1:2:3:4:5:6:7", "1::2::3", "1:2:3:4:5:6:7:8:9", "12345::", ":1"}},
		"uri":       {[]string{"https://example.com:8080/a/b%20c?q=1&r=a/b#top", "mailto:jo@example.com", "urn:isbn:123"}, []string{"example.com", "/a", "http://a b", "https://x/%zz", "https://x.y:port/"}},
	} {
		g := formatOf(t, name)
		for _, s := range c.yes {
			require.True(t, g.Match(`"`+s+`"`), "%s %s", name, s)
		}
		for _, s := range c.no {
			require.False(t, g.Match(`"`+s+`"`), "%s %s", name, s)
		}
	}
	_, err := NewBuilder(Limits{}).jsonMatching(nil, []string{"idn-email"}, 0, -1)
	require.EqualError(t, err, `the format "idn-email" cannot be enforced: those that can are date, date-time, duration, email, hostname, ipv4, ipv6, time, uri, uuid`)
}

func TestBuilderJSONFormat_DatesAreThoseOfTheCalendar(t *testing.T) {
	g := formatOf(t, "date")
	for _, year := range []int{1, 4, 96, 100, 400, 1600, 1899, 1900, 1996, 2000, 2023, 2024, 2100, 2400, 9999} {
		for month := range 14 {
			for day := range 33 {
				text := fmt.Sprintf("%04d-%02d-%02d", year, month, day)
				_, err := time.Parse(time.DateOnly, text)
				require.Equal(t, err == nil, g.Match(`"`+text+`"`), text)
			}
		}
	}
}
