package grammar

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quote is the literal of a text.
func quote(text string) Rule {
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range text {
		writeChar(&out, c, `"\`)
	}
	out.WriteByte('"')
	return Rule(out.String())
}

// writeChar writes a code point as it stands in a literal or a class; special
// are those that mean something there. Parentheses and braces are escaped too:
// the station counts them without looking whether they are in a literal.
func writeChar(out *strings.Builder, c rune, special string) {
	switch {
	case c == '\n':
		out.WriteString(`\n`)
	case c == '\r':
		out.WriteString(`\r`)
	case c == '\t':
		out.WriteString(`\t`)
	case strings.ContainsRune(special, c) && strings.ContainsRune(`"\[]`, c):
		out.WriteByte('\\')
		out.WriteRune(c)
	case c < 0x80 && (!unicode.IsPrint(c) || strings.ContainsRune(special, c) || strings.ContainsRune("(){", c)):
		fmt.Fprintf(out, `\x%02X`, c)
	case !unicode.IsPrint(c) && c < 0x10000:
		fmt.Fprintf(out, `\u%04X`, c)
	case !unicode.IsPrint(c):
		fmt.Fprintf(out, `\U%08X`, c)
	default:
		out.WriteRune(c)
	}
}

// unquote is the text of a literal, and whether the rule is one.
func unquote(r Rule) (string, bool) {
	if !isLiteral(r) {
		return "", false
	}
	var out strings.Builder
	for s := string(r[1 : len(r)-1]); s != ""; {
		c, n := utf8.DecodeRuneInString(s)
		if c == '\\' {
			c, n = rune(s[1]), 2
			switch c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'x':
				n = 4
			case 'u':
				n = 6
			case 'U':
				n = 10
			}
			if n > 2 {
				v, err := strconv.ParseUint(s[2:min(n, len(s))], 16, 32)
				if err != nil || n > len(s) {
					return "", false
				}
				c = rune(v)
			}
		}
		out.WriteRune(c)
		s = s[n:]
	}
	return out.String(), true
}

// isLiteral tells whether the rule is one literal and nothing else.
func isLiteral(r Rule) bool {
	return len(r) >= 2 && r[0] == '"' && closing(string(r), '"') == len(r)
}

// closing is the length of the literal or class s begins with, up to and with
// its end; 0 when it has none.
func closing(s string, end byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case end:
			return i + 1
		}
	}
	return 0
}

// references lists the rules an expression refers to.
func references(r Rule) []Rule {
	var out []Rule
	for s := string(r); s != ""; {
		n := 1
		switch {
		case s[0] == '"':
			n = cmp.Or(closing(s, '"'), len(s))
		case s[0] == '[':
			n = cmp.Or(closing(s, ']'), len(s))
		case s[0] == '{':
			n = cmp.Or(closing(s, '}'), len(s))
		case isWord(s[0]):
			for n < len(s) && isWord(s[n]) {
				n++
			}
			out = append(out, Rule(s[:n]))
		}
		s = s[n:]
	}
	return out
}

// isWord tells whether a rule's name may have this byte.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}
