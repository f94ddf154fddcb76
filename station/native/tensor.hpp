// A model's input tensors as floats, whatever their type.
#pragma once

#include "llama.h"

#include "ggml.h"

// station_input_tensor gives the model's tensor of a name, nullptr for none. Input
// tensors (embeddings of tokens and of their types) lie in memory as they are in
// the file; others may be on a device, or in an order of their kernels' own.
const ggml_tensor *station_input_tensor(const llama_model *model, const char *name);

// station_tensor_row writes a row of such a tensor; it throws where it cannot.
void station_tensor_row(const ggml_tensor *t, int64_t row, float *out);
