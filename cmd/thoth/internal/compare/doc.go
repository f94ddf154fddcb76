// Package compare asks servers of one API the same questions and says which of the
// answers are right by the reference.
//
// Its words: a [Case] is a request, or a few, with what is right about the answer;
// a trial is a case against one server; its verdict is right, wrong with what was
// wrong, or absent where the server says, by an error, that it does not have what was
// asked for.
//
// Invariants:
//   - A case asks for what the API's reference requires, or what a request plainly
//     means, and for nothing this project does beyond that. Where the reference leaves
//     several ways, each is right.
//   - One fault counts once as far as that can be: how an error is shaped is a case of
//     its own, and the others only want a refusal.
//   - Nothing depends on what a model knows: texts are compared with other texts of the
//     same server.
//   - Servers are asked in turn, one request at a time. One that no longer answers ends
//     its part of the run, which is then an error and not a verdict.
//
// A file holds the cases of an area; run.go runs them, trial.go is what they are
// written in, reply.go and events.go read answers.
package compare
