// Package schematest makes JSON Schemas for tests: of every keyword that package
// grammar enforces, and in every mixture.
//
// [Generate] is for a real model to answer: each of its schemas has a valid
// instance, and no instance is long, so that an answer of a model that does not
// know where to stop comes to its end all the same. [GenerateAny] has recursion,
// free values and unbounded strings too.
//
// The schemas depend on the source alone.
package schematest
