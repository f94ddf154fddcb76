package gbnf_test

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/grammar/internal/gbnf"
)

var limits = gbnf.Limits{Repeat: 1000, Depth: 100, Elements: 1 << 19}

func check(text string) error {
	g, err := gbnf.Parse(text, limits)
	if err != nil {
		return err
	}
	return g.Check()
}

// The usual ways to write a grammar, each with texts that are its members and
// texts that are not.
var usual = []struct {
	name, grammar string
	yes, no       []string
}{
	{"arithmetic", `
# sums of products
root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*
`, []string{"x=3\n", "(a +12) *4 = b1\n", "1=1\n2=2\n"}, []string{"", "x=3", "(a=3\n", "1+=2\n", "_=1\n"}},
	{"list", "root ::= item+\n\n# the excluded characters end a line\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n",
		[]string{"- milk\n", "- milk\n- übermäßig\n"}, []string{"- milk", "milk\n", "- \n", "- a\u2028\n"}},
	{"moves", `root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
`, []string{"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 e5\n2. exd5 O-O-O+\n"}, []string{"1. e4 e5\n", "1. e9 e5\n2. e4 e5\n"}},
	{"json", `root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}`,
		[]string{`{}`, `{"a": [1, -2.5e3, "x\u00e9\n", null], "b": {"c": true}}`}, []string{`[]`, `{"a"}`, `{"a": 01}`, "{\"a\": \"\x01\"}"}},
	{"counts", `root ::= "a"{2} "b"{1,3} "c"{2,} [d-f]{0,2}
`, []string{"aabcc", "aabbbccccc", "aabccdf"}, []string{"abcc", "aabbbbcc", "aabc", "aabccddd"}},
	{"across lines", "root ::= (\n  \"a\" # first\n  | \"b\"\n) |\n  \"c\"\r\nunused ::= \"\"\n", []string{"a", "b", "c"}, []string{"", "ab"}},
	{"characters", `root ::= "\x41\u00e9\U0001F600\"\\\[\]" . [\]x^-]`,
		[]string{`Aé😀"\[]?]`, `Aé😀"\[]ü-`, "Aé😀\"\\[]\n^"}, []string{`Aé😀"\[]`, `Aé😀"\[]?a`}},
}

func TestGrammar_UsualOnesAreTaken(t *testing.T) {
	for _, c := range usual {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, check(c.grammar))
			g, err := gbnf.Parse(c.grammar, limits)
			require.NoError(t, err)
			m := gbnf.NewMachine(g)
			for _, text := range c.yes {
				stacks, _ := m.Read(text)
				require.True(t, gbnf.Ended(stacks), "%q", text)
			}
			for _, text := range c.no {
				stacks, _ := m.Read(text)
				require.False(t, gbnf.Ended(stacks), "%q", text)
			}
		})
	}
}

func TestMachine_GeneratedTextsAreMembers(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, c := range usual {
		g, err := gbnf.Parse(c.grammar, limits)
		require.NoError(t, err)
		m := gbnf.NewMachine(g)
		different := map[string]bool{}
		for range 50 {
			text, ok := m.Generate(r, 40)
			require.True(t, ok)
			stacks, _ := m.Read(text)
			require.True(t, gbnf.Ended(stacks), "%s: %q", c.name, text)
			different[text] = true
		}
		require.Greater(t, len(different), 2, c.name)
	}
}

func TestGrammar_WhatTheEngineCannotBearIsRefused(t *testing.T) {
	for _, c := range []struct{ name, grammar, message string }{
		{"empty", "", "the rule root is missing: a grammar begins with it"},
		{"no root", "start ::= \"a\"\n", "the rule root is missing: a grammar begins with it"},
		{"undefined", "root ::= \"a\"\n  b | thing\nb ::= \"b\"", "line 2: expected ::= after b but found '|'"},
		{"undefined rule", "root ::= \"a\" |\n thing\n", "line 2: the rule thing is not defined"},
		{"twice", "root ::= \"a\"\n\nroot ::= \"b\"\n", "line 3: the rule root is defined already, in line 1"},
		{"underscore", "root ::= a_b\n", "line 1: expected the end of the rule but found '_'"},
		{"long name", "root ::= \"x\"\n" + strings.Repeat("A", 257) + ` ::= "a"`, "line 2: the name of a rule has more than 256 bytes: " + strings.Repeat("A", 32) + "..."},
		{"long name used", "root ::= " + strings.Repeat("A", 257), "line 1: the name of a rule has more than 256 bytes: " + strings.Repeat("A", 32) + "..."},
		{"bar first", "root ::= \"a\"\n| \"b\"\n", `line 2: a line cannot begin with "|": end the line before with it, or use parentheses`},
		{"open literal", "root ::= \"a\n", `line 1: a literal lacks its closing "`},
		{"open class", "root ::= [a-", `line 1: a class lacks its closing ]`},
		{"empty class", "root ::= []\n", "line 1: a class is empty"},
		{"backward range", "root ::= [z-a]\n", "line 1: the range 'z'-'a' ends before it begins"},
		{"escape", `root ::= "\d"`, `line 1: the escape \d is not known: there are \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH`},
		{"short escape", `root ::= "\u12"`, `line 1: the escape "\\u12\"" is no code point of 4 hexadecimal digits`},
		{"large escape", `root ::= "\UFFFFFFFF"`, `line 1: the escape "\\UFFFFFFFF" is no code point of 8 hexadecimal digits`},
		{"half escape", `root ::= "\`, `line 1: the grammar ends in the middle of an escape`},
		{"parenthesis", "root ::= (\"a\"\n", `line 2: expected ")" for the "(" of line 1 but found the end`},
		{"lone star", "root ::= * \"a\"\n", "line 1: there is nothing before * to repeat"},
		{"star of nothing", "root ::= \"\"*\n", "line 1: there is nothing before * to repeat"},
		{"large count", "root ::= \"a\"{1,1001}\n", "line 1: the repetition {1,1001} is too large: at most 1000 is allowed"},
		{"huge count", "root ::= \"a\"{99999999999999999999}\n", "line 1: the repetition {99999999999999999999} is too large: at most 1000 is allowed"},
		{"backward count", "root ::= \"a\"{3,2}\n", "line 1: the repetition {3,2} ends before it begins"},
		{"counts of counts", "root ::= (\"abc\"{1000} \"abc\"{1000}){500}{1000}", "line 1: the grammar has more than 524288 elements when its repetitions are written out"},
		{"deep", "root ::= " + strings.Repeat("(", 101) + `"a"` + strings.Repeat(")", 101), "line 1: parentheses are nested deeper than 100"},
		{"token", "root ::= <[12]> \"a\"\n", "line 1: tokens cannot be named in a grammar: write their text as a literal"},
		{"zero", "root ::= \"a\"\x00\n", "line 1: a grammar cannot hold U+0000"},
		{"not UTF-8", "root ::= \"\xff\"\n", "a grammar must be valid UTF-8"},
		{"endless", "root ::= \"a\" b\nb ::= \"b\" b\n", "line 1: the rule root never comes to an end"},
		{"impossible", "root ::= [\\x00]\n", "line 1: the rule root never comes to an end"},
		{"left recursion", "root ::= root \"a\" | \"b\"\n", "line 1: the rule root begins with itself (left recursion), or repeats what may be empty"},
		{"indirect", "root ::= a\na ::= b \"x\"\nb ::= a | \"y\"\n", "line 2: the rule a begins with itself (left recursion): a -> b -> a"},
		{"behind what may be empty", "root ::= e root \"a\" | \"b\"\ne ::= d\nd ::= c*\nc ::= \"c\"\n", "line 1: the rule root begins with itself (left recursion), or repeats what may be empty"},
		{"loop of nothing", "root ::= a*\na ::= b\nb ::= \"b\"?\n", "line 1: the rule root begins with itself (left recursion), or repeats what may be empty"},
		{"pile", "root ::= \"a\" root ws | \"\"\nws ::= \" \"*\n", "line 1: the rule root contains itself before something that may be left out"},
		{"exponential beginnings", double(40, `r%d ::= r%e | r%e`) + "r00 ::= \"a\"\n", "line 1: more than 5000 alternatives are open where the rule root begins"},
		{"exponential readings", "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"\n", "the grammar reads some texts in more than 2000 ways"},
		{"exponential empties", double(40, `r%d ::= r%e r%e`) + "r00 ::= \"a\" | \"\"\n", "line 1: the rule root begins with more than 4000 rules in each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.EqualError(t, check(c.grammar), c.message)
		})
	}
}

// double writes rules of which each refers twice to the next one.
func double(n int, rule string) string {
	var out strings.Builder
	out.WriteString("root ::= r" + itoa(n) + "\n")
	for ; n > 0; n-- {
		out.WriteString(strings.NewReplacer("%d", itoa(n), "%e", itoa(n-1)).Replace(rule) + "\n")
	}
	return out.String()
}

func itoa(n int) string { return string([]byte{'0' + byte(n/10), '0' + byte(n%10)}) }

func FuzzCheck(f *testing.F) {
	for _, c := range usual {
		f.Add(c.grammar)
	}
	f.Add("root ::= (\"a\"? root){0,9} | [^b-\\]]")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		g, err := gbnf.Parse(text, limits)
		if err == nil && g.Check() == nil {
			m := gbnf.NewMachine(g)
			member, ok := m.Generate(rand.New(rand.NewSource(1)), 20)
			require.True(t, ok)
			stacks, _ := m.Read(member)
			require.True(t, gbnf.Ended(stacks), "%q", member)
		}
	})
}
