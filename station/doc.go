// Package station owns a model and its KV and serves the wire (station/wire):
// HTTP in front, one loop behind.
//
// Words. A sequence is tokens with their KV. A call is one piece of work on a
// sequence: evaluate tokens up to a target, then perhaps sample. /generate is a
// call on a sequence of its own; /embed, /forward and /decode-next are calls on
// a session's sequence. A turn is a call of /generate that restores stored KV
// before it evaluates, and saves what it has evaluated. A fork is a call of several
// answers to one prompt, which part when that is evaluated. A step is one round of
// the loop: take what arrived, plan a batch, decode, sample, send frames.
//
// Who owns what. The loop's goroutine alone touches the engine's context and a
// sequence's place in the pool. A session's tokens belong to whoever holds its
// busy mark: the handler until it submits a call, the loop until that call's
// output has ended. An output has one writer, the loop, and one reader, the
// handler.
//
// Invariants, checked by the fake engine in tests: a sequence's cells ascend
// with its positions; captured rows are copied before their cells can go; every
// sampler, held row and saved state is freed; a call ends with exactly one done or
// error frame, a fork with a done frame for each answer or one error frame; a
// cancelled call's sequence is gone before the next step.
//
// Files, in the order of a request: routes, requests (decoding and checks),
// call_handlers, kv_handlers, turn, sessions, loop, room, restore (loads), plan,
// step, fork, pool, stem, capture (saves), text, output.
package station
