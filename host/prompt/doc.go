// Package prompt turns a conversation into prompt text: it renders the model's
// chat template and cuts the result into segments, so that a client's text can
// never become a control token.
//
// Its words: a [Template] is compiled once per model; [Compile] also renders it
// with made-up conversations, so that a broken template is found at load, and
// to learn what it can do ([Abilities]): whether it has a system role, takes
// one in the middle, shows tools, calls and results, knows a reasoning effort. A
// [Conversation] is adapted to these abilities before it is rendered; how a
// template wants its calls (arguments as text, short ids, one call a message)
// is found the same way.
//
// A model whose template knows no tools is told about them in the generic
// format, as text of the system message; its calls and their results are text
// too. A call in the history is byte for byte what the model had to write, so
// that liquid memory finds the tokens of the answer in the next prompt.
//
// A message may carry breakpoints, places in its content up to which a client
// wants the prompt kept; [Template.RenderPoints] says where these [Point]s lie
// in the segments, and changes nothing else.
//
// The invariant is that every byte the client sent (contents, names, arguments,
// tools, template variables) ends up in a plain segment, or in a place where it
// cannot be read as a control token. Templates trim, split and compare that
// text, so it cannot simply be replaced by placeholders. See [split] for how it
// is marked and what happens when a template looks at the marks.
//
// A template's own refusal (raise_exception) is a [*Refusal]: the client's
// fault. Every other failure of a template is the model's.
package prompt
