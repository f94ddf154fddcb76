package grammar

// jsonString is the JSON literal, quotes included, of a string of least to most
// code points; most < 0 means no bound. Every way JSON has to write a character
// is open, for a model that has begun an escape must be able to end it in the
// character it means; a pair of surrogates is one character and stays together.
func (b *Builder) jsonString(least, most int) Rule {
	if n := max(least, most); n > b.limits.Repeat {
		return b.fail("a string of %d characters is too large a bound: at most %d is allowed", n, b.limits.Repeat)
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

// jsonPattern is the JSON literal of a string of least to most code points in
// which the pattern matches, in all of it only if ^ and $ say so.
func (b *Builder) jsonPattern(pattern string, least, most int) (Rule, error) {
	return b.jsonMatching([]string{pattern}, nil, least, most)
}

// jsonFormat is the JSON literal of a string of the format.
func (b *Builder) jsonFormat(name string) (Rule, error) {
	return b.jsonMatching(nil, []string{name}, 0, -1)
}

// jsonMatching is the JSON literal of a string of least to most code points that
// has all the formats and in which all the patterns match.
func (b *Builder) jsonMatching(patterns, formats []string, least, most int) (Rule, error) {
	var parts []dfa
	for _, name := range formats {
		d, err := b.format(name)
		if err != nil {
			return "", err
		}
		parts = append(parts, d)
	}
	for _, pattern := range patterns {
		d, err := b.compile(pattern, true)
		if err != nil {
			return "", err
		}
		if !d.trim() {
			return "", failure("no text matches the pattern")
		}
		parts = append(parts, d)
	}
	if n := max(least, most); n > b.limits.Repeat {
		return "", failure("a string of %d characters is too large a bound: at most %d is allowed", n, b.limits.Repeat)
	}
	if len(parts) == 0 || least > 0 || most >= 0 {
		parts = append(parts, count(least, most))
	}
	d := parts[0]
	for _, other := range parts[1:] {
		var err error
		if d, err = d.both(other, b.limits.GrammarSize/16); err != nil {
			return "", err
		}
		if !d.trim() {
			return "", failure("no text meets the pattern, the format and the lengths together")
		}
	}
	return b.jsonText(d)
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
