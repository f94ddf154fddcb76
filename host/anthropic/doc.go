// Package anthropic is the shape of Anthropic's Messages API: requests, answers,
// stream events and the error envelope, and the pure functions between them and
// what the host works with. It does no I/O but writing to the response it is given.
//
// Its words are the reference's: a message's content is a list of *blocks* (text,
// thinking, tool_use, tool_result); a *tool* has an input_schema; *cache_control*
// marks how far of a prompt a client wants kept. A request is decoded ([Decode]),
// which also validates it, and tells what it means in the host's words: a
// [prompt.Conversation], tools, a format, a [openai.CacheControl].
//
// What the reference allows and this server cannot do (images, documents, tools that
// run at Anthropic) is refused by name. Errors are [openai.Error]: its message names
// the field, and errors.go says which type and status each has in this API.
//
// Invariants: a stream opens with message_start and ends with message_stop, or with
// one error event; blocks do not overlap, have ascending indexes, and their pieces
// together are the block of the whole answer.
package anthropic
