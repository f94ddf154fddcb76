package grammar

import (
	"encoding/json"
	"math/big"
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/host/grammar/grammartest"
)

func rat(text string) *big.Rat {
	if text == "" {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

func (n numbers) has(x *big.Rat) bool {
	if n.least != nil && (x.Cmp(n.least) < 0 || n.aboveLeast && x.Cmp(n.least) == 0) {
		return false
	}
	if n.most != nil && (x.Cmp(n.most) > 0 || n.belowMost && x.Cmp(n.most) == 0) {
		return false
	}
	if n.multiple != nil && !new(big.Rat).Quo(x, n.multiple).IsInt() {
		return false
	}
	return !n.integer || x.IsInt()
}

func numberGrammar(t require.TestingT, n numbers) *grammartest.Grammar {
	b := NewBuilder(Limits{})
	r, err := b.number(n)
	require.NoError(t, err)
	return compiled(t, b, r)
}

func TestBuilderNumber_Bounds(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       numbers
		yes, no string
	}{
		{"integers", numbers{integer: true}, "0 7 -7 10 123456789012345 -999999999999999", "-0 00 01 +1 1.0 1e3 - 1234567890123456"},
		{"from -5 to 120", numbers{integer: true, least: rat("-5"), most: rat("120")}, "-5 -1 0 9 10 99 100 119 120", "-6 -10 121 130 200 1000"},
		{"from 99 to 1000", numbers{integer: true, least: rat("99"), most: rat("1000")}, "99 100 999 1000", "9 98 1001 0 -99"},
		{"below -12", numbers{integer: true, most: rat("-12"), belowMost: true}, "-13 -20 -99 -100 -999999999999999", "-12 -1 0 12 13"},
		{"between fractions", numbers{integer: true, least: rat("1.5"), most: rat("3.5")}, "2 3", "1 4"},
		{"64 bits", numbers{integer: true, least: rat("0"), most: rat("18446744073709551615")}, "0 18446744073709551615", "18446744073709551616 -1"},
		{"far out", numbers{integer: true, least: rat("123456789012345678901234")}, "123456789012345678901234 999999999999999999999999 1000000000000000000000000", "123456789012345678901233 99999999999999999999999 10000000000000000000000000"},
		{"a huge end", numbers{integer: true, least: rat("0"), most: rat("1e300")}, "0 99999999999999999999", "100000000000000000000"},
		{"multiples of 7", numbers{integer: true, multiple: rat("7")}, "0 7 -14 21 700 -777", "1 8 71"},
		{"multiples of 1000", numbers{integer: true, multiple: rat("1000")}, "0 1000 -21000 120000", "1 100 -500 1001 10100"},
		{"multiples of 64", numbers{integer: true, multiple: rat("64"), least: rat("0")}, "0 64 8192 40960", "1 32 100"},
		{"multiples of a twentieth", numbers{multiple: rat("0.05")}, "0 0.05 -1.5 1.50 0.10 7", "0.01 0.051 1.03"},
		{"integer multiples of 2/3", numbers{integer: true, multiple: big.NewRat(2, 3)}, "0 2 -4", "1 3"},
		{"numbers", numbers{}, "0 0.0 -0.5 1.5 12345.678 123456789012345 0.123456789012345 12345678901234.5 1.50", "-0 -0.0 .5 5. 00.5 1e3 123456789012345.6 0.1234567890123456"},
		{"from 0 to 1", numbers{least: rat("0"), most: rat("1")}, "0 0.5 1 1.0 1.00 0.000000000000001", "-0.1 1.01 2 1.000000000000001"},
		{"above 0", numbers{least: rat("0"), aboveLeast: true, most: rat("1"), belowMost: true}, "0.1 0.000000000000001 0.999999999999999", "0 0.0 1 1.0"},
		{"from -1.25 to 2.5", numbers{least: rat("-1.25"), most: rat("2.5")}, "-1.25 -1.249 -1.2 -1 -0.3 0 2 2.49 2.5 2.50", "-1.251 -1.3 -2 2.51 2.6 3 10"},
		{"finer than the last place", numbers{least: rat("0.12345678901234567"), most: rat("0.2")}, "0.123456789012346 0.2", "0.123456789012345 0.12345678901234 0.1"},
		{"one value", numbers{least: rat("2.5"), most: rat("2.5")}, "2.5 2.50", "2 2.4 2.6 2.51"},
		{"cents", numbers{multiple: rat("0.01"), least: rat("0")}, "0 0.01 1.5 19.99 1.50", "0.001 1.999"},
		{"quarters", numbers{multiple: rat("0.25")}, "0 -0.25 1.5 1.75 2", "0.3 1.05"},
		{"tens", numbers{multiple: rat("10")}, "0 10 -120", "5 15 1.0"},
		{"large fractions", numbers{least: rat("1e15")}, "1000000000000000 9999999999999999 10000000000000000", "999999999999999 1000000000000000.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := numberGrammar(t, c.n)
			for _, text := range strings.Fields(c.yes) {
				require.True(t, g.Match(text), text)
			}
			for _, text := range strings.Fields(c.no) {
				require.False(t, g.Match(text), text)
			}
		})
	}
}

func TestBuilderNumber_RefusesWhatHasNoNumber(t *testing.T) {
	const none = "no number of at most 15 digits lies within the bounds"
	for _, c := range []struct {
		n       numbers
		message string
	}{
		{numbers{integer: true, least: rat("3"), most: rat("2")}, none},
		{numbers{integer: true, least: rat("1.2"), most: rat("1.8")}, none},
		{numbers{least: rat("1"), most: rat("1"), belowMost: true}, none},
		{numbers{least: rat("0.1234567890123451"), most: rat("0.1234567890123459")}, none},
		{numbers{integer: true, least: rat("8"), most: rat("13"), multiple: rat("7")}, none},
		{numbers{multiple: rat("-1")}, "a number cannot be a multiple of -1"},
		{numbers{multiple: big.NewRat(1, 3)}, "a multiple of 1/3 has too many digits to be enforced"},
		{numbers{integer: true, multiple: rat("1e9")}, "a multiple of 1000000000 has too many digits to be enforced"},
		{numbers{integer: true, multiple: rat("99991")}, "the bounds and the step of the number together need more than 16384 states"},
	} {
		_, err := NewBuilder(Limits{}).number(c.n)
		require.EqualError(t, err, c.message)
	}
	_, err := NewBuilder(Limits{}).number(integers(big.NewInt(3), big.NewInt(2)))
	require.EqualError(t, err, none)
}

func TestBuilderNumber_HoldsAtItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := numbers{integer: rapid.Bool().Draw(t, "integer")}
		bound := func(name string) *big.Rat {
			if rapid.IntRange(0, 3).Draw(t, name+" missing") == 0 {
				return nil
			}
			digits := rapid.Int64Range(-1e9, 1e9).Draw(t, name)
			if rapid.Bool().Draw(t, name+" small") {
				digits %= 200
			}
			return new(big.Rat).Quo(rat(strconv.FormatInt(digits, 10)), new(big.Rat).SetInt(power(rapid.IntRange(0, 4).Draw(t, name+" places"))))
		}
		n.least, n.most = bound("least"), bound("most")
		n.aboveLeast, n.belowMost = rapid.Bool().Draw(t, "above"), rapid.Bool().Draw(t, "below")
		if rapid.IntRange(0, 2).Draw(t, "multiple") == 0 {
			n.multiple = rat(rapid.SampledFrom([]string{"1", "2", "3", "5", "7", "10", "12", "0.1", "0.5", "0.25", "0.01", "1.5"}).Draw(t, "of"))
		}
		b := NewBuilder(Limits{})
		r, err := b.number(n)
		if err != nil {
			require.ErrorContains(t, err, "no number")
			return
		}
		g := compiled(t, b, r)
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 5 {
			member, ok := g.Generate(random, random.Intn(20))
			require.True(t, ok)
			require.True(t, json.Valid([]byte(member)), member)
			require.True(t, n.has(rat(member)), "%s", member)
			require.False(t, strings.HasPrefix(member, "-") && rat(member).Sign() == 0, member)
		}
		// Around the bounds and anywhere, a number is in both or in neither.
		near := []*big.Rat{new(big.Rat)}
		for _, x := range []*big.Rat{n.least, n.most} {
			if x != nil {
				near = append(near, x)
			}
		}
		for range 10 {
			x := rapid.SampledFrom(near).Draw(t, "near")
			step := new(big.Rat).Quo(rat(strconv.Itoa(rapid.IntRange(-30, 30).Draw(t, "steps"))), new(big.Rat).SetInt(power(rapid.IntRange(0, 4).Draw(t, "places"))))
			x = new(big.Rat).Add(x, step)
			text := x.FloatString(8)
			text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
			if n.integer != !strings.Contains(text, ".") && n.integer || text == "-0" {
				continue
			}
			require.Equal(t, n.has(rat(text)), g.Match(text), text)
		}
	})
}
