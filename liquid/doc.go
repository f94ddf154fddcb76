// Package liquid is the policy of liquid memory: prefix-KV reuse across
// requests. The station stores and restores; this package decides whether a
// request uses that, what is kept of it, and says what happened.
//
// Its words: the *switch* is the conjunction of the setting, the station's
// ability to save KV sessions, /decode-next and an architecture whose KV can be
// cut; [State] is one reading of it. A [Stream] is one prompt with its choices:
// on the *liquid path* it is a *turn*, one /generate that restores and saves, or
// a session of the station (embed, load, forward, decode-next) where the station
// does no turns or breakpoints have to be placed; on the *native path* a plain
// /generate. Each evaluates the prompt once and forks. A session's *keeper* saves the
// prompt beside the decode, and each choice's prompt and answer when that has ended;
// of a turn the station does that. An [Outcome] tells what a prompt got and
// left; a [Reason] why it got no more. A *scope* is whose
// stored prefixes a request may use.
//
// Invariants:
//   - Before the first token a failure of any liquid call sends the request down
//     the native path: the answer is the same, and no error is given that the
//     native path would not give. After it the station's error is the answer's.
//   - A save never delays a token. The end of an answer waits for the prompt's at
//     most [Options.SaveWait], and for its own a moment.
//   - A 404 in service turns the switch off at once for all requests, until a
//     probe finds the route again.
//   - The station's word on what was restored is checked against where the
//     evaluation started. At 0 instead, it had to drop it, and the request is a
//     miss; any other difference drops the session and computes.
//   - Every session is released by its last save or deleted, also when the client
//     goes away; every goroutine belongs to the [Manager], whose Close waits.
//   - With the switch off a request costs one atomic read more than without this
//     package.
//   - A turn that the station ignores is noticed by its first frame, told and used.
//
// The host calls [Manager.Look] at each look at its station and [Manager.Open]
// for each prompt; it never speaks to /kv-session for a request itself.
package liquid
