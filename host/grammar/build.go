package grammar

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// start is the symbol a grammar begins with.
const start = "root"

// workPerByte bounds the work on the automata of one grammar by its size: a
// pattern may cost much and add little. All of it is a tenth of a second.
const workPerByte = 8

// perState is what a state of an automaton costs besides its edges.
const perState = 8

// withDefaults fills what is zero.
func (l Limits) withDefaults() Limits {
	return Limits{
		SchemaBytes: cmp.Or(l.SchemaBytes, 64<<10),
		Depth:       cmp.Or(l.Depth, 32),
		Nodes:       cmp.Or(l.Nodes, 2000),
		Enum:        cmp.Or(l.Enum, 1000),
		Repeat:      cmp.Or(l.Repeat, 1000),
		Length:      cmp.Or(l.Length, 10_000),
		GrammarSize: cmp.Or(l.GrammarSize, 256<<10),
	}
}

// A Builder makes rules and puts them together. It writes no parentheses and no
// operators: whatever is not a literal or a class becomes a rule of its own, and
// equal bodies become one rule, so that a grammar is as small as what it says.
//
// A failure, such as a grammar beyond Limits.GrammarSize, is remembered: from
// then on the methods return the empty rule at once and Build returns the error.
// That is how a hostile request costs no more than the limit.
//
// A Builder serves one grammar and one goroutine.
type Builder struct {
	limits Limits
	rules  map[Rule]*rule
	made   map[string]Rule // what was made before, by what it says
	size   int             // bytes of all rules
	texts  map[string]dfa  // automata of patterns, made before
	work   int             // left for making and writing more of them
	steps  int             // taken for schemas
	keys   []string        // of made, in order: what to undo
	names  []Rule          // of rules, in order
	err    *Error          // the first failure
}

// rule is a named rule: a choice of sequences.
type rule struct {
	alts     [][]Rule
	defined  bool
	named    bool // by those who use the builder
	nullable bool // matches the empty text
}

// NewBuilder returns an empty builder.
func NewBuilder(l Limits) *Builder {
	l = l.withDefaults()
	return &Builder{
		limits: l,
		rules:  map[Rule]*rule{start: {}},
		made:   map[string]Rule{},
		texts:  map[string]dfa{},
		work:   workPerByte * l.GrammarSize,
	}
}

// Literal is exactly this text. It must be valid UTF-8 and without U+0000, which
// ends a token's text in the engine and never matches.
func (b *Builder) Literal(text string) Rule {
	if text == "" || b.err != nil {
		return ""
	}
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return b.fail("the text %.40q cannot stand in a grammar: it must be valid UTF-8 without U+0000", text)
	}
	if len(text) > b.limits.GrammarSize {
		return b.tooLarge()
	}
	return quote(text)
}

// Sequence is the rules one after the other.
func (b *Builder) Sequence(r ...Rule) Rule {
	if seq := compact(r); len(seq) == 1 {
		return seq[0]
	} else if len(seq) > 1 {
		return b.add(seq)
	}
	return ""
}

// Choice is any one of the rules. Literals among them become one tree of their
// letters, so that the engine follows one of them instead of all.
func (b *Builder) Choice(r ...Rule) Rule {
	if len(r) == 0 {
		return b.fail("a choice needs at least one rule")
	}
	var alts [][]Rule
	var texts []string
	for _, one := range r {
		if text, ok := unquote(one); ok {
			texts = append(texts, text)
		} else {
			alts = append(alts, b.inline(one))
		}
	}
	if len(texts) > 0 {
		tree := b.words(texts)
		if len(alts) == 0 {
			return tree
		}
		alts = append(alts, compact([]Rule{tree}))
	}
	if len(alts) == 1 && len(alts[0]) == 1 {
		return alts[0][0]
	}
	return b.add(alts...)
}

// inline is the body of a rule of ours that is one sequence, else the rule.
func (b *Builder) inline(r Rule) []Rule {
	if d := b.rules[r]; d != nil && d.defined && !d.named && len(d.alts) == 1 {
		return d.alts[0]
	}
	return compact([]Rule{r})
}

// Rule names a rule, for those who read the grammar. A name that is taken by
// another body gets a number behind it.
func (b *Builder) Rule(name string, body Rule) Rule {
	if b.err != nil {
		return ""
	}
	return b.once("\x00"+name+" ::= "+string(body), func() Rule {
		r := b.declare(name)
		b.rules[r].named = true
		b.define(r, b.inline(body))
		return r
	})
}

// Build is the finished grammar: root and the rules it needs, in the order in
// which they are first named. Any failure so far is its error.
func (b *Builder) Build(root Rule) (string, error) {
	var out strings.Builder
	seen := map[Rule]bool{start: true}
	queue := []Rule{start}
	altsOf := func(r Rule) [][]Rule {
		if r == start {
			return [][]Rule{b.inline(root)}
		}
		return b.rules[r].alts
	}
	for len(queue) > 0 && b.err == nil {
		r := queue[0]
		queue = queue[1:]
		alts := altsOf(r)
		out.WriteString(string(r) + " ::= " + body(alts) + "\n")
		if out.Len() > b.limits.GrammarSize {
			b.tooLarge()
		}
		for _, seq := range alts {
			for _, item := range seq {
				for _, name := range references(item) {
					if seen[name] {
						continue
					}
					seen[name] = true
					if known := b.rules[name]; known == nil || !known.defined {
						b.fail("the rule %s is not defined", name)
						continue
					}
					queue = append(queue, name)
				}
			}
		}
	}
	if b.err != nil {
		return "", b.err
	}
	return out.String(), nil
}

// declare reserves a name, for a rule that refers to itself; define gives it its
// body. An empty hint takes a short name.
func (b *Builder) declare(hint string) Rule {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, hint)
	if len(name) > 40 {
		name = name[:40]
	}
	if name == "" {
		name = "r" + strconv.Itoa(len(b.rules))
	}
	r := Rule(name)
	for i := 2; b.rules[r] != nil; i++ {
		r = Rule(name + "-" + strconv.Itoa(i))
	}
	b.rules[r] = &rule{}
	b.names = append(b.names, r)
	return r
}

func (b *Builder) define(r Rule, alts ...[]Rule) {
	if b.err != nil {
		return
	}
	own := make([][]Rule, len(alts))
	for i, seq := range alts {
		own[i] = slices.Clone(seq)
		for j, item := range seq {
			if item == self {
				own[i][j] = r
			}
		}
	}
	d := b.rules[r]
	d.alts, d.defined = own, true
	d.nullable = slices.ContainsFunc(own, b.allNullable)
	if b.size += len(r) + len(" ::= \n") + len(body(own)); b.size > b.limits.GrammarSize {
		b.tooLarge()
	}
}

// self stands in a body for the rule itself. It is no rule's name: names have no @.
const self Rule = "@"

// add is the rule of these alternatives, a new one if there is none yet.
func (b *Builder) add(alts ...[]Rule) Rule {
	if b.err != nil {
		return ""
	}
	alts = distinct(alts)
	return b.once(body(alts), func() Rule {
		r := b.declare("")
		b.define(r, alts...)
		return r
	})
}

// once is the rule that make returned when it was first called for this key: a
// body, or what no body is because it begins with a zero.
func (b *Builder) once(key string, make func() Rule) Rule {
	if r, ok := b.made[key]; ok {
		return r
	}
	r := make()
	b.keep(key, r)
	return r
}

func (b *Builder) keep(key string, r Rule) {
	b.made[key] = r
	b.keys = append(b.keys, key)
}

func (b *Builder) allNullable(seq []Rule) bool {
	return !slices.ContainsFunc(seq, func(r Rule) bool { return !b.nullable(r) })
}

// nullable tells whether the rule matches the empty text.
func (b *Builder) nullable(r Rule) bool {
	if d := b.rules[r]; d != nil {
		return d.nullable
	}
	return r == "" || r == `""`
}

// fail remembers the first failure and returns the empty rule.
func (b *Builder) fail(format string, args ...any) Rule {
	if b.err == nil {
		b.err = &Error{Message: fmt.Sprintf(format, args...)}
	}
	return ""
}

// failed remembers a failure that happened elsewhere.
func (b *Builder) failed(err error) Rule {
	var e *Error
	if errors.As(err, &e) && b.err == nil {
		b.err = e
		return ""
	}
	return b.fail("%v", err)
}

// spend takes work from what is left of it. The error says that it was too much.
func (b *Builder) spend(n int) error {
	if b.work -= n; b.work >= 0 {
		return nil
	}
	return failure("the strings and numbers together take more than %d steps to compile, %d for each byte a grammar may have",
		workPerByte*b.limits.GrammarSize, workPerByte)
}

// failure is an error that no place in a schema belongs to.
func failure(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

func (b *Builder) tooLarge() Rule {
	return b.fail("the grammar would have more than %d bytes", b.limits.GrammarSize)
}

// compact drops empty rules and makes literals that meet one literal.
func compact(r []Rule) []Rule {
	var seq []Rule
	for _, one := range r {
		if one == "" || one == `""` {
			continue
		}
		if n := len(seq); n > 0 && isLiteral(seq[n-1]) && isLiteral(one) {
			seq[n-1] = seq[n-1][:len(seq[n-1])-1] + one[1:]
		} else {
			seq = append(seq, one)
		}
	}
	return seq
}

func distinct(alts [][]Rule) [][]Rule {
	var out [][]Rule
	for _, seq := range alts {
		if !slices.ContainsFunc(out, func(other []Rule) bool { return slices.Equal(other, seq) }) {
			out = append(out, seq)
		}
	}
	return out
}

// body is the text of a rule. The empty sequence is written as the empty
// literal: llama.cpp takes what follows a bare | at a line's end for its
// continuation.
func body(alts [][]Rule) string {
	var out strings.Builder
	for i, seq := range alts {
		if i > 0 {
			out.WriteString(" | ")
		}
		for j, item := range seq {
			if j > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(string(item))
		}
		if len(seq) == 0 {
			out.WriteString(`""`)
		}
	}
	return out.String()
}
