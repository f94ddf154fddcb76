// Package e2e tests the product as its users meet it: the three real programs
// of build/bin with the real model, spoken to over HTTP. Its tests are built
// with the tag e2e and run by make test, after make build and make model:
//
//	make e2e
//
// Real client libraries have a tag of their own, clients, and a stage of their own (clients_test.go).
//
// The harness (harness_test.go) starts entrypoint, which starts the rest. Most tests share one
// server with default settings; a test that needs other settings, or kills
// something, starts its own. Nothing here is timed tightly: a bound is there to
// tell a hang from an answer.
package e2e
