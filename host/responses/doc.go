// Package responses is the shape of OpenAI's Responses API: requests, items, the
// response object and the events of its stream, and the pure functions between them
// and what the host works with. It does no I/O.
//
// Its words are the reference's. An *item* is one entry of a request's input or of a
// response's output: a message, the reasoning of a model, a function_call, or its
// function_call_output; a message's content is a list of *parts*. A request is decoded
// ([Decode]), which also validates it; its item_references stand for items that the server
// keeps, until they are resolved. An item's id tells of which response it is. Items of
// earlier turns and of this one are one [prompt.Conversation] ([Conversation]): what the
// model did in one turn, its reasoning, message and calls, is one message there again.
//
// A [Draft] grows a [Response] from pieces of an answer; [Events] does the same and
// appends the events that tell a client of it, each with its sequence_number.
//
// What the reference allows and this server cannot do (images, files, tools that run at
// OpenAI) is refused by name; parameters.go has the treatment of every parameter.
//
// Invariants: items do not overlap, have ascending indexes, and their pieces together
// are the item of the whole answer; a stream opens with response.created and ends with
// one of response.completed, response.incomplete and response.failed. The conversation
// made of stored items is, to the byte, the one that was rendered and written before, but
// for text that followed a call: chat templates have no form for that, so it comes ahead
// of the calls. Log-probabilities go out and are never read back.
package responses
