// Package gbnf reads grammars in GBNF, the notation of llama.cpp, says what is
// wrong with them, and follows a text through them.
//
// Its words: a [Grammar] is the parsed text, a list of rules; a repetition is
// written out as the engine writes it out, as rules without a name of their own.
// [Grammar.Check] finds what the engine cannot work with. A [Machine] reads a text
// the way the engine does: it keeps every stack of places in the grammar at
// which the next character may be, and their number is what the text costs.
//
// What the engine takes and this package refuses: names of tokens, empty classes
// and ranges, rules defined twice, and whatever would let the engine recurse or
// grow without bound.
package gbnf
