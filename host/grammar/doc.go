// Package grammar writes GBNF, the grammar language of llama.cpp, for what an
// answer has to be: a JSON Schema's instance, a regular expression's match, a
// model family's tool call.
//
// Its words: a [Rule] is a GBNF expression; a [Builder] makes rules and puts
// them together into one grammar text, whose start symbol is root. The builder's
// [Limits] bound what a hostile request can make of it.
//
// The invariant is soundness: whatever a grammar of [Builder.Schema] accepts is
// valid under the schema. It need not accept every valid instance: properties
// come in the order in which the schema declares them, and none comes that the
// schema only does not forbid. What cannot be enforced is refused with an
// [*Error] that names the place in the schema and the reason; nothing is ever
// left out silently.
//
// Texts, which are strings, patterns, formats, numbers and text up to a marker,
// are deterministic automata, written as one rule a state: the engine then has one
// reading of a text to follow, and a token costs the least. Patterns mean what
// ECMA-262, RE2 and Python mean by them alike. Grammars that clients write are
// taken as they are, if [Check] finds that the engine can bear them.
//
// JSON is written the way Python's json.dumps writes it: ", " and ": " between
// values, no other white space. A chat template's tojson writes a call's
// arguments the same way when the client sends them back, so that liquid memory
// finds the tokens it stored.
package grammar
