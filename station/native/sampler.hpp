// One sequence's sampler: its parameters and its state between draws.
#pragma once

#include "shim.hpp"

#include <memory>
#include <random>
#include <unordered_map>

struct sampler_free {
    void operator()(llama_sampler *s) const { llama_sampler_free(s); }
};
using sampler_ptr = std::unique_ptr<llama_sampler, sampler_free>;

// Counts of the tokens a penalty looks at.
struct window {
    size_t limit = 0; // tokens, 0: none are kept
    std::vector<int32_t> ring;
    size_t next = 0;
    std::unordered_map<int32_t, int> counts;

    void add(int32_t token) {
        if (limit == 0) {
            return;
        }
        if (ring.size() < limit) {
            ring.push_back(token);
        } else {
            auto old = counts.find(ring[next]);
            if (--old->second == 0) {
                counts.erase(old);
            }
            ring[next] = token;
        }
        next = (next + 1) % limit;
        counts[token]++;
    }
};

struct station_sampler {
    station_engine *engine;
    station_sampler_params p;
    std::vector<std::pair<int32_t, float>> bias;
    window recent;                          // repeat penalty: prompt and answer
    std::unordered_map<int32_t, int> answer; // frequency and presence penalty
    std::mt19937 rng;
    sampler_ptr typical, top_p, min_p; // those that follow the first truncating step, or are it
    std::unique_ptr<match::reader> grammar;

    bool truncates() const { return p.top_k > 0 || p.typical_p < 1 || p.top_p < 1 || p.min_p > 0; }
};

// station_draw gives the next token for a row of n logits, which it leaves as it
// was; gbnf::invalid when the grammar cannot go on.
int32_t station_draw(station_sampler &s, float *row, int n, bool no_eog);
