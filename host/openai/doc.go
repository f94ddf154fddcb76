// Package openai is the shape of the public API: requests, answers, stream
// chunks, the error envelope, and the pure functions between them and the
// station's wire. It does no I/O but writing to the response it is given.
//
// Its words: a request is decoded ([DecodeChat], [DecodeCompletion]), which also
// validates it, so that one in hand is within every limit of [Limits]. A parameter
// is honoured, accepted without effect, or refused by name; a parameter nobody
// here knows passes unread, as it does at OpenAI. What would change the answer
// is never in the last two groups in silence.
//
// Names are case-sensitive and a doubled name is an error: a proxy in front
// would otherwise check one value while this server obeys another.
//
// [Error] is the one error of the public API. Its table maps a [Code] to status
// and type, and [FromWire] maps the station's codes into it.
package openai
