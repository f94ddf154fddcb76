// Which kernel computes a matrix product: ours where there is one, llamafile's,
// or ggml's own, one dot product for each element.
//
// llamafile's kernels for F32, F16 and BF16 weights need two columns: a single
// stream gets ggml's dot products, and what is decoded beside others gets tiles,
// which sum in another order. A token's logits then depend on its company. With
// thoth_set_exact(true) all of them get dot products, at a third less speed on
// prompts. Quantized weights are not concerned: their kernels sum in one order,
// whatever the number of columns.
#include "ggml.h"
#include "product.h"

#include <atomic>

namespace {

std::atomic<bool> exact{false};

bool sums_vary(int type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16; }

} // namespace

void thoth_set_exact(bool on) { exact.store(on, std::memory_order_relaxed); }

bool thoth_sgemm(bool only, const struct ggml_compute_params *params, int64_t m, int64_t n, int64_t k, const void *A, int64_t lda,
                 const void *B, int64_t ldb, void *C, int64_t ldc, int Atype, int Btype, int Ctype) {
    if (thoth_q4_1(only, params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype)) {
        return true;
    }
    if (sums_vary(Atype) && exact.load(std::memory_order_relaxed)) {
        return false;
    }
    return llamafile_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}
