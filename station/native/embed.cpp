// Vectors of texts, and what scores of pairs are made of.
//
// A context gives either logits of a pool of sequences or embeddings, so these
// have one of their own, over the same weights and the same threads. It gives
// the vector of every token (no pooling), and these are pooled here: llama.cpp
// pools within one batch only, and a decoder's text may take many. For a decoder
// the logits come along unasked, which is why its batches are small.
//
// An encoder looks at a whole text at once and keeps nothing of it. A decoder's
// KV is cleared before each batch of whole texts and before the first part of a
// long one: cells are then taken upward in the order of positions, which
// attention on the CPU depends on.
//
// BERT adds to each token what says whether it is of the first or the second text
// of a pair. llama.cpp adds the first's to all of them, so a pair's tokens are
// handed over as vectors, and those of the second text have the difference in them.
#include "embed.h"
#include "shim.hpp"
#include "tensor.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

struct station_embedder {
    station_engine *engine = nullptr;
    llama_context *ctx = nullptr;
    int pooling = 0;
    int dimensions = 0;

    llama_batch batch{};
    llama_batch vectors{}; // of tokens as vectors; where pairs have segments
    const llama_batch *next = nullptr;
    int batch_max = 0;

    const ggml_tensor *rows = nullptr; // a vector for each token
    std::vector<float> second;         // of a pair's second text, less that of the first

    // What was evaluated since the last clear, by sequence.
    std::vector<std::vector<double>> sums;
    std::vector<int> counts;

    bool clear = false; // before the batch
};

namespace {

int pooled_decode(void *arg, station_error *err) {
    auto *m = static_cast<station_embedder *>(arg);
    STATION_GUARD(err, STATION_FAILED, {
        station_log_forget();
        if (m->clear) {
            if (llama_memory_t memory = llama_get_memory(m->ctx)) {
                llama_memory_clear(memory, false);
            }
            std::fill(m->counts.begin(), m->counts.end(), 0);
        }
        const int rc = llama_decode(m->ctx, *m->next); // of an encoder: llama_encode
        if (rc != 0) {
            char last[900];
            station_log_last(last, sizeof(last));
            snprintf(err->text, sizeof(err->text), "llama_decode returned %d: %s", rc, last);
            return STATION_FAILED;
        }
        for (int i = 0; i < m->next->n_tokens; i++) {
            const float *row = llama_get_embeddings_ith(m->ctx, i);
            if (!row) {
                throw std::runtime_error("a token has no vector");
            }
            const int s = m->next->seq_id[i][0];
            auto &sum = m->sums[s];
            const bool fresh = m->counts[s]++ == 0;
            if (m->pooling == STATION_POOL_CLS && !fresh) {
                continue;
            }
            if (fresh || m->pooling == STATION_POOL_LAST) {
                sum.assign(row, row + m->dimensions);
                continue;
            }
            for (int k = 0; k < m->dimensions; k++) {
                sum[k] += row[k];
            }
        }
        return STATION_OK;
    })
}

// segments gets ready for pairs whose tokens have types.
void segments(station_embedder *m) {
    m->rows = station_input_tensor(m->engine->model, "token_embd.weight");
    const ggml_tensor *types = station_input_tensor(m->engine->model, "token_types.weight");
    if (!m->rows || !types || types->ne[1] < 2 || types->ne[0] != m->dimensions || m->rows->ne[0] != m->dimensions) {
        throw std::runtime_error("the model has no two types of tokens");
    }
    std::vector<float> first(m->dimensions);
    m->second.resize(m->dimensions);
    station_tensor_row(types, 0, first.data());
    station_tensor_row(types, 1, m->second.data());
    for (int k = 0; k < m->dimensions; k++) {
        m->second[k] -= first[k];
    }
    m->vectors = llama_batch_init(m->batch_max, m->dimensions, 1);
}

// vectors_of fills the batch of vectors.
void vectors_of(station_embedder *m, int n, const int32_t *token, const bool *second) {
    for (int i = 0; i < n; i++) {
        float *row = m->vectors.embd + (size_t) i * m->dimensions;
        station_tensor_row(m->rows, token[i], row);
        for (int k = 0; second[i] && k < m->dimensions; k++) {
            row[k] += m->second[k];
        }
    }
}

} // namespace

extern "C" station_embedder *station_embed_new(station_engine *e, const station_embed_params *p, station_error *err) {
    station_embedder *m = nullptr;
    try {
        m = new station_embedder;
        station_log_forget();
        llama_context_params cp = llama_context_default_params();
        cp.n_ctx = p->tokens;
        cp.n_batch = p->batch;
        cp.n_ubatch = p->batch;
        cp.n_seq_max = p->sequences;
        cp.n_threads = p->threads;
        cp.n_threads_batch = p->threads;
        cp.type_k = (ggml_type) p->type_k;
        cp.type_v = (ggml_type) p->type_v;
        cp.flash_attn_type = p->flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        cp.offload_kqv = true;
        cp.kv_unified = true;
        cp.swa_full = true;
        cp.no_perf = true;
        cp.embeddings = true;
        cp.pooling_type = LLAMA_POOLING_TYPE_NONE;
        m->engine = e;
        m->pooling = p->pooling;
        m->ctx = llama_init_from_model(e->model, cp);
        if (!m->ctx) {
            char last[900];
            station_log_last(last, sizeof(last));
            throw std::runtime_error(last);
        }
        station_attach_pool(e, m->ctx, p->threads, p->poll);
        m->dimensions = llama_model_n_embd(e->model);
        m->batch = llama_batch_init((int32_t) p->batch, 0, 1);
        m->batch_max = (int) p->batch;
        if (p->segments) {
            segments(m);
        }
        m->sums.resize(p->sequences);
        m->counts.resize(p->sequences);
        station_worker_start(e);
        return m;
    } catch (const std::exception &x) {
        station_fail(err, x.what());
    } catch (...) {
        station_fail(err, "unknown C++ exception");
    }
    station_embed_free(m);
    return nullptr;
}

extern "C" void station_embed_free(station_embedder *m) {
    if (!m) {
        return;
    }
    if (m->batch_max) {
        llama_batch_free(m->batch);
    }
    if (m->vectors.embd) {
        llama_batch_free(m->vectors);
    }
    if (m->ctx) {
        llama_free(m->ctx);
    }
    delete m;
}

extern "C" int station_embed_start(station_embedder *m, bool clear, int n, const int32_t *token, const int32_t *pos,
                                   const int32_t *seq, const bool *second, station_error *err) {
    if (n < 1 || n > m->batch_max || (second && !m->rows)) {
        station_fail(err, "batch size or segments out of range"); // llama.cpp would end the process
        return STATION_FAILED;
    }
    llama_batch &b = second ? m->vectors : m->batch;
    b.n_tokens = n;
    m->next = &b;
    for (int i = 0; i < n; i++) {
        if (seq[i] < 0 || seq[i] >= (int) m->counts.size()) {
            station_fail(err, "sequence out of range");
            return STATION_FAILED;
        }
        b.pos[i] = pos[i];
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = seq[i];
        b.logits[i] = true;
    }
    STATION_GUARD(err, STATION_FAILED, {
        if (second) {
            vectors_of(m, n, token, second);
        } else {
            std::copy(token, token + n, b.token);
        }
    })
    m->clear = clear;
    station_worker_call(m->engine, pooled_decode, m);
    return STATION_OK;
}

extern "C" int station_embed_vector(station_embedder *m, int seq, float *out, station_error *err) {
    if (seq < 0 || seq >= (int) m->counts.size() || m->counts[seq] == 0) {
        station_fail(err, "nothing was evaluated of this text");
        return STATION_FAILED;
    }
    const double n = m->pooling == STATION_POOL_MEAN ? m->counts[seq] : 1;
    for (int k = 0; k < m->dimensions; k++) {
        out[k] = (float) (m->sums[seq][k] / n);
    }
    return STATION_OK;
}

extern "C" const char *station_rerank_template(const station_engine *e) {
    return llama_model_chat_template(e->model, "rerank");
}

extern "C" int32_t station_vocab_separator(const station_engine *e) {
    const llama_token sep = llama_vocab_sep(e->vocab);
    return sep != LLAMA_TOKEN_NULL ? sep : llama_vocab_eos(e->vocab);
}

extern "C" void station_vocab_ends(const station_engine *e, int32_t *first, int32_t *last) {
    *first = llama_vocab_get_add_bos(e->vocab) ? llama_vocab_bos(e->vocab) : -1;
    *last = -1;
    if (llama_vocab_get_add_sep(e->vocab)) {
        *last = llama_vocab_sep(e->vocab);
    } else if (llama_vocab_get_add_eos(e->vocab)) {
        *last = llama_vocab_eos(e->vocab);
    }
}
