// Vectors of texts, in a context of their own; see embed.cpp.
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
} station_embed_params;

// station_embed_new makes the context. It must not outlive the engine.
station_embedder *station_embed_new(station_engine *e, const station_embed_params *p, station_error *err);
void station_embed_free(station_embedder *m);
// station_embed_start hands a batch of n tokens to the computing thread; clear
// forgets all texts before. It ends as station_decode_start does: with
// station_done_fd, and station_decode_result.
int station_embed_start(station_embedder *m, bool clear, int n, const int32_t *token, const int32_t *pos,
                        const int32_t *seq, station_error *err);
// station_embed_vector writes the pooled vector of what was evaluated of seq.
int station_embed_vector(station_embedder *m, int seq, float *out, station_error *err);

// station_vocab_ends gives what stands around a text, -1 for nothing.
void station_vocab_ends(const station_engine *e, int32_t *first, int32_t *last);

#ifdef __cplusplus
}
#endif
