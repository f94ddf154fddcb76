package grammar

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
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

// class is a set of characters as a pattern names it. Dialects do not agree on
// all of them: sure are those every dialect means, some those any of them means.
// A pattern is read so that what it matches, it matches in all.
type class struct{ sure, some charset }

func (c class) not() class { return class{anyChar.minus(c.some), anyChar.minus(c.sure)} }

func exactly(s charset) class { return class{s, s} }

var (
	digitClass = exactly(charset{{'0', '9'}})
	wordClass  = exactly(newCharset(interval{'0', '9'}, interval{'A', 'Z'}, interval{'a', 'z'}, interval{'_', '_'}))
	// ECMA-262 counts Unicode's spaces as spaces, Go and RE2 do not.
	spaceClass = class{chars(" \t\n\f\r"), chars(" \t\n\v\f\r\u0085\ufeff\u2028\u2029").union(fromTable(unicode.Zs))}
	dot        = anyChar.minus(chars("\n\r\u2028\u2029"))
)

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

// class reads a set in brackets.
func (p *patternParser) class() charset {
	at := p.pos
	p.pos++
	negated := p.eat("^")
	if p.at("]") {
		p.fail(`has a class that begins with "]", which means different things to different readers: write \], or [\s\S] for any character`)
		return nil
	}
	var sure, some []interval
	for !p.eat("]") {
		if p.pos == len(p.src) {
			p.pos = at
			p.fail("has a class that lacks its closing ]")
			return nil
		}
		if p.at("[:") || p.at("[=") || p.at("[.") {
			p.refuse("a POSIX class " + p.src[p.pos:p.pos+2])
			return nil
		}
		lo, single := p.member()
		if p.err == nil && p.at("-") && !p.at("-]") {
			p.pos++
			if p.pos == len(p.src) {
				continue
			}
			hi, also := p.member()
			switch {
			case p.err != nil:
			case !single || !also:
				p.fail("has a range one end of which is a class")
			case hi.sure[0].lo < lo.sure[0].lo:
				p.fail("has a range %q-%q that ends before it begins", lo.sure[0].lo, hi.sure[0].lo)
			default:
				lo = exactly(charset{{lo.sure[0].lo, hi.sure[0].lo}})
			}
		}
		if p.err != nil {
			return nil
		}
		sure, some = append(sure, lo.sure...), append(some, lo.some...)
	}
	set := class{newCharset(sure...), newCharset(some...)}
	if negated {
		set = set.not()
	}
	return set.sure
}

// member reads one member of a class; single: it is one character.
func (p *patternParser) member() (c class, single bool) {
	if p.at(`\`) {
		return p.escape(true)
	}
	char, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	return exactly(charset{{char, char}}), n > 0
}

// escape reads what begins with a backslash.
func (p *patternParser) escape(inClass bool) (c class, single bool) {
	at := p.pos
	if p.pos+1 == len(p.src) {
		p.fail("ends in a backslash")
		return class{}, false
	}
	e := p.src[p.pos+1]
	p.pos += 2
	one := func(c rune) (class, bool) { return exactly(charset{{c, c}}), true }
	switch e {
	case 'd':
		return digitClass, false
	case 'D':
		return digitClass.not(), false
	case 'w':
		return wordClass, false
	case 'W':
		return wordClass.not(), false
	case 's':
		return spaceClass, false
	case 'S':
		return spaceClass.not(), false
	case 'p', 'P':
		return p.property(at, e == 'P'), false
	case 't':
		return one('\t')
	case 'n':
		return one('\n')
	case 'r':
		return one('\r')
	case 'f':
		return one('\f')
	case 'v':
		return one('\v')
	case '0':
		if p.pos == len(p.src) || p.src[p.pos] < '0' || p.src[p.pos] > '9' {
			return one(0)
		}
	case 'c':
		if p.pos < len(p.src) && unicode.IsLetter(rune(p.src[p.pos])) && p.src[p.pos] < 0x80 {
			p.pos++
			return one(rune(p.src[p.pos-1] & 0x1f))
		}
	case 'x', 'u':
		if c, ok := p.codePoint(e); ok {
			return one(c)
		}
	case 'b':
		if inClass {
			return one('\b')
		}
		fallthrough
	case 'B':
		p.pos = at
		p.refuse(`a word boundary \` + string(e))
		return class{}, false
	case 'A', 'Z', 'z', 'G':
		p.pos = at
		p.refuse(`an anchor \` + string(e) + ` other than ^ and $`)
		return class{}, false
	case 'k', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		p.pos = at
		p.refuse("a reference to a group")
		return class{}, false
	default:
		if e < 0x80 && (unicode.IsPunct(rune(e)) || unicode.IsSymbol(rune(e)) || e == ' ') {
			return one(rune(e))
		}
	}
	p.pos = at
	shown, _ := utf8.DecodeRuneInString(p.src[at+1:])
	p.fail(`has an escape \%c that is not known`, shown)
	return class{}, false
}

// codePoint reads the digits of \xHH, \uHHHH or \u{H}; two surrogates are one
// character.
func (p *patternParser) codePoint(kind byte) (rune, bool) {
	hex := func(n int) (rune, bool) {
		if p.pos+n > len(p.src) {
			return 0, false
		}
		v, err := strconv.ParseUint(p.src[p.pos:p.pos+n], 16, 32)
		if err != nil {
			return 0, false
		}
		p.pos += n
		return rune(v), v <= unicode.MaxRune
	}
	if kind == 'x' {
		return hex(2)
	}
	if p.eat("{") {
		n := strings.IndexByte(p.src[p.pos:], '}')
		if n < 1 || n > 6 {
			return 0, false
		}
		c, ok := hex(n)
		p.pos++
		return c, ok && utf8.ValidRune(c)
	}
	c, ok := hex(4)
	if ok && c >= 0xd800 && c < 0xdc00 && p.eat(`\u`) {
		low, lowOK := hex(4)
		return 0x10000 + (c-0xd800)<<10 + low - 0xdc00, lowOK && low >= 0xdc00 && low < 0xe000
	}
	return c, ok && utf8.ValidRune(c)
}

// property reads \p{L}, \p{Letter}, \p{Script=Greek} or \pL.
func (p *patternParser) property(at int, negated bool) class {
	name := ""
	if p.eat("{") {
		var ok bool
		if name, _, ok = strings.Cut(p.src[p.pos:], "}"); ok {
			p.pos += len(name) + 1
		}
	} else if p.pos < len(p.src) {
		name = p.src[p.pos : p.pos+1]
		p.pos++
	}
	c, known := p.tables[name]
	if !known {
		table := unicodeTable(name)
		if table == nil {
			p.pos = at
			p.fail(`has a property \p{%.40s} that is not known`, name)
			return class{}
		}
		c = exactly(fromTable(table))
		p.tables[name] = c
	}
	if negated {
		return c.not()
	}
	return c
}

// unicodeTable is a script or general category by its name, or nil.
func unicodeTable(name string) *unicode.RangeTable {
	kind, value, ok := strings.Cut(name, "=")
	if !ok {
		value = name
	}
	switch kind {
	case "Script", "sc":
		return unicode.Scripts[value]
	case "General_Category", "gc", name:
		if alias := unicode.CategoryAliases[value]; alias != "" {
			value = alias
		}
		if table := unicode.Categories[value]; table != nil || kind != name {
			return table
		}
		return unicode.Scripts[value]
	}
	return nil
}

func (p *patternParser) at(s string) bool { return strings.HasPrefix(p.src[p.pos:], s) }

func (p *patternParser) eat(s string) bool {
	if !p.at(s) {
		return false
	}
	p.pos += len(s)
	return true
}
