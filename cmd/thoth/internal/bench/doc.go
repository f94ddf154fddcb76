// Package bench measures OpenAI-compatible servers as a client sees them, alone,
// beside each other, and beside the bare engine.
//
// A run has rounds; a round has cohorts (one stream, cold prefill, some clients
// at once); a cohort is done by each target in turn, so that both servers see
// the same machine within seconds of each other: A B A B. Both get the same
// prompts. Ratios are taken within a round and their median is reported; above 1
// always means that the first target is the faster one. When an engine command is
// given it runs in every round too, while the servers idle.
//
// Invariants:
//   - A prompt of the cold cohort and of the clients' cohorts was never sent
//     before: it starts with a number drawn for this run, round and client, so
//     that no cache can help.
//   - Tokens are counted by the server's usage; chunks only say when they came.
//   - A greedy answer must not change: neither between rounds, nor between alone
//     and among other clients. Changes are reported, and of the first target they
//     fail the run.
//   - Every request ends in numbers or in an error of the report; nothing is left
//     out silently.
package bench
