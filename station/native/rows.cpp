#include "rows.hpp"

#include <cmath>
#include <cstring>
#include <limits>

// One source, compiled for each width; the loader picks at start.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif
#define INLINE inline __attribute__((always_inline))

namespace rows {

namespace {

constexpr int W = 16;
typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));

INLINE void load(vf &v, const float *p) { memcpy(&v, p, sizeof(v)); }

constexpr float floor_x = -87.0f; // below it exp counts as 0: a masked token must have no mass at all

// exp by range reduction to [-ln2/2, ln2/2] and a polynomial of degree 6
// (Cephes expf), relative error about 1e-7. Comparisons give all-ones masks.
INLINE void vexp(vf &x) {
    const vf magic = vf{} + 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    vi live = x > floor_x;
    x = live ? x : vf{} + floor_x;
    vf n = (x * 1.44269504f + magic) - magic;
    vf r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vf p = vf{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    vi e = (__builtin_convertvector(n, vi) + 127) << 23;
    vf s;
    memcpy(&s, &e, sizeof(s));
    p = p * s;
    x = live ? p : vf{};
}

INLINE float hsum(const vf &v) {
    float s = 0;
    for (int i = 0; i < W; i++) {
        s += v[i];
    }
    return s;
}

INLINE float hmax(const vf &v) {
    float m = v[0];
    for (int i = 1; i < W; i++) {
        m = v[i] > m ? v[i] : m;
    }
    return m;
}

constexpr float ninf = -std::numeric_limits<float>::infinity();

} // namespace

WIDE float max(const float *x, int n) {
    vf a = vf{} + ninf, b = a, c = a, d = a;
    int i = 0;
    for (; i + 4 * W <= n; i += 4 * W) {
        vf v;
        load(v, x + i);
        a = v > a ? v : a;
        load(v, x + i + W);
        b = v > b ? v : b;
        load(v, x + i + 2 * W);
        c = v > c ? v : c;
        load(v, x + i + 3 * W);
        d = v > d ? v : d;
    }
    a = b > a ? b : a;
    c = d > c ? d : c;
    a = c > a ? c : a;
    float m = hmax(a);
    for (; i < n; i++) {
        m = x[i] > m ? x[i] : m;
    }
    return m;
}

int argmax(const float *x, int n) {
    float best = ninf;
    int at = 0;
    for (int b = 0; b < n; b += block) {
        float m = max(x + b, b + block < n ? block : n - b);
        if (m > best) {
            best = m;
            at = b;
        }
    }
    while (at < n && x[at] != best) {
        at++;
    }
    return at < n ? at : 0;
}

WIDE mass measure(const float *x, int n, float top, float scale, std::vector<float> *blocks) {
    mass out{};
    if (blocks) {
        blocks->resize((size_t) (n + block - 1) / block);
    }
    vf least[n_cuts];
    for (int k = 0; k < n_cuts; k++) {
        least[k] = vf{} + (top - cuts[k]);
    }
    for (int b = 0; b < n; b += block) {
        int end = b + block < n ? b + block : n;
        vf sum{}, above[n_cuts] = {};
        int i = b;
        for (; i + W <= end; i += W) {
            vf v;
            load(v, x + i);
            vf e = (v - top) * scale;
            vexp(e);
            sum += e;
            for (int k = 0; k < n_cuts; k++) {
                above[k] += v >= least[k] ? e : vf{};
            }
        }
        if (i < end) {
            vf v = vf{} + ninf;
            memcpy(&v, x + i, sizeof(float) * (size_t) (end - i));
            vf e = (v - top) * scale;
            vexp(e);
            sum += e;
            for (int k = 0; k < n_cuts; k++) {
                above[k] += v >= least[k] ? e : vf{};
            }
        }
        float s = hsum(sum);
        out.total += s;
        if (blocks) {
            (*blocks)[(size_t) (b / block)] = s;
        }
        for (int k = 0; k < n_cuts; k++) {
            out.above[k] += hsum(above[k]);
        }
    }
    return out;
}

WIDE void count(const float *x, int n, float top, int out[n_cuts]) {
    vi c[n_cuts] = {};
    int i = 0;
    for (; i + W <= n; i += W) {
        vf v;
        load(v, x + i);
        for (int k = 0; k < n_cuts; k++) {
            c[k] -= v >= vf{} + (top - cuts[k]); // true is -1
        }
    }
    for (int k = 0; k < n_cuts; k++) {
        out[k] = 0;
        for (int j = 0; j < W; j++) {
            out[k] += c[k][j];
        }
        for (int j = i; j < n; j++) {
            out[k] += x[j] >= top - cuts[k];
        }
    }
}

float least_of_top(const float *x, int n, float top, int k) {
    int counts[n_cuts];
    count(x, n, top, counts);
    for (int i = 0; i < n_cuts; i++) {
        if (counts[i] >= k) {
            return top - cuts[i];
        }
    }
    return std::numeric_limits<float>::lowest();
}

WIDE void gather(const float *x, int n, float least, std::vector<candidate> &out) {
    int i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
        vf v, w;
        load(v, x + i);
        load(w, x + i + W);
        if (hmax(v > w ? v : w) < least) { // most of a row lies far below
            continue;
        }
        for (int j = i; j < i + 2 * W; j++) {
            if (x[j] >= least) {
                out.push_back({j, x[j]});
            }
        }
    }
    for (; i < n; i++) {
        if (x[i] >= least) {
            out.push_back({i, x[i]});
        }
    }
}

WIDE bool broken(const float *x, int n) {
    vi bad{};
    const vf huge = vf{} + std::numeric_limits<float>::max();
    int i = 0;
    for (; i + W <= n; i += W) {
        vf v;
        load(v, x + i);
        bad |= ~(v <= huge); // NaN compares false
    }
    int any = 0;
    for (int j = 0; j < W; j++) {
        any |= bad[j];
    }
    for (; i < n; i++) {
        any |= !(x[i] <= std::numeric_limits<float>::max());
    }
    return any != 0;
}

WIDE void exps(const float *x, int n, float top, float scale, float *out) {
    for (int i = 0; i < n; i += W) {
        vf v = vf{} + ninf;
        size_t bytes = sizeof(float) * (size_t) (n - i < W ? n - i : W);
        memcpy(&v, x + i, bytes);
        v = (v - top) * scale;
        vexp(v);
        memcpy(out + i, &v, bytes);
    }
}

} // namespace rows
