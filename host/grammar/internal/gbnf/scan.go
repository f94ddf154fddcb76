package gbnf

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// counts reads *, +, ? or {m,n}; most < 0 means no bound.
func (p *parser) counts() (least, most int, err *Error) {
	at := p.pos
	p.pos++
	switch p.src[at] {
	case '*':
		return 0, -1, nil
	case '+':
		return 1, -1, nil
	case '?':
		return 0, 1, nil
	}
	number := func() int {
		p.space(false)
		begin := p.pos
		for p.pos < len(p.src) && p.src[p.pos] >= '0' && p.src[p.pos] <= '9' {
			p.pos++
		}
		digits := p.src[begin:p.pos]
		p.space(false)
		if digits == "" {
			return -1
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return math.MaxInt
		}
		return n
	}
	if least = number(); least < 0 {
		return 0, 0, p.unexpected("a number in the repetition")
	}
	most = least
	if p.eat(",") {
		most = number()
	}
	if !p.eat("}") {
		return 0, 0, p.unexpected(`"}" at the end of the repetition`)
	}
	if max(least, most) > p.limits.Repeat {
		return 0, 0, p.fail("the repetition %.40s is too large: at most %d is allowed", p.src[at:p.pos], p.limits.Repeat)
	}
	if most >= 0 && most < least {
		return 0, 0, p.fail("the repetition %s ends before it begins", p.src[at:p.pos])
	}
	return least, most, nil
}

func (p *parser) literal() ([]element, *Error) {
	var seq []element
	line := p.line(p.pos)
	for p.pos++; !p.eat(`"`); {
		if p.pos == len(p.src) {
			return nil, p.failAt(line, `a literal lacks its closing "`)
		}
		c, err := p.char()
		if err != nil {
			return nil, err
		}
		seq = append(seq, element{ref: -1, set: set{in: []interval{{c, c}}}})
	}
	return seq, nil
}

func (p *parser) class() (set, *Error) {
	var s set
	line := p.line(p.pos)
	p.pos++
	s.not = p.eat("^")
	for !p.eat("]") {
		if p.pos == len(p.src) {
			return s, p.failAt(line, "a class lacks its closing ]")
		}
		lo, err := p.char()
		if err != nil {
			return s, err
		}
		hi := lo
		if p.at("-") && !p.at("-]") {
			p.pos++
			if p.pos == len(p.src) {
				continue
			}
			if hi, err = p.char(); err != nil {
				return s, err
			}
			if hi < lo {
				return s, p.fail("the range %q-%q ends before it begins", lo, hi)
			}
		}
		s.in = append(s.in, interval{lo, hi})
	}
	if len(s.in) == 0 {
		return s, p.fail("a class is empty")
	}
	return s, nil
}

// char reads one character, written as itself or as an escape.
func (p *parser) char() (rune, *Error) {
	c, n := utf8.DecodeRuneInString(p.src[p.pos:])
	if c != '\\' {
		p.pos += n
		return c, nil
	}
	at := p.pos
	if p.pos += 2; p.pos > len(p.src) {
		p.pos = at
		return 0, p.fail("the grammar ends in the middle of an escape")
	}
	digits := 0
	switch e := p.src[at+1]; e {
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case '\\', '"', '[', ']':
		return rune(e), nil
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return 0, p.fail(`the escape %.2s is not known: there are \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH`, p.src[at:])
	}
	end := min(p.pos+digits, len(p.src))
	v, err := strconv.ParseUint(p.src[p.pos:end], 16, 32)
	if err != nil || end-p.pos < digits || v > utf8.MaxRune {
		return 0, p.fail("the escape %q is no code point of %d hexadecimal digits", p.src[at:end], digits)
	}
	p.pos = end
	return rune(v), nil
}

// name reads a name, or nothing where none begins.
func (p *parser) name() (string, *Error) {
	at := p.pos
	for p.pos < len(p.src) && isWord(p.src[p.pos]) {
		p.pos++
	}
	if p.pos-at > maxName {
		return "", p.fail("the name of a rule has more than %d bytes: %.32s...", maxName, p.src[at:p.pos])
	}
	return p.src[at:p.pos], nil
}

// space skips blanks and comments, and line ends where a rule may go on.
func (p *parser) space(lines bool) {
	for ; p.pos < len(p.src); p.pos++ {
		switch c := p.src[p.pos]; {
		case c == '#':
			for p.pos < len(p.src) && p.src[p.pos] != '\n' && p.src[p.pos] != '\r' {
				p.pos++
			}
			p.pos--
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
		default:
			return
		}
	}
}

func (p *parser) at(s string) bool { return strings.HasPrefix(p.src[p.pos:], s) }

func (p *parser) eat(s string) bool {
	if !p.at(s) {
		return false
	}
	p.pos += len(s)
	return true
}

func (p *parser) unexpected(want string) *Error {
	found := "the end"
	if p.pos < len(p.src) {
		c, _ := utf8.DecodeRuneInString(p.src[p.pos:])
		found = strconv.QuoteRune(c)
	}
	return p.fail("expected %s but found %s", want, found)
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}
