package grammar

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
	spaceClass = class{chars(" \t\n\f\r"), union([]charset{chars(" \t\n\v\f\r\u0085\ufeff\u2028\u2029"), fromTable(unicode.Zs)})}
	dot        = anyChar.minus(chars("\n\r\u2028\u2029"))
)

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
