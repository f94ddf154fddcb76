package grammar

import "fmt"

// jsonString is the JSON literal, quotes included, of a string of least to most
// code points; most < 0 means no bound. Every way JSON has to write a character
// is open, for a model that has begun an escape must be able to end it in the
// character it means; a pair of surrogates is one character and stays together.
func (b *Builder) jsonString(least, most int) Rule {
	if n := max(least, most); n > b.limits.Length {
		return b.fail("a string of %d characters is too large a bound: at most %d is allowed", n, b.limits.Length)
	}
	char := b.once("\x00a character of a JSON string", func() Rule {
		hex := Rule("[0-9A-Fa-f]")
		low := b.Sequence(`"\\u"`, "[Dd]", "[C-Fc-f]", hex, hex)
		unit := b.Choice(
			b.Sequence("[0-9A-CEFa-cef]", hex, hex, hex),
			b.Sequence("[Dd]", b.Choice(
				b.Sequence("[0-7]", hex, hex),
				b.Sequence("[89ABab]", hex, hex, low))))
		return b.Choice(jsonRaw.rule(), b.Sequence(`"\\"`, b.Choice(`["\\/bfnrt]`, b.Sequence(`"u"`, unit))))
	})
	return b.Sequence(`"\""`, b.times(char, least), b.upTo(char, most-least, most < 0, `"\""`))
}

// jsonRaw are the characters that stand in a JSON string as they are.
var jsonRaw = anyChar.minus(charset{{0, 0x1f}, {0x7f, 0x7f}}).minus(chars(`"\`))

// jsonMatching is the JSON literal of a string of least to most code points that
// has all the formats, and in which all the patterns match: in all of it only if
// they say so by ^ and $. There is at least one of them.
func (b *Builder) jsonMatching(patterns, formats []string, least, most int) (Rule, error) {
	d, err := b.matching(patterns, formats)
	if err != nil {
		return "", err
	}
	if n := max(least, most); n > b.limits.Length {
		return "", failure("a string of %d characters is too large a bound: at most %d is allowed", n, b.limits.Length)
	}
	// Mostly a format keeps the lengths by itself; to count would multiply it.
	if shortest, longest := d.lengths(); shortest < least || most >= 0 && (longest < 0 || longest > most) {
		if err := b.spend(max(least, most)); err != nil {
			return "", err
		}
		if d, err = b.both(d, count(least, most)); err != nil {
			return "", err
		}
	}
	return b.jsonText(d)
}

// matching is the automaton of the texts that have all the formats and in which
// all the patterns match.
func (b *Builder) matching(patterns, formats []string) (dfa, error) {
	key := fmt.Sprintf("all %q %q", patterns, formats)
	if d, ok := b.texts[key]; ok {
		return d, nil
	}
	var d dfa
	add := func(next dfa, err error) error {
		if err == nil && d != nil {
			next, err = b.both(d, next)
		}
		d = next
		return err
	}
	for _, name := range formats {
		if err := add(b.format(name)); err != nil {
			return nil, err
		}
	}
	for _, pattern := range patterns {
		next, err := b.compile(pattern, true)
		if err == nil && !next.trim() {
			err = failure("no text matches the pattern")
		}
		if err := add(next, err); err != nil {
			return nil, err
		}
	}
	b.texts[key] = d
	return d, nil
}

// jsonText is the JSON literal of what the automaton, trimmed, reads. Each
// character has one spelling: itself where JSON allows it, else the short escape,
// else \u00XX.
func (b *Builder) jsonText(d dfa) (Rule, error) {
	if b.err != nil {
		return "", b.err
	}
	return b.Sequence(`"\""`, b.write(d, b.jsonSpell, `"\""`)), nil
}

func (b *Builder) jsonSpell(s charset) [][]Rule {
	var ways [][]Rule
	if raw := s.intersect(jsonRaw); len(raw) > 0 {
		ways = append(ways, []Rule{raw.rule()})
	}
	var escapes []Rule
	var short []interval
	for _, e := range jsonShort {
		if s.contains(e.char) {
			short = append(short, interval{e.letter, e.letter})
			s = s.minus(charset{{e.char, e.char}})
		}
	}
	if len(short) > 0 {
		escapes = append(escapes, newCharset(short...).rule())
	}
	for _, high := range []rune{0x00, 0x10, 0x70} {
		var low []interval
		for i, digit := range "0123456789abcdef" {
			if c := high + rune(i); s.contains(c) && !jsonRaw.contains(c) {
				low = append(low, interval{digit, digit})
			}
		}
		if len(low) > 0 {
			escapes = append(escapes, b.Sequence(quote("u00"+string('0'+high>>4)), newCharset(low...).rule()))
		}
	}
	if len(escapes) > 0 {
		ways = append(ways, []Rule{`"\\"`, b.Choice(escapes...)})
	}
	return ways
}

// jsonShort are the characters that have an escape of one letter.
var jsonShort = []struct{ char, letter rune }{
	{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'},
}
