// Log-probabilities: the model's own distribution, before any sampling step.
#include "rows.hpp"
#include "shim.hpp"

#include <algorithm>
#include <cmath>

void station_row_logprobs(const float *row, int n, int32_t next, int top, station_sampled *out) {
    float most = rows::max(row, n);
    double total = rows::measure(row, n, most, 1, nullptr).total;
    float norm = most + (float) log(total);
    out->token = next;
    out->logprob = row[next] - norm;
    out->top_n = std::min({top, (int) STATION_TOP_MAX, n});
    if (out->top_n == 0) {
        return;
    }
    std::vector<rows::candidate> set;
    rows::gather(row, n, rows::least_of_top(row, n, most, out->top_n), set);
    out->top_n = std::min(out->top_n, (int) set.size());
    std::partial_sort(set.begin(), set.begin() + out->top_n, set.end(), rows::more);
    for (int i = 0; i < out->top_n; i++) {
        out->top_token[i] = set[(size_t) i].id;
        out->top_logprob[i] = set[(size_t) i].logit - norm;
    }
}

extern "C" int station_logprobs(const float *row, int n, int32_t next, int top, station_sampled *out, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        station_row_logprobs(row, n, next, top, out);
        return STATION_OK;
    })
}
