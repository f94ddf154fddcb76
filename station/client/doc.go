// Package client is the Go client of the station's wire: the host, liquid,
// thoth bench and the conformance test all speak through it.
//
// A failed call returns *wire.Error whatever went wrong: the station's own
// error where it answered with one, CodeUnavailable when it could not be
// reached or died midway, CodeNoRoute for a bare 404, CodeCancelled or
// CodeTimeout when the caller's context ended.
//
// Connections are kept. A call on one that the station has closed just then is sent
// once more, on a new one, where it is certain that nothing was done or where it does no
// harm to do it twice; any other call is told.
package client
