// Package host is the HTTP server in front of a station, by the API of OpenAI and,
// for messages, that of Anthropic. It imports the station's client and wire,
// never the station.
//
// Its words: the *watcher* polls the station's /health and keeps the last
// answer in memory as a [view] with the model, its compiled chat template and
// the served names; every request and probe reads that view, and none asks the
// station first. *Admission* bounds how many answers are in flight and how many
// requests wait; the *body budget* bounds what those without a place hold in
// memory. A *record* follows a request through the middleware and ends
// as one log line and a few metrics.
//
// A *key* has a name, scopes and a *quota*, which holds it to its limits; the key
// itself is not kept. The *document* describes every route by OpenAPI: a route
// without its place in it fails a test.
//
// A chat request: body read under limits (an [intake]), decoded and validated
// (package openai), the view asked for the model, what it means written down in the
// names of no API (a [task]), the prompt rendered (package prompt), its [shape] made
// (now it is a [job]), a place awaited, then one stream of frames per choice. An
// endpoint owns its request, its task and its sink; the rest is one for all of them,
// see [Server.serve]. The shape is
// what the answer must be: a grammar for the station (package grammar), kept for the
// next such request, and the model family's way of writing calls and reasoning
// (package dialect), by which a [choice] takes its frames apart. Package liquid
// decides by which path they come, liquid or native; memory.go shows what it did. A
// [sink] makes a whole answer or a stream of it. Nothing is sent before the first
// token or the first keep-alive comment, so that errors until then are HTTP errors.
//
// A response of /v1/responses is stored (package stored) by the key that asked for it,
// and may go on from one stored before. One made in the background is a *run*, owned by
// [background]: the same job, whose sink writes into memory, and whose end is nobody's
// leaving.
//
// Invariants: one request's end (the client gone, the server stopping, the
// station frozen) cancels exactly its own station calls, and the handler
// returns only after they have ended. The station being down makes requests 503
// and never ends the host. What a request says the answer must be is enforced or
// refused before any work, and a stream's pieces together are the whole answer.
package host
