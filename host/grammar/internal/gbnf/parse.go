package gbnf

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxName bounds the bytes of a rule's name, as the engine does.
const maxName = 256

// Limits bound a grammar. All must be set.
type Limits struct {
	Repeat   int // the largest count of a repetition
	Depth    int // nesting of parentheses
	Elements int // characters, classes and names, with repetitions written out
}

// Error is what is wrong with a grammar, and where.
type Error struct {
	Line    int // from 1; 0: no place
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// Grammar is a parsed grammar.
type Grammar struct {
	rules []rule
	root  int
}

// rule is a choice of sequences.
type rule struct {
	name string // of the rule it stands in, if it is a group or a repetition
	line int    // 0: not defined
	used int    // line of the first use
	alts [][]element
}

// element is a reference to a rule or, with ref < 0, a set of characters.
type element struct {
	ref int
	set set
}

// set is characters in intervals, or all others.
type set struct {
	not bool
	in  []interval
}

type interval struct{ lo, hi rune }

// anyChar is each character there is.
var anyChar = set{not: true}

func (s set) has(c rune) bool {
	for _, i := range s.in {
		if i.lo <= c && c <= i.hi {
			return !s.not
		}
	}
	return s.not
}

// Parse reads a grammar. Its error is an *Error.
func Parse(text string, l Limits) (*Grammar, error) {
	p := parser{src: text, limits: l, g: &Grammar{}, ids: map[string]int{}}
	if err := p.grammar(); err != nil {
		return nil, err
	}
	return p.g, nil
}

type parser struct {
	src    string
	pos    int
	limits Limits
	g      *Grammar
	ids    map[string]int
	made   int // elements so far

	counted, lines int // line ends before counted
}

func (p *parser) fail(format string, args ...any) *Error {
	return p.failAt(p.line(p.pos), format, args...)
}

func (p *parser) failAt(line int, format string, args ...any) *Error {
	return &Error{Line: line, Message: fmt.Sprintf(format, args...)}
}

// line is the number of a place's line. It counts on from where it last was: a
// grammar may have a hundred thousand names.
func (p *parser) line(pos int) int {
	if pos < p.counted {
		p.counted, p.lines = 0, 0
	}
	p.lines += strings.Count(p.src[p.counted:pos], "\n")
	p.counted = pos
	return 1 + p.lines
}

func (p *parser) grammar() *Error {
	if i := strings.IndexByte(p.src, 0); i >= 0 {
		return p.failAt(p.line(i), "a grammar cannot hold U+0000")
	}
	if !utf8.ValidString(p.src) {
		return p.failAt(0, "a grammar must be valid UTF-8")
	}
	for p.space(true); p.pos < len(p.src); p.space(true) {
		if err := p.rule(); err != nil {
			return err
		}
	}
	for _, r := range p.g.rules {
		if r.line == 0 {
			return p.failAt(r.used, "the rule %s is not defined", r.name)
		}
	}
	root, ok := p.ids["root"]
	if !ok {
		return p.failAt(0, "the rule root is missing: a grammar begins with it")
	}
	p.g.root = root
	return nil
}

// rule reads "name ::= alternatives" and the end of its line.
func (p *parser) rule() *Error {
	line := p.line(p.pos)
	if p.at("|") {
		return p.fail(`a line cannot begin with "|": end the line before with it, or use parentheses`)
	}
	name, err := p.name()
	if err != nil {
		return err
	}
	if name == "" {
		return p.unexpected("a rule's name, of letters, digits and -,")
	}
	id := p.id(name, line)
	p.space(false)
	if !p.eat("::=") {
		return p.unexpected(fmt.Sprintf("::= after %s", name))
	}
	if r := p.g.rules[id]; r.line > 0 {
		return p.failAt(line, "the rule %s is defined already, in line %d", name, r.line)
	}
	p.g.rules[id].line = line
	p.space(true)
	alts, err := p.alternatives(name, 0)
	if err != nil {
		return err
	}
	p.g.rules[id].alts = alts
	if p.pos < len(p.src) && !p.at("\n") && !p.at("\r") {
		return p.unexpected("the end of the rule")
	}
	return nil
}

func (p *parser) alternatives(name string, depth int) ([][]element, *Error) {
	var alts [][]element
	for {
		seq, err := p.sequence(name, depth)
		if err != nil {
			return nil, err
		}
		alts = append(alts, seq)
		if !p.eat("|") {
			return alts, nil
		}
		p.space(true)
	}
}

func (p *parser) sequence(name string, depth int) ([]element, *Error) {
	var seq []element
	last := 0 // where the item begins that a repetition repeats
	for p.pos < len(p.src) {
		at, before := p.pos, len(seq)
		switch c := p.src[p.pos]; {
		case c == '"':
			lit, err := p.literal()
			if err != nil {
				return nil, err
			}
			seq, last = append(seq, lit...), before
		case c == '[':
			s, err := p.class()
			if err != nil {
				return nil, err
			}
			seq, last = append(seq, element{ref: -1, set: s}), before
		case c == '.':
			p.pos++
			seq, last = append(seq, element{ref: -1, set: anyChar}), before
		case c == '(':
			if depth == p.limits.Depth {
				return nil, p.fail("parentheses are nested deeper than %d", p.limits.Depth)
			}
			p.pos++
			p.space(true)
			line := p.line(at)
			alts, err := p.alternatives(name, depth+1)
			if err != nil {
				return nil, err
			}
			if !p.eat(")") {
				return nil, p.unexpected(fmt.Sprintf(`")" for the "(" of line %d`, line))
			}
			seq, last = append(seq, p.group(name, line, alts)), before
		case isWord(c):
			line := p.line(at)
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			seq, last = append(seq, element{ref: p.id(name, line)}), before
		case strings.IndexByte("*+?{", c) >= 0:
			least, most, err := p.counts()
			if err != nil {
				return nil, err
			}
			if last == len(seq) {
				return nil, p.failAt(p.line(at), "there is nothing before %s to repeat", p.src[at:p.pos])
			}
			if seq, err = p.repeat(seq, last, name, p.line(at), least, most); err != nil {
				return nil, err
			}
		case c == '<' || c == '!':
			return nil, p.fail("tokens cannot be named in a grammar: write their text as a literal")
		default:
			return seq, nil
		}
		if p.made += max(len(seq)-before, 0); p.made > p.limits.Elements {
			return nil, p.tooMany()
		}
		p.space(depth > 0)
	}
	return seq, nil
}

func (p *parser) tooMany() *Error {
	return p.fail("the grammar has more than %d elements when its repetitions are written out", p.limits.Elements)
}

// repeat writes the item that begins at last out: S{m,n} is S m times and then
// n-m rules, each S and the next one or nothing.
func (p *parser) repeat(seq []element, last int, name string, line, least, most int) ([]element, *Error) {
	item := append([]element(nil), seq[last:]...)
	optional := 1
	if most >= 0 {
		optional = most - least
	}
	if n := len(item); n > 0 && least+optional > p.limits.Elements/n {
		return nil, p.tooMany()
	}
	p.made += (len(item) + 1) * (least + optional)
	seq = seq[:last]
	for range least {
		seq = append(seq, item...)
	}
	rest := -1
	for range optional {
		if most < 0 {
			rest = len(p.g.rules) // the rule itself
		}
		more := append([]element(nil), item...)
		if rest >= 0 {
			more = append(more, element{ref: rest})
		}
		rest = p.group(name, line, [][]element{more, nil}).ref
	}
	if rest >= 0 {
		seq = append(seq, element{ref: rest})
	}
	return seq, nil
}

func (p *parser) group(name string, line int, alts [][]element) element {
	p.g.rules = append(p.g.rules, rule{name: name, line: line, used: line, alts: alts})
	return element{ref: len(p.g.rules) - 1}
}

func (p *parser) id(name string, line int) int {
	id, ok := p.ids[name]
	if !ok {
		id = len(p.g.rules)
		p.ids[name] = id
		p.g.rules = append(p.g.rules, rule{name: name, used: line})
	}
	return id
}
