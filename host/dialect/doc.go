// Package dialect knows how each family of models writes what is not plain text:
// its reasoning and its tool calls.
//
// Its words: a [Dialect] is one family's way of writing, found by [Detect] in the
// model's chat template. An [Ask] is what one request wants of an answer. From
// both come the grammar that makes the model keep to it ([Dialect.Grammar]) and
// the [Parser] that takes the answer's text apart again, as it arrives, into
// [Event]s: text for the user, reasoning, calls.
//
// A model without tool training is spoken to in the generic dialect, which the
// prompt explains to it and the grammar enforces.
//
// The invariants: the events of an answer do not depend on how its text was cut
// into pieces; and no byte of the answer is lost: what only looks like a call is
// text.
package dialect
