// Package dialect knows how each family of models writes what is not plain text:
// its reasoning and its tool calls.
//
// Its words: a [Dialect] is one family's way of writing, found by [Detect] in the
// model's chat template. An [Ask] is what one request wants of an answer. From
// both come the grammar that makes the model keep to it ([Dialect.Grammar]) and
// the [Parser] that takes the answer's text apart again, as it arrives, into
// [Event]s: text for the user, reasoning, calls. Calls stand in blocks: an
// opening marker, one call or several, what closes it.
//
// A model without tool training is spoken to in the generic dialect, which the
// prompt explains to it and the grammar enforces.
//
// The invariants: the events of an answer do not depend on how its text was cut
// into pieces; no byte of the answer is lost: what only looks like a call is
// text, and only white space around markers is dropped, and of a cut answer the
// beginning of an enforced call that has no name yet; and what a dialect's
// grammar accepts, its parser reads as calls whose arguments the schema accepts.
//
// The parsers are ollama's where they can be. Its thinking package finds the
// reasoning, its harmony package reads gpt-oss's headers, and of its model/parsers
// those of qwen3-coder and glm-4.7 decide what a value that stands between tags is.
// All else is read here: blocks, calls, JSON, functiongemma's and olmo3's values.
// Ollama's parsers drop the text of a call they cannot read, end a call at a marker
// that stands in one of its strings, and write values in a spelling of their own.
// Arguments here are the model's own bytes where they are JSON: the client sends
// them back, and a prefix kept by liquid memory is found again only if they are
// the same.
package dialect
