package grammar

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPatternDepth bounds the groups of a pattern in each other.
const maxPatternDepth = 100

// expr is a parsed pattern.
type expr struct {
	op          op
	set         charset // opSet
	subs        []*expr // opSequence, opChoice; one for opRepeat
	least, most int     // opRepeat; most < 0: no bound
}

type op int

const (
	opSequence op = iota // without subs: the empty text
	opChoice
	opRepeat
	opSet
	opBegin // nothing before
	opEnd   // nothing behind
)

// size is the number of places in the pattern when its repetitions are written out.
func (e *expr) size() int {
	sum := 1
	for _, s := range e.subs {
		sum += s.size()
		if sum > math.MaxInt32 {
			return math.MaxInt32
		}
	}
	if e.op == opRepeat {
		return min(sum*max(e.most, e.least, 1), math.MaxInt32)
	}
	return sum
}

// parsePattern reads what the regular expressions of ECMA-262, RE2 and Python
// have in common. The error is a sentence that names the place.
func parsePattern(pattern string, repeat int) (*expr, error) {
	if !utf8.ValidString(pattern) {
		return nil, &Error{Message: "the pattern must be valid UTF-8"}
	}
	p := patternParser{src: pattern, repeat: repeat, tables: map[string]class{}}
	e := p.choice(0)
	if p.err == nil && p.pos < len(p.src) {
		p.fail(`has a ")" too many`)
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

type patternParser struct {
	src    string
	pos    int
	repeat int // the largest count
	tables map[string]class
	err    *Error // the first failure; the parser then is at the end of src
}

// fail says what the pattern has, at the place reached.
func (p *patternParser) fail(format string, args ...any) {
	if p.err == nil {
		at := 1 + utf8.RuneCountInString(p.src[:p.pos])
		p.err = &Error{Message: fmt.Sprintf("the pattern "+format, args...) + fmt.Sprintf(", at character %d", at)}
	}
	p.pos = len(p.src)
}

// refuse is for what a pattern may have elsewhere.
func (p *patternParser) refuse(what string) { p.fail("has %s, which cannot be enforced", what) }

func (p *patternParser) choice(depth int) *expr {
	e := &expr{op: opChoice}
	for {
		e.subs = append(e.subs, p.sequence(depth))
		if !p.eat("|") {
			break
		}
	}
	if len(e.subs) == 1 {
		return e.subs[0]
	}
	return e
}

func (p *patternParser) sequence(depth int) *expr {
	e := &expr{}
	for p.pos < len(p.src) && !p.at("|") && !p.at(")") {
		one := p.atom(depth)
		if p.err != nil {
			break
		}
		e.subs = append(e.subs, p.repeated(one))
	}
	return e
}

func (p *patternParser) atom(depth int) *expr {
	switch c, n := utf8.DecodeRuneInString(p.src[p.pos:]); c {
	case '(':
		return p.group(depth)
	case '[':
		return &expr{op: opSet, set: p.class()}
	case '\\':
		c, _ := p.escape(false)
		return &expr{op: opSet, set: c.sure}
	case '.':
		p.pos += n
		return &expr{op: opSet, set: dot}
	case '^':
		p.pos += n
		return &expr{op: opBegin}
	case '$':
		p.pos += n
		return &expr{op: opEnd}
	case '*', '+', '?':
		p.fail("has nothing before %q to repeat", c)
		return nil
	case '{':
		at := p.pos
		if _, _, ok := p.counts(); ok {
			p.pos = at
			p.fail("has nothing before a repetition to repeat")
		}
		if p.err != nil {
			return nil
		}
		fallthrough
	default:
		p.pos += n
		return &expr{op: opSet, set: charset{{c, c}}}
	}
}

func (p *patternParser) group(depth int) *expr {
	if depth == maxPatternDepth {
		p.fail("has groups nested deeper than %d", maxPatternDepth)
		return nil
	}
	at := p.pos
	switch {
	case p.at("(?="), p.at("(?!"):
		p.refuse("a lookahead " + p.src[at:at+3])
	case p.at("(?<="), p.at("(?<!"):
		p.refuse("a lookbehind " + p.src[at:at+4])
	case p.at("(?>"):
		p.refuse("an atomic group (?>")
	case p.at("(?P="), p.at("(?P>"):
		p.refuse("a reference to a group")
	case p.eat("(?:"):
	case p.eat("(?<"), p.eat("(?P<"):
		name, _, ok := strings.Cut(p.src[p.pos:], ">")
		if !ok || name == "" {
			p.fail("has a group whose name does not end")
			return nil
		}
		p.pos += len(name) + 1
	case p.at("(?"):
		p.refuse("a group with flags or a comment (?")
	default:
		p.pos++
	}
	e := p.choice(depth + 1)
	if p.err == nil && !p.eat(")") {
		p.pos = at
		p.fail(`has a "(" without ")"`)
	}
	return e
}

// repeated reads the counts behind an atom, if any.
func (p *patternParser) repeated(e *expr) *expr {
	least, most := 0, 0
	at := p.pos
	switch {
	case p.eat("*"):
		most = -1
	case p.eat("+"):
		least, most = 1, -1
	case p.eat("?"):
		most = 1
	case p.at("{"):
		var ok bool
		if least, most, ok = p.counts(); !ok {
			return e
		}
	default:
		return e
	}
	p.eat("?") // as little as possible: the same texts match
	switch {
	case p.err != nil:
	case e.op == opBegin || e.op == opEnd:
		p.pos = at
		p.fail("repeats an anchor")
	case p.at("+") || p.at("*") || p.at("?"):
		p.refuse("a possessive or doubled repetition")
	}
	return &expr{op: opRepeat, subs: []*expr{e}, least: least, most: most}
}

// counts reads {n}, {n,} or {n,m}. Any other { is a character.
func (p *patternParser) counts() (least, most int, ok bool) {
	inner, _, closed := strings.Cut(p.src[p.pos+1:], "}")
	from, to, ranged := strings.Cut(inner, ",")
	if !closed || !isNumber(from) && from != "" || !isNumber(to) && to != "" || inner == "" || inner == "," {
		return 0, 0, false
	}
	if from == "" {
		// Python reads {,5} as {0,5}, the others as five characters.
		p.fail("has a repetition {%s}, which means different things to different readers: write {0,%s}", inner, to)
		return 0, 0, false
	}
	least, errLeast := strconv.Atoi(from)
	most = least
	var errMost error
	if ranged {
		most = -1
		if to != "" {
			most, errMost = strconv.Atoi(to)
		}
	}
	switch {
	case errLeast != nil || errMost != nil || max(least, most) > p.repeat:
		p.fail("has a repetition {%.40s} that is too large: at most %d is allowed", inner, p.repeat)
		return 0, 0, false
	case most >= 0 && most < least:
		p.fail("has a repetition {%s} that ends before it begins", inner)
		return 0, 0, false
	}
	p.pos += len(inner) + 2
	return least, most, true
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (p *patternParser) at(s string) bool { return strings.HasPrefix(p.src[p.pos:], s) }

func (p *patternParser) eat(s string) bool {
	if !p.at(s) {
		return false
	}
	p.pos += len(s)
	return true
}
