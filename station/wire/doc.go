// Package wire is the contract between host and station: routes, request
// bodies, stream frames and errors, version 1.
//
// It is JSON over HTTP on loopback or a unix socket. A plain answer is one JSON
// object. A stream is NDJSON (Content-Type application/x-ndjson): one [Frame] a
// line, sent as it comes, and it always ends in exactly one "done" or one
// "error" frame, sent with the end of the body; a fork's has a "done" frame for
// each answer. An error before the first frame is an HTTP status with an
// [ErrorBody]; [Error.Status] is the only table from code to status. 404 means
// "this route does not exist" and nothing else; an unknown session or key is
// 410. One request context is one cancellation: when the caller's connection
// ends, the sequence leaves before the next batch.
//
// The package imports the standard library alone, so that any client can use
// it. Golden files under testdata pin the bytes; changing one needs a new
// [Version].
//
// Request types carry the fields of what is built later (priority, deadline,
// prediction, adapters; fork was one) from the start. A station that does not
// build one answers code "unsupported" with the field's name in Param.
package wire
