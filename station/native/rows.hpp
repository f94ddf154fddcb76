// Passes over one row of logits: as wide as the machine's vectors, since the
// program itself is compiled for plain x86-64. A pass over 49k logits takes a
// few microseconds; sorting them would take milliseconds.
#pragma once

#include <cstdint>
#include <vector>

namespace rows {

struct candidate {
    int32_t id;
    float logit;
};

// more orders candidates: most likely first, the lower id of equals.
inline bool more(const candidate &a, const candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Distances below the maximum at which mass and counts are taken in one pass:
// the smallest that holds enough becomes the threshold candidates are gathered at.
constexpr int n_cuts = 8;
constexpr float cuts[n_cuts] = {1.0f, 2.0f, 4.0f, 6.0f, 8.0f, 11.0f, 15.0f, 20.0f};

constexpr int block = 512; // logits whose mass is summed in single precision

struct mass {
    double total;           // sum of exp((x - max) * scale)
    double above[n_cuts];   // of those with x >= max - cuts[i]
};

// max gives the largest value, -inf for a row of nothing but -inf and NaN.
float max(const float *x, int n);
// argmax gives the lowest id among the largest.
int argmax(const float *x, int n);
// measure sums exp((x - top) * scale); blocks, when not null, takes one sum per block.
mass measure(const float *x, int n, float top, float scale, std::vector<float> *blocks);
// count says for each cut how many lie above it.
void count(const float *x, int n, float top, int out[n_cuts]);
// least_of_top gives a threshold at or above which at least k logits lie, not many more.
float least_of_top(const float *x, int n, float top, int k);
// gather appends those with x >= least, in order of id.
void gather(const float *x, int n, float least, std::vector<candidate> &out);
// broken is true when a row holds NaN or +inf: a broken model or kernel.
bool broken(const float *x, int n);
// exps writes exp((x - top) * scale) for a few values, the numbers measure sums.
void exps(const float *x, int n, float top, float scale, float *out);

} // namespace rows
