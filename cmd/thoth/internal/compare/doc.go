// Package compare asks servers of one API the same questions and says which of the
// answers are right by the reference.
//
// Its words: a [Case] is a request, or a few, with what is right about the answer;
// a trial is a case against one server; its verdict is right, wrong with what was
// wrong, absent where the server says, by an error, that it does not have what was
// asked for, or not shown where what the case is about did not come: an answer in
// time, one long enough to be cut, a call.
//
// Invariants:
//   - A case asks for what the API's reference requires, or what a request plainly
//     means, and for nothing this project does beyond that. Where the reference leaves
//     several ways, each is right.
//   - One fault counts once as far as that can be: how an error is shaped is a case of
//     its own, and the others only want a refusal; a call that tool_choice did not force
//     is one, and the cases that look into calls are not shown.
//   - A server that looks at no request is right only by the cases of a list
//     (blind_test.go): a check that cannot fail would be one more.
//   - Odd answers are wrong ones: none costs the run.
//   - Nothing depends on what a model knows: texts are compared with other texts of the
//     same server.
//   - Servers are asked in turn, one request at a time. One that no longer answers ends
//     its part of the run, which is then an error and not a verdict.
//
// A file holds the cases of an area; run.go runs them, trial.go is what they are
// written in, reply.go and events.go read answers, schema.go holds texts against schemas.
package compare
