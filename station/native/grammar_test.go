//go:build cgo

package native

import (
	"bytes"
	"math"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

func TestSample_Grammar(t *testing.T) {
	e := open(t, nil)
	prompt := text(t, e, question)
	for _, c := range []struct{ name, grammar, want string }{
		{"choice", `root ::= "yes" | "no"`, ""},
		{"digits", `root ::= [0-9] [0-9] [0-9]`, ""},
		{"object", "root ::= \"{\" ws \"\\\"name\\\":\" ws str \"}\"\nstr ::= \"\\\"\" [a-z]{1,8} \"\\\"\"\nws ::= [ ]?\n", ""},
		{"umlaut", `root ::= "grün"`, "grün"},
	} {
		for _, temperature := range []float32{0, 0.8, 1.5} {
			for _, topP := range []float32{1, 0.9} {
				e.Reset()
				row := prefill(t, e, 0, prompt, 0, 64)
				p := hot(temperature)
				p.TopP, p.Grammar = topP, c.grammar
				smp := must(e.NewSampler(p, nil))
				out := make([]engine.Sampled, 1)
				var answer []engine.Token
				var b engine.Batch
				for pos := len(prompt); ; pos++ {
					require.Less(t, len(answer), 40, "%s does not end: %q", c.name, detokenize(e, answer))
					require.NoError(t, e.Sample([]engine.SampleRequest{{Row: row, Sampler: smp}}, out))
					if isEOG(e, out[0].Token) {
						break
					}
					answer = append(answer, out[0].Token)
					b.Reset()
					row = b.Add(out[0].Token, pos, 0, true)
					require.NoError(t, e.Decode(&b))
				}
				smp.Free()
				got := detokenize(e, answer)
				switch c.name {
				case "choice":
					require.Contains(t, []string{"yes", "no"}, got)
				case "digits":
					require.Regexp(t, `^[0-9]{3}$`, got)
				case "object":
					require.Regexp(t, `^\{ ?"name": ?"[a-z]{1,8}"\}$`, got)
				default:
					require.Equal(t, c.want, got)
				}
			}
		}
	}
}

func TestSample_FinishedGrammarEndsEvenUnderNoEOG(t *testing.T) {
	e, h := modelRow(t)
	p := hot(1)
	p.Grammar = `root ::= "a"`
	smp := must(e.NewSampler(p, nil))
	defer smp.Free()
	out := make([]engine.Sampled, 1)
	for i := range 3 {
		require.NoError(t, e.Sample([]engine.SampleRequest{{Held: h, Sampler: smp, NoEOG: true}}, out))
		require.Equal(t, i > 0, isEOG(e, out[0].Token), "draw %d", i)
	}
}

func TestNewSampler_BadGrammar(t *testing.T) {
	e := open(t, nil)
	for name, g := range map[string]string{
		"no syntax":      "hello",
		"open":           `root ::= ("a"`,
		"no root":        `start ::= "a"`,
		"unknown rule":   `root ::= other`,
		"left recursion": "root ::= root \"a\" | \"b\"",
		"deep":           "root ::= " + strings.Repeat("(", 100000) + "\"a\"" + strings.Repeat(")", 100000),
		"repetition":     `root ::= "a"{1,1000000}`,
		"written out":    "root ::= " + strings.Repeat(`[a-z]{0,60000} `, 20),
		"range":          `root ::= [z-a]`,
		"empty class":    `root ::= []`,
		"twice":          "root ::= \"a\"\nroot ::= \"b\"",
		"token":          `root ::= <[5]>`,
		"hidden":         "root ::= x root \"b\" | \"c\"\nx ::= \"a\"?",
		"never ready":    "root ::= (ws root)* \"x\"\nws ::= \" \"*",
		"ways":           `root ::= (([a-z]?){0,1000}){0,1000}`,
		"name":           "root ::= \"x\"\n" + strings.Repeat("A", 250000) + ` ::= "a"{0,65536}`, // once copied to each step
		"ranges":         "root ::= [" + strings.Repeat("a", 600_000) + "]",
		"classes":        "root ::= " + inverted(120_000),
		"NUL":            "root ::= \"a\x00\"",
		"long":           `root ::= "` + strings.Repeat("a", maxGrammar) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			p := plain()
			p.Grammar = g
			_, err := e.NewSampler(p, nil)
			require.ErrorIs(t, err, engine.ErrGrammar)
		})
	}
}

// inverted are n classes, each all characters but another one.
func inverted(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("[^" + string(rune(0x10000+i*7)) + "]")
	}
	return b.String()
}

// orders is what a JSON schema of nested objects, arrays, an enum and bounded
// strings becomes.
const orders = `root ::= "{\"orders\": [" order (", " order)* "]}"
order ::= "{\"id\": " int ", \"customer\": " customer ", \"status\": " status ", \"items\": [" item (", " item){0,5} "], \"note\": " string "}"
customer ::= "{\"name\": " string ", \"email\": " string ", \"vip\": " ("true" | "false") "}"
status ::= "\"new\"" | "\"paid\"" | "\"shipped\"" | "\"delivered\"" | "\"cancelled\""
item ::= "{\"sku\": " string ", \"count\": " int ", \"price\": " number "}"
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})){0,40} "\""
int ::= "-"? ("0" | [1-9] [0-9]{0,8})
number ::= int ("." [0-9]{1,6})?
`

const anyJSON = `root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
array ::= "[" (value (", " value)*)? "]"
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
`

// TestGrammar_AllowsWhatLlamaAllows walks random texts of grammars and compares,
// at every token, the set allowed with llama.cpp's, which tries each token; but
// for control tokens, and for what llama.cpp lets begin that is no UTF-8.
func TestGrammar_AllowsWhatLlamaAllows(t *testing.T) {
	e := open(t, nil)
	for name, g := range map[string]string{
		"choice":    `root ::= "yes" | "no" | "yesterday"`,
		"orders":    orders,
		"json":      anyJSON,
		"letters":   "root ::= [a-zäöü日本語-龥]+ [^a-z\"]{2,5} .",
		"emoji":     `root ::= "🦜"? [🦀-🦜]* "é" ("日本" | "日記") [^\x00-\x7F]*`,
		"ambiguous": "root ::= s*\ns ::= \"x\" s | \"x\" | \"xx\" s \"y\" | [xyz]",
		"empty":     `root ::= "a"? ("b"? "c"?){0,3} " end"?`,
		"comments":  "# one\nroot ::= a b # two\na ::= (\n \"p\" |\n \"q\" )\nb ::= [\\]\\x41-\\u0043\\\\]+",
	} {
		t.Run(name, func(t *testing.T) {
			p := plain()
			p.Grammar = g
			for seed := range int64(4) {
				r := rand.New(rand.NewSource(seed))
				var taken []engine.Token
				for len(taken) < 25 {
					ours, err := e.grammarTokens(p, taken, false)
					require.NoError(t, err)
					theirs, err := e.grammarTokens(p, taken, true)
					require.NoError(t, err)
					var may []engine.Token
					for i := range ours {
						tok := engine.Token(i)
						switch {
						case len(e.Piece(tok, false)) == 0 && !isEOG(e, tok):
							require.False(t, ours[i], "token %d writes nothing", i)
							continue
						case isEOG(e, tok) && !utf8.Valid(joined(e, taken)), bytes.HasPrefix(e.Piece(tok, false), []byte{0}):
							continue // llama.cpp ends inside a character, and never takes a NUL
						case ours[i] && !isEOG(e, tok):
							may = append(may, tok)
						}
						if ours[i] != theirs[i] && !startsNoCharacter(append(joined(e, taken), e.Piece(tok, false)...)) {
							t.Fatalf("after %q: token %d %q: ours %v, llama.cpp's %v", joined(e, taken), i, e.Piece(tok, true), ours[i], theirs[i])
						}
					}
					if len(may) == 0 {
						break
					}
					taken = append(taken, may[r.Intn(len(may))])
				}
			}
		})
	}
}

// startsNoCharacter says whether text ends in bytes that no character of UTF-8
// begins with, which llama.cpp lets pass for a while.
func startsNoCharacter(text []byte) bool {
	for n := 1; n <= min(3, len(text)); n++ {
		tail := text[len(text)-n:]
		if tail[0] < 0xC0 {
			continue
		}
		for _, more := range [][]byte{{0x80}, {0xBF}, {0x9F}, {0x90}, {0xA0}} {
			full := append(append([]byte(nil), tail...), more...)
			for len(full) < 4 {
				if len(bytes.ToValidUTF8(full, nil)) == len(full) {
					return false
				}
				full = append(full, 0x80)
			}
			if len(bytes.ToValidUTF8(full, nil)) == len(full) {
				return false
			}
		}
		return true
	}
	return false
}

func joined(e *native, tokens []engine.Token) []byte {
	var out []byte
	for _, t := range tokens {
		out = append(out, e.Piece(t, false)...)
	}
	return out
}

// TestGrammar_DrawsTheConditionedDistribution: drawn under a grammar, the row's
// softmax over what the grammar allows, though a token is drawn before it is tested.
func TestGrammar_DrawsTheConditionedDistribution(t *testing.T) {
	e, h := modelRow(t)
	x := logits(e, h)
	digits := make([]engine.Token, 10)
	for i := range digits {
		digits[i] = text(t, e, string(rune('0'+i)))[0]
	}
	for i := range x {
		x[i] = -8 // the others hold 0.94 of the mass: most draws are refused
	}
	var sum float64
	for i, d := range digits {
		x[d] = float32(i%4)/2 - 1
		sum += math.Exp(float64(x[d]))
	}
	const n = 1200
	for name, change := range map[string]func(*engine.SamplerParams){
		"row":     func(*engine.SamplerParams) {},
		"top_k":   func(p *engine.SamplerParams) { p.TopK = 200 },
		"top_p":   func(p *engine.SamplerParams) { p.TopP = 0.9999 },
		"min_p":   func(p *engine.SamplerParams) { p.MinP = 0.0001 },
		"typical": func(p *engine.SamplerParams) { p.TypicalP = 0.9999 },
	} {
		t.Run(name, func(t *testing.T) {
			counts := map[engine.Token]int{}
			for i := range n / 20 {
				p := hot(1)
				p.Seed, p.Grammar = uint64(i), `root ::= [0-9]{20}`
				change(&p)
				for _, tok := range draws(t, e, h, p, nil, 20) {
					counts[tok]++
				}
			}
			for _, d := range digits {
				q := math.Exp(float64(x[d])) / sum
				require.InDelta(t, q*n, float64(counts[d]), 5*math.Sqrt(q*(1-q)*n), "digit %q", e.Piece(d, false))
			}
			require.Len(t, counts, len(digits))
		})
	}
}

// TestGrammar_ControlTokens: they satisfy a grammar only where they are written.
func TestGrammar_ControlTokens(t *testing.T) {
	e := open(t, nil)
	p := plain()
	p.Grammar = `root ::= "<|im_start|>" | "<file_sep>" [a-z]+ | .{3,}`
	start, sep := text(t, e, "<|im_start|>")[0], text(t, e, "<file_sep>")[0]
	require.Empty(t, e.Piece(start, false))
	may, err := e.grammarTokens(p, nil, false)
	require.NoError(t, err)
	require.False(t, may[start])
	require.False(t, may[sep])
	p.ControlText = true
	may, err = e.grammarTokens(p, nil, false)
	require.NoError(t, err)
	require.True(t, may[start])
	require.True(t, may[sep])
	for _, eog := range e.info.EOG {
		require.False(t, may[eog], "an end matches no text, its own neither")
	}
}

// TestGrammar_SharesNothingButWhatIsKnown: sequences of one grammar go their own ways.
func TestGrammar_SharesNothingButWhatIsKnown(t *testing.T) {
	e, h := modelRow(t)
	p := hot(1.5)
	p.Grammar = `root ::= [a-z]{8} [0-9]{8} "."`
	alone := draws(t, e, h, p, nil, 12)
	a, b := must(e.NewSampler(p, nil)), must(e.NewSampler(hot(1.5), nil))
	defer a.Free()
	defer b.Free()
	var others []engine.Sampler
	for i := range 4 {
		q := p
		q.Seed = uint64(i + 100)
		others = append(others, must(e.NewSampler(q, nil)))
	}
	out := make([]engine.Sampled, 6)
	for i := range alone {
		reqs := []engine.SampleRequest{{Held: h, Sampler: a}, {Held: h, Sampler: b}}
		for _, o := range others {
			reqs = append(reqs, engine.SampleRequest{Held: h, Sampler: o})
		}
		require.NoError(t, e.Sample(reqs, out))
		require.Equal(t, alone[i], out[0].Token)
	}
	for _, o := range others {
		o.Free()
	}
}

// TestGrammar_GoesOnWhenWhatIsKnownIsThrownAway: thousands of levels, each with
// its own set of tokens, fill it more than once; then each level is closed by
// what it was opened with.
func TestGrammar_GoesOnWhenWhatIsKnownIsThrownAway(t *testing.T) {
	e, h := modelRow(t)
	x := logits(e, h)
	for i := range x {
		x[i] = 0
	}
	p := hot(1)
	p.Grammar = `root ::= "a" root "b" | "c" root "d" | "~"`
	turn := text(t, e, "~")[0]
	x[turn] = -80
	smp := must(e.NewSampler(p, nil))
	defer smp.Free()
	out := make([]engine.Sampled, 1)
	var tokens []engine.Token
	for {
		require.NoError(t, e.Sample([]engine.SampleRequest{{Held: h, Sampler: smp}}, out))
		require.NoError(t, out[0].Err)
		if isEOG(e, out[0].Token) {
			break
		}
		tokens = append(tokens, out[0].Token)
		if len(tokens) == 6000 {
			x[turn] = 80
		}
	}
	opened, closed, ok := strings.Cut(string(joined(e, tokens)), "~")
	require.True(t, ok)
	require.GreaterOrEqual(t, len(opened), 6000)
	want := []byte(strings.NewReplacer("a", "b", "c", "d").Replace(opened))
	slices.Reverse(want)
	require.Equal(t, string(want), closed)
}

// TestGrammar_LaggardsGoOn: sequences that stopped early go on when what is known
// was thrown away, and filled again by another, however far.
func TestGrammar_LaggardsGoOn(t *testing.T) {
	e, h := modelRow(t)
	x := logits(e, h)
	for i := range x {
		x[i] = 0
	}
	p := hot(1)
	p.Grammar = `root ::= "a" root "b" | "c" root "d" | "~"`
	x[text(t, e, "~")[0]] = -80
	out := make([]engine.Sampled, 1)
	draw := func(s engine.Sampler) {
		require.NoError(t, e.Sample([]engine.SampleRequest{{Held: h, Sampler: s}}, out))
		require.NoError(t, out[0].Err)
	}
	ahead := must(e.NewSampler(p, nil))
	defer ahead.Free()
	var laggards []engine.Sampler
	for range 40 {
		s := must(e.NewSampler(p, nil))
		defer s.Free()
		draw(s)
		laggards = append(laggards, s)
	}
	for i := range 150 * len(laggards) {
		draw(ahead)
		if i%150 == 149 {
			draw(laggards[i/150])
		}
	}
}

// ambiguous is a grammar that may begin in 2^levels ways, each with a chain of
// rules below it; its rules are called after name.
func ambiguous(name string, levels, chain int) string {
	var b strings.Builder
	b.WriteString("root ::= " + name + "r0\n")
	for i := range levels {
		next := name + "r" + strconv.Itoa(i+1)
		b.WriteString(name + "r" + strconv.Itoa(i) + " ::= " + next + ` "x" | ` + next + " \"y\"\n")
	}
	b.WriteString(name + "r" + strconv.Itoa(levels) + " ::= " + name + "c0\n")
	for i := range chain {
		b.WriteString(name + "c" + strconv.Itoa(i) + " ::= " + name + "c" + strconv.Itoa(i+1) + " \"z\"\n")
	}
	b.WriteString(name + "c" + strconv.Itoa(chain) + " ::= [a-z]\n")
	return b.String()
}

// BenchmarkGrammar is a token of an answer that follows orders: free, then bound.
func BenchmarkGrammar(b *testing.B) {
	e, h := modelRow(b)
	for _, c := range []struct {
		name   string
		change func(*engine.SamplerParams)
	}{
		{"greedy", func(p *engine.SamplerParams) { p.Temperature = 0 }},
		{"top_k", func(p *engine.SamplerParams) { p.TopK = 40 }},
		{"top_p", func(p *engine.SamplerParams) { p.TopP = 0.95 }},
		{"temperature", func(p *engine.SamplerParams) {}},
	} {
		for _, g := range []string{"", orders} {
			name := c.name + "/free"
			if g != "" {
				name = c.name + "/bound"
			}
			b.Run(name, func(b *testing.B) {
				p := hot(0.8)
				c.change(&p)
				p.Grammar = g
				smp := must(e.NewSampler(p, nil))
				out := make([]engine.Sampled, 1)
				for b.Loop() {
					if err := e.Sample([]engine.SampleRequest{{Held: h, Sampler: smp}}, out); err != nil || out[0].Err != nil {
						b.Fatal(err, out[0].Err)
					}
					if isEOG(e, out[0].Token) {
						smp.Free()
						p.Seed++
						smp = must(e.NewSampler(p, nil))
					}
				}
				smp.Free()
			})
		}
	}
}
