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
//
// [RunLiquid] measures liquid memory on servers that it starts itself, since it
// restarts them and compares settings. Its cohorts come in families that share
// servers: reuse (with restart and replica, beside the peer), off and tiers (a
// server beside itself under another setting), engine. There, too:
//   - One request is under way at a time, and the machine is quiet before each
//     measurement: a server never pays for what another one does behind.
//   - An answer that was restored is compared with the computed one.
//   - What it started it stops, on every way out, by SIGTERM first; what it made
//     on disk it removes. Nothing else is touched.
//
// [RunStructured] measures what structured output costs: answers by a JSON
// schema beside free ones of the same length, from one server, in turn.
package bench
