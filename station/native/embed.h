// Vectors of texts and scores of pairs, in a context of their own; see embed.cpp.
#pragma once

#include "shim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct station_embedder station_embedder;

enum {
    STATION_POOL_MEAN = 1,
    STATION_POOL_CLS  = 2,
    STATION_POOL_LAST = 3,
};

typedef struct {
    uint32_t tokens;    // of one text
    uint32_t batch;     // tokens of one decode
    uint32_t sequences; // texts of one decode
    int32_t pooling;    // STATION_POOL_...
    int32_t threads;
    int32_t poll;
    int32_t type_k; // ggml_type, where the model keeps KV
    int32_t type_v;
    bool flash_attention;
    bool segments; // pairs tell their two texts apart by token types
} station_embed_params;

// station_embed_new makes the context. It must not outlive the engine.
station_embedder *station_embed_new(station_engine *e, const station_embed_params *p, station_error *err);
void station_embed_free(station_embedder *m);
// station_embed_start hands a batch of n tokens to the computing thread; clear
// forgets all texts before. second is true for the tokens of a pair's second text;
// NULL where there are none. It ends as station_decode_start does: with
// station_done_fd, and station_decode_result.
int station_embed_start(station_embedder *m, bool clear, int n, const int32_t *token, const int32_t *pos,
                        const int32_t *seq, const bool *second, station_error *err);
// station_embed_vector writes the pooled vector of what was evaluated of seq.
int station_embed_vector(station_embedder *m, int seq, float *out, station_error *err);

// station_floats makes floats of n values of a ggml_type, whole blocks of it.
int station_floats(int32_t type, const void *raw, int64_t bytes, int64_t n, float *out, station_error *err);

// station_rerank_template is the text that a pair is put into, NULL for none.
const char *station_rerank_template(const station_engine *e);

// station_vocab_separator is what stands between the texts of a pair, -1 for nothing.
int32_t station_vocab_separator(const station_engine *e);

// station_vocab_ends gives what stands around a text, -1 for nothing.
void station_vocab_ends(const station_engine *e, int32_t *first, int32_t *last);

#ifdef __cplusplus
}
#endif
