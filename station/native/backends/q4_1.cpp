// Matrix product of Q4_1 weights with Q8_1 activations.
//
// ggml has tiled kernels (llamafile's sgemm) for Q4_0, Q5_0, Q8_0 and IQ4_NL; for Q4_1
// it takes one dot product per weight row and column, and unpacks the weights
// anew for each. Here a tile of 8 rows is unpacked once and kept for all columns
// (prompts, sequences decoded together); with one column (a single stream) the
// 8 rows are computed side by side, so that none waits for the sum before it.
//
// Exactness. Each element is computed by the very operations of
// ggml_vec_dot_q4_1_q8_1, in its order: per block of 32, the integer dot
// product in 8 lanes, converted, times d0*d1, fused-added to 8 sums; beside it
// m*s fused-added to one; at the end the lanes in its order, plus that sum. So
// an element does not depend on how many columns there are, and a token's
// logits are the same alone and in a batch. A test holds it to that.
#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "ggml-quants.h"
#include "product.h"
#include "simd-mappings.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

namespace {

constexpr int ROWS = 8; // weight rows of a tile

float half(ggml_half h) { return GGML_CPU_FP16_TO_FP32(h); }

float lanes(__m256 x) {
    __m128 r = _mm256_extractf128_ps(x, 1);
    r = _mm_add_ps(r, _mm256_castps256_ps128(x));
    r = _mm_add_ps(r, _mm_movehl_ps(r, r));
    r = _mm_add_ss(r, _mm_movehdup_ps(r));
    return _mm_cvtss_f32(r);
}

__m256i nibbles(const uint8_t *qs) {
    __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i *>(qs));
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(b, 4), b), _mm256_set1_epi8(15));
}

// A unit is what one register holds: two rows' blocks of 32 in 512 bits, one
// row's in 256.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
constexpr int PER_UNIT = 2, COLUMNS = 4; // 16 sums of 512 bits leave 16 registers
using ints = __m512i;
using floats = __m512;
ints load(const void *p) { return _mm512_loadu_si512(p); }
floats loadf(const float *p) { return _mm512_loadu_ps(p); }
ints column(const int8_t *p) { return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))); }
floats all(float x) { return _mm512_set1_ps(x); }
floats mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
floats fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
floats zero() { return _mm512_setzero_ps(); }
floats dot(ints u, ints s) {
#if defined(__AVX512VNNI__)
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), u, s));
#else
    return _mm512_cvtepi32_ps(_mm512_madd_epi16(_mm512_set1_epi16(1), _mm512_maddubs_epi16(u, s)));
#endif
}
float row_sum(floats x, int r) { return lanes(r == 0 ? _mm512_castps512_ps256(x) : _mm512_extractf32x8_ps(x, 1)); }

// packed gives the nibbles of unit u of 8 rows; unit one value of each row for its lanes.
ints packed(const block_q4_1 *const row[], int64_t l, int u) {
    __m256i b = _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row[2 * u][l].qs)));
    b = _mm256_inserti128_si256(b, _mm_loadu_si128(reinterpret_cast<const __m128i *>(row[2 * u + 1][l].qs)), 1);
    ints w = _mm512_shuffle_i64x2(_mm512_castsi256_si512(b), _mm512_castsi256_si512(b), 0x50);
    const ints shift = _mm512_inserti64x4(_mm512_broadcast_i64x4(_mm256_set_m128i(_mm_set1_epi16(4), _mm_setzero_si128())),
                                          _mm256_set_m128i(_mm_set1_epi16(4), _mm_setzero_si128()), 1);
    return _mm512_and_si512(_mm512_srlv_epi16(w, shift), _mm512_set1_epi8(15));
}
floats unit(__m256 d, int u) {
    const __m512i pick = _mm512_inserti64x4(_mm512_set1_epi32(2 * u), _mm256_set1_epi32(2 * u + 1), 1);
    return _mm512_permutexvar_ps(pick, _mm512_castps256_ps512(d));
}
#else
constexpr int PER_UNIT = 1, COLUMNS = 1; // 8 sums of 256 bits leave 8 registers
using ints = __m256i;
using floats = __m256;
ints load(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
floats loadf(const float *p) { return _mm256_loadu_ps(p); }
ints column(const int8_t *p) { return load(p); }
floats all(float x) { return _mm256_set1_ps(x); }
floats mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
floats fma(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
floats zero() { return _mm256_setzero_ps(); }
floats dot(ints u, ints s) {
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(u, s)));
}
float row_sum(floats x, int) { return lanes(x); }
ints packed(const block_q4_1 *const row[], int64_t l, int u) { return nibbles(row[u][l].qs); }
floats unit(__m256 d, int u) { return _mm256_permutevar8x32_ps(d, _mm256_set1_epi32(u)); }
#endif

constexpr int UNITS = ROWS / PER_UNIT;

// block of a tile: ROWS weight rows, unpacked.
struct alignas(64) block {
    uint8_t q[ROWS][32];
    float d[ROWS][8]; // each scale for 8 lanes
    float m[ROWS];
};

// scale of a column's block.
struct scale {
    float d, s;
};

void unpack(const block_q4_1 *a, int64_t lda, int rows, int64_t k, block *out) {
    for (int r = 0; r < ROWS; r++) {
        const block_q4_1 *row = a + lda * std::min(r, rows - 1); // a row beyond the end repeats the last
        for (int64_t l = 0; l < k; l++) {
            _mm256_store_si256(reinterpret_cast<__m256i *>(out[l].q[r]), nibbles(row[l].qs));
            _mm256_store_ps(out[l].d[r], _mm256_set1_ps(half(row[l].d)));
            out[l].m[r] = half(row[l].m);
        }
    }
}

// tile computes N columns of a tile's rows.
template <int N>
void tile(const block *a, int rows, int64_t k, const block_q8_1 *b, const scale *bs, int64_t ldb, float *c, int64_t ldc) {
    floats sum[N][UNITS];
    __m256 mins[N];
    for (int j = 0; j < N; j++) {
        mins[j] = _mm256_setzero_ps();
        for (int u = 0; u < UNITS; u++) {
            sum[j][u] = zero();
        }
    }
    for (int64_t l = 0; l < k; l++) {
        const __m256 m = _mm256_load_ps(a[l].m);
        ints y[N];
        for (int j = 0; j < N; j++) {
            y[j] = column(b[ldb * j + l].qs);
            mins[j] = _mm256_fmadd_ps(m, _mm256_set1_ps(bs[k * j + l].s), mins[j]);
        }
        for (int u = 0; u < UNITS; u++) {
            const ints q = load(a[l].q[u * PER_UNIT]);
            const floats d = loadf(a[l].d[u * PER_UNIT]);
            for (int j = 0; j < N; j++) {
                sum[j][u] = fma(mul(d, all(bs[k * j + l].d)), dot(q, y[j]), sum[j][u]);
            }
        }
    }
    for (int j = 0; j < N; j++) {
        float min[ROWS];
        _mm256_storeu_ps(min, mins[j]);
        for (int r = 0; r < rows; r++) {
            c[ldc * j + r] = row_sum(sum[j][r / PER_UNIT], r % PER_UNIT) + min[r];
        }
    }
}

template <int N>
void columns(const block *a, int rows, int64_t k, const block_q8_1 *b, const scale *bs, int64_t ldb, float *c, int64_t ldc, int n) {
    if (n == N) {
        tile<N>(a, rows, k, b, bs, ldb, c, ldc);
    } else if constexpr (N > 1) {
        columns<N - 1>(a, rows, k, b, bs, ldb, c, ldc, n);
    }
}

// one computes a single column of a tile's rows, from the weights as they are.
void one(const block_q4_1 *a, int64_t lda, int rows, int64_t k, const block_q8_1 *b, const scale *bs, float *c) {
    const block_q4_1 *row[ROWS];
    for (int r = 0; r < ROWS; r++) {
        row[r] = a + lda * std::min(r, rows - 1); // a row beyond the end repeats the last
    }
    floats sum[UNITS];
    for (int u = 0; u < UNITS; u++) {
        sum[u] = zero();
    }
    __m256 mins = _mm256_setzero_ps();
    for (int64_t l = 0; l < k; l++) {
        // d and m lie side by side, 16 bits each.
        uint32_t dm[ROWS];
        for (int r = 0; r < ROWS; r++) {
            memcpy(&dm[r], &row[r][l], sizeof(dm[r]));
        }
        const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(dm));
        // Within each 128 bits: the four d first, then the four m.
        const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
                                               0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        const __m256i split = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(both, order), 0xd8);
        const __m256 d = _mm256_cvtph_ps(_mm256_castsi256_si128(split));
        const __m256 m = _mm256_cvtph_ps(_mm256_extracti128_si256(split, 1));
        mins = _mm256_fmadd_ps(m, _mm256_set1_ps(bs[l].s), mins);
        const __m256 dd = _mm256_mul_ps(d, _mm256_set1_ps(bs[l].d));
        const ints y = column(b[l].qs);
        for (int u = 0; u < UNITS; u++) {
            sum[u] = fma(unit(dd, u), dot(packed(row, l, u), y), sum[u]);
        }
    }
    float min[ROWS];
    _mm256_storeu_ps(min, mins);
    for (int r = 0; r < rows; r++) {
        c[r] = row_sum(sum[r / PER_UNIT], r % PER_UNIT) + min[r];
    }
}

// part gives the tiles of the at-th part of a product: each thread has a large one
// of its own, and takes small ones of what is left as it gets to them, so that
// a thread that lost its core for a while does not keep the others waiting.
// (Small parts throughout would have the threads write to shared cache lines.)
// Without share, each thread has one part.
void part(int64_t at, int64_t tiles, int64_t nth, bool share, int64_t *from, int64_t *to) {
    constexpr int64_t small = 4;
    const int64_t large = share ? tiles * 3 / 4 / nth : (tiles + nth - 1) / nth;
    *from = at < nth ? at * large : nth * large + (at - nth) * small;
    *to = std::min(tiles, *from + (at < nth ? large : small));
}

// product computes this thread's share of the rows: C[n][m] = A[m][k] B[n][k].
void product(int64_t m, int64_t n, int64_t k, const block_q4_1 *a, int64_t lda, const block_q8_1 *b, int64_t ldb,
             float *c, int64_t ldc, bool share, const ggml_compute_params *params) {
    static thread_local std::vector<scale> scales;
    static thread_local std::vector<uint8_t> memory;
    scales.resize((size_t) (n * k));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            scales[(size_t) (j * k + l)] = {half(b[ldb * j + l].d), half(b[ldb * j + l].s)};
        }
    }
    memory.resize(sizeof(block) * (size_t) k + alignof(block));
    block *unpacked = reinterpret_cast<block *>((reinterpret_cast<uintptr_t>(memory.data()) + alignof(block) - 1) / alignof(block) * alignof(block));

    const int64_t tiles = (m + ROWS - 1) / ROWS;
    for (int64_t at = params->ith;; at = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        int64_t from, to;
        part(at, tiles, params->nth, share, &from, &to);
        for (int64_t t = from; t < to; t++) {
            const int rows = (int) std::min<int64_t>(ROWS, m - t * ROWS);
            const block_q4_1 *first = a + lda * t * ROWS;
            if (n == 1) {
                one(first, lda, rows, k, b, scales.data(), c + t * ROWS);
                continue;
            }
            unpack(first, lda, rows, k, unpacked);
            for (int64_t j = 0; j < n; j += COLUMNS) {
                columns<COLUMNS>(unpacked, rows, k, b + ldb * j, scales.data() + j * k, ldb, c + ldc * j + t * ROWS, ldc,
                                 (int) std::min<int64_t>(COLUMNS, n - j));
            }
        }
        if (!share || (from >= tiles && at >= params->nth)) {
            return;
        }
    }
}

} // namespace

#endif

bool thoth_q4_1(bool only, const struct ggml_compute_params *params, int64_t m, int64_t n, int64_t k, const void *A, int64_t lda,
                const void *B, int64_t ldb, void *C, int64_t ldc, int Atype, int Btype, int Ctype) {
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    if (Atype == GGML_TYPE_Q4_1 && Btype == GGML_TYPE_Q8_1 && Ctype == GGML_TYPE_F32) {
        product(m, n, k, static_cast<const block_q4_1 *>(A), lda, static_cast<const block_q8_1 *>(B), ldb,
                static_cast<float *>(C), ldc, only, params);
        return true;
    }
#endif
    return false;
}
