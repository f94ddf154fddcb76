// What the C++ files of the package share.
#pragma once

#include "lexicon.hpp"
#include "match.hpp"
#include "shim.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

// station_worker is the thread that computes; see worker.cpp.
struct station_worker {
    enum : int { idle, call, stop };

    std::thread thread;
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<int> job{idle};
    int done = -1; // eventfd, written when a job is finished

    int (*work)(void *arg, station_error *err) = nullptr; // the call's
    void *arg = nullptr;
    int result = 0;
    station_error error{};
};

// station_part is one tensor of the pool: the keys or the values of a layer.
struct station_part {
    const ggml_tensor *tensor = nullptr;
    int32_t type = 0;
    uint64_t row = 0;    // bytes of a position
    uint64_t before = 0; // bytes of a position in the parts before it
};

// station_cache is one of the caches a state has one after another: two in
// models with a sliding window, else one.
struct station_cache {
    uint32_t layers = 0;
    std::vector<station_part> parts;
};

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
    station_worker worker;

    std::unique_ptr<const lexicon> words; // made for the first grammar
    std::once_flag words_once;
    match::grammars grammars;
    std::vector<float> masked; // a row with only what a grammar allows; of the thread that samples

    std::vector<station_cache> caches; // empty where KV cannot be moved in blocks
    std::vector<uint8_t> rows;         // one part's, on their way

    llama_memory_t memory() const { return llama_get_memory(ctx); }
};

// station_decode_batch evaluates e->batch, on the worker.
int station_decode_batch(station_engine *e, station_error *err);

// station_attach_pool lets a context compute with the engine's threads.
void station_attach_pool(station_engine *e, llama_context *ctx, int threads, int poll);

// station_worker_call has the thread run work(arg), and say so on the eventfd.
void station_worker_call(station_engine *e, int (*work)(void *, station_error *), void *arg);

// station_worker_start starts the thread, once; station_worker_stop waits for its end.
void station_worker_start(station_engine *e);
void station_worker_stop(station_engine *e);

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
