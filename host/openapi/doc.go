// Package openapi makes an OpenAPI 3.1 document of a table of operations and the
// Go types of their bodies. It knows nothing of what the operations do.
//
// Its words: an [Operation] is a method and a path with its bodies; a [Type] says
// what a Go type cannot: bounds, allowed values, fields that must be there. The
// schema of a body is made of the type by reflection, so that a field that is
// added to a struct is in the document at once, and what reflection cannot know
// must be said: a field that is raw JSON and has no schema is an error.
//
// Fields of requests may be null, since null means absent; fields of answers are
// there unless their tag says omitempty.
//
// Invariants: the same table gives the same bytes; a name stands for one type.
package openapi
