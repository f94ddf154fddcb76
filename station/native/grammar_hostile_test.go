//go:build cgo

package native

import (
	"math/rand"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// TestGrammar_Hostile: what made llama.cpp's grammar overflow its stack or never
// come back is refused, or answers; the next request is served.
func TestGrammar_Hostile(t *testing.T) {
	e, h := modelRow(t)
	nested := func(open, inner, shut string, n int) string {
		return "root ::= " + strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	var many strings.Builder
	many.WriteString("root ::= (")
	for range 4000 {
		many.WriteString(`"x"? | `)
	}
	many.WriteString(`"y")* "z"`)
	for name, g := range map[string]string{
		"stars of stars":   `root ::= (("a"*)*)*`,
		"many stars":       nested("(", `"a"*`, ")*", 100),
		"two ways a star":  nested("(", `"a"* "a"*`, ")* \"a\"*", 60),
		"many nothings":    many.String(),
		"doubling":         "root ::= s\ns ::= \"x\" s \"y\" | \"x\" s \"z\" | [x-z a-w]",
		"two recursions":   "root ::= s\ns ::= s2 | \"a\" s s | [a-z ]\ns2 ::= \"a\" s s2 s | [a-z ] s",
		"any way":          "root ::= ([a-z ]+ | [a-z ]* [a-z ] | [^0-9] root2)* \nroot2 ::= [^0-9] root2 [^0-9] | [^0-9] [^0-9] root2 | [^0-9]",
		"everywhere else":  "root ::= . root . | . root . . | [^a] root [^b] | \"q\"",
		"long optional":    `root ::= ([a-z ]?){0,3000}`,
		"large":            "root ::= " + strings.Repeat(`[a-z ]{0,900} | `, 500) + `"q"`,
		"wide":             "root ::= [a-z ] (" + strings.Repeat(`[a-z ] [a-z ] | `, 8000) + `"q")*`,
		"chain":            "root ::= " + strings.Repeat(`("a"|"b"|"c d")? `, 3000),
		"counting nothing": `root ::= (("a"?){0,100}){0,100} "b"`,
		"deep":             nested("(", `"a"`, ")", 128),
	} {
		t.Run(name, func(t *testing.T) {
			for _, temperature := range []float32{0, 1.5} {
				p := hot(temperature)
				p.Grammar = g
				start := time.Now()
				smp, err := e.NewSampler(p, nil)
				parsed := time.Since(start)
				if err != nil {
					require.ErrorIs(t, err, engine.ErrGrammar)
					t.Logf("refused in %s: %v", parsed.Round(time.Microsecond), err)
					continue
				}
				out := make([]engine.Sampled, 1)
				var slowest, all time.Duration
				n := 0
				for ; n < 60; n++ {
					start = time.Now()
					require.NoError(t, e.Sample([]engine.SampleRequest{{Held: h, Sampler: smp}}, out))
					took := time.Since(start)
					slowest, all = max(slowest, took), all+took
					if out[0].Err != nil {
						require.ErrorIs(t, out[0].Err, engine.ErrGrammar)
						break
					}
					if isEOG(e, out[0].Token) {
						break
					}
				}
				t.Logf("parsed in %s, %d tokens in %s, slowest %s: %v", parsed.Round(time.Microsecond), n, all.Round(time.Microsecond), slowest.Round(time.Microsecond), out[0].Err)
				smp.Free()
			}
		})
	}
	require.NotEmpty(t, draws(t, e, h, plain(), nil, 1))
}

// TestGrammar_LargeAndHonest: what large schemas become stays within the bounds
// that stop hostile ones, also at a row where every token must be looked for.
func TestGrammar_LargeAndHonest(t *testing.T) {
	e, h := modelRow(t)
	x := logits(e, h)
	r := rand.New(rand.NewSource(5))
	word := func() string {
		b := make([]byte, 4+r.Intn(12))
		for i := range b {
			b[i] = byte('a' + r.Intn(26))
		}
		return string(b)
	}
	var enum, optional, variants strings.Builder
	enum.WriteString("root ::= \"[\" word (\", \" word){20} \"]\"\nword ::= \"\\\"x\\\"\"")
	for range 4000 {
		enum.WriteString(` | "\"` + word() + `\""`)
	}
	optional.WriteString("root ::= \"{\" p0 \"}\"\np200 ::= \"\\\"end\\\": 1\"\n")
	for i := range 200 {
		optional.WriteString("p" + strconv.Itoa(i) + ` ::= ("\"` + word() + `\": " [0-9]{1,20} ", ")? p` + strconv.Itoa(i+1) + "\n")
	}
	variants.WriteString("root ::= v (\", \" v){9}\nv ::= \"{}\"")
	for range 60 {
		variants.WriteString(` | "{\"kind\": \"" [a-z]{0,40} "\", \"` + word() + `\": \"" [^"]{0,60} "\"}"`)
	}
	for name, g := range map[string]string{
		"enum": enum.String(), "optional": optional.String(), "variants": variants.String(), "json": anyJSON, "orders": orders,
		"long string": `root ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" ["\\/bfnrt]){100,4000} "\""`,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				p := hot(1)
				p.Seed, p.Grammar = seed, g
				smp := must(e.NewSampler(p, nil))
				out := make([]engine.Sampled, 1)
				for range 150 {
					require.NoError(t, e.Sample([]engine.SampleRequest{{Held: h, Sampler: smp}}, out))
					require.NoError(t, out[0].Err)
					if isEOG(e, out[0].Token) {
						break
					}
				}
				smp.Free()
			}
		})
	}
}

// TestGrammar_MemoryIsBoundedBeforeTheFirstDraw: what a grammar takes counts from
// its parsing on, and those kept stay within their bound, drawn from or not.
func TestGrammar_MemoryIsBoundedBeforeTheFirstDraw(t *testing.T) {
	const bound = 128 << 20 // match.hpp's max_size
	e, h := modelRow(t)
	p := hot(1)
	p.Grammar = `root ::= "` + strings.Repeat("a", 100_000) + `"`
	before := e.grammarsSize()
	must(e.NewSampler(p, nil)).Free()
	require.Greater(t, e.grammarsSize(), before+500_000, "the text and the rules count")

	out := make([]engine.Sampled, 1)
	for levels := 8; levels <= 13; levels++ {
		p.Grammar = ambiguous("n", levels, 50)
		before := e.grammarsSize()
		smp, err := e.NewSampler(p, nil)
		if levels >= 11 {
			require.ErrorIs(t, err, engine.ErrGrammar, "%d levels", levels)
			require.Equal(t, before, e.grammarsSize())
			continue
		}
		require.NoError(t, err, "%d levels", levels)
		require.Greater(t, e.grammarsSize(), before+(100*60<<levels), "%d levels count before a draw", levels)
		before = e.grammarsSize()
		require.NoError(t, e.Sample([]engine.SampleRequest{{Held: h, Sampler: smp}}, out))
		require.Greater(t, e.grammarsSize(), before, "and after it: %v", out[0].Err)
		smp.Free()
	}
	for i := range 32 {
		p.Grammar = ambiguous(strings.Repeat("m", i+1), 10, 50)
		must(e.NewSampler(p, nil)).Free()
		require.LessOrEqual(t, e.grammarsSize(), bound)
	}
	require.Greater(t, e.grammarsSize(), bound/2, "as many as there is room for")
}
