package grammar

import (
	"errors"
	"fmt"
	"strings"

	"thoth/host/grammar/internal/gbnf"
)

// What the station takes of a grammar; it counts without looking whether a
// parenthesis stands in a literal.
const (
	stationNesting  = 128
	stationRepeated = 4 << 20 // the count of a repetition times the grammar's bytes
)

// Check tells whether the engine can work with a grammar the client wrote in
// GBNF. The error is an *Error whose message names the line.
func Check(text string, l Limits) error {
	l = l.withDefaults()
	if len(text) > l.SchemaBytes {
		return &Error{Message: fmt.Sprintf("the grammar has %d bytes: at most %d are allowed", len(text), l.SchemaBytes)}
	}
	g, err := gbnf.Parse(text, gbnf.Limits{
		Repeat:   min(l.Repeat, stationRepeated/max(len(text), 1)),
		Depth:    stationNesting - 28,
		Elements: l.GrammarSize,
	})
	if err == nil {
		err = g.Check()
	}
	if place := (*gbnf.Error)(nil); errors.As(err, &place) {
		return &Error{Message: place.Error()}
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth > stationNesting {
			line := 1 + strings.Count(text[:i], "\n")
			return &Error{Message: fmt.Sprintf(`line %d: more than %d parentheses are open, also counting those in literals: write them as \x28 there`, line, stationNesting)}
		}
	}
	return nil
}
