// Forced into ggml-cpu.c (CMakeLists.txt): its matrix products go through
// thoth_sgemm (product.cpp), which chooses the kernel.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ggml_compute_params;

#ifdef __cplusplus
extern "C" {
#endif

#include "llamafile/sgemm.h"

// The arguments and the result are those of llamafile_sgemm: false means that
// it has no kernel for this, and nothing was computed. only says that this is
// the operation's only product, so that threads may share it by the operation's
// chunk counter.
bool thoth_sgemm(bool only, const struct ggml_compute_params *params, int64_t m, int64_t n, int64_t k, const void *A,
                 int64_t lda, const void *B, int64_t ldb, void *C, int64_t ldc, int Atype, int Btype, int Ctype);

// thoth_q4_1 is the kernel for Q4_1 weights (q4_1.cpp), with the same arguments.
bool thoth_q4_1(bool only, const struct ggml_compute_params *params, int64_t m, int64_t n, int64_t k, const void *A,
                int64_t lda, const void *B, int64_t ldb, void *C, int64_t ldc, int Atype, int Btype, int Ctype);

// thoth_set_exact leaves out the kernels whose sums depend on the number of
// columns. The station calls it when it loads a model, between decodes.
__attribute__((visibility("default"))) void thoth_set_exact(bool on);

#ifdef __cplusplus
}
#else
// ne12 and ne13 are locals at every call: how many products the operation has.
#define llamafile_sgemm(...) thoth_sgemm(ne12 * ne13 == 1, __VA_ARGS__)
#endif
