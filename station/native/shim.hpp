// What the C++ files of the package share.
#pragma once

#include "shim.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <vector>

struct station_engine {
    llama_model *model = nullptr;
    llama_context *ctx = nullptr;
    const llama_vocab *vocab = nullptr;
    int n_vocab = 0;
    std::vector<int32_t> eog;

    ggml_threadpool *pool = nullptr;
    void (*pool_free)(ggml_threadpool *) = nullptr;

    llama_batch batch{};
    int batch_max = 0;
    std::atomic<bool> abort{false};

    llama_memory_t memory() const { return llama_get_memory(ctx); }
};

// station_row_logprobs fills out for token next of a row, with top alternatives.
void station_row_logprobs(const float *row, int n, int32_t next, int top, station_sampled *out);

inline void station_fail(station_error *err, const char *text) {
    if (err) {
        snprintf(err->text, sizeof(err->text), "%s", text);
    }
}

// STATION_GUARD runs body; what it throws becomes err and the value failed.
#define STATION_GUARD(err, failed, ...)      \
    try {                                    \
        __VA_ARGS__                          \
    } catch (const std::exception &x) {      \
        station_fail(err, x.what());         \
        return failed;                       \
    } catch (...) {                          \
        station_fail(err, "unknown C++ exception"); \
        return failed;                       \
    }
