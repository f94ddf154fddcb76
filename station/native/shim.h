// The C side of the package: everything Go asks of llama.cpp, in whole steps.
//
// Every function catches what C++ throws, since an exception that reaches Go
// ends the process, and reports into a station_error the caller owns.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    STATION_OK        = 0,
    STATION_POOL_FULL = 1,
    STATION_ABORTED   = 2,
    STATION_FAILED    = 3,
    STATION_GRAMMAR   = 4, // of a sampler: its grammar cannot be enforced
};

typedef struct {
    char text[1024];
} station_error;

// --- log.cpp: llama's and ggml's log, kept instead of printed ---

// station_log_init routes both logs into a bounded ring.
void station_log_init(void);
// station_log_pending points to the number of lines not taken yet, for a look without a call.
const int32_t *station_log_pending(void);
// station_log_take moves the oldest warning or error into buf; false when there is none.
bool station_log_take(char *buf, size_t size, int *level);
// station_log_last copies the most recent error line, "" when none came since station_log_forget.
void station_log_last(char *buf, size_t size);
void station_log_forget(void);

// --- backend.cpp: kernel libraries and devices ---

// station_backend_probe loads the library at path and asks how well it suits this
// machine: 0 not at all, -1 it does not load, with the loader's text.
int station_backend_probe(const char *path, station_error *err);
// station_backend_load registers the library with ggml.
bool station_backend_load(const char *path, station_error *err);
// station_backend_exact tells a loaded CPU library whether to use only kernels
// whose sums do not depend on the number of rows; false when it cannot choose.
bool station_backend_exact(const char *path, bool on);
// station_backend_init starts llama.cpp, once, after the libraries.
void station_backend_init(void);

typedef struct {
    char cpu[128];        // description of the CPU device in use
    char gpu[128];        // description of the first GPU, "" for none
    char features[1024];  // "AVX512=1 LLAMAFILE=1 ...": of the CPU device's library
    bool linked;          // the CPU device in use is the slow one linked into the program
    size_t gpu_free;      // bytes
    size_t gpu_total;
} station_devices;
void station_backend_devices(station_devices *out);

// --- engine.cpp: model, context, decode ---

typedef struct station_engine station_engine;

typedef struct {
    const char *path;
    int32_t gpu_layers; // 0: CPU only
    bool mmap;
    uintptr_t handle;   // given to stationProgress
} station_model_params;

typedef struct {
    uint32_t cells;
    uint32_t batch;
    uint32_t sequences; // ballast and scratch included
    int32_t threads;
    int32_t poll;
    int32_t type_k; // ggml_type
    int32_t type_v;
    bool flash_attention;
    bool offload_kv;
} station_context_params;

typedef struct {
    char description[128];
    uint64_t parameters;
    uint64_t size;
    int32_t vocabulary;
    int32_t vocabulary_type;
    int32_t embedding;
    int32_t layers;
    int32_t context_train;
    bool recurrent;
    bool hybrid;
    bool encoder;
    bool decoder;
    bool add_bos;
    int32_t bos, eos, eot, pad;
    const char *chat_template; // of the model, NULL for none
} station_model_info;

// station_load reads the weights. NULL and err on failure or when progress said stop.
station_engine *station_load(const station_model_params *p, station_error *err);
void station_model(const station_engine *e, station_model_info *out);
int station_context(station_engine *e, const station_context_params *p, station_error *err);
void station_free(station_engine *e);

// station_decode_start hands a batch of n tokens to the computing thread; output
// marks the rows wanted. When station_done_fd becomes readable (an eventfd,
// not blocking), station_decode_result tells how it went. No other call on the
// engine may come in between, but for station_abort.
int station_decode_start(station_engine *e, int n, const int32_t *token, const int32_t *pos,
                         const int32_t *seq, const bool *output, station_error *err);
int station_decode_result(station_engine *e, station_error *err);
int station_done_fd(const station_engine *e);

// station_abort is read by a running decode; safe from any thread.
void station_abort(station_engine *e, bool on);
// station_row gives the logits of batch index row, NULL when it has none.
float *station_row(station_engine *e, int row);

// --- state.cpp: the pool of cells ---

void station_clear(station_engine *e);
// station_copy lets dst own src's cells of positions [from, to) too; to < 0: to the end.
void station_copy(station_engine *e, int src, int dst, int from, int to);
// station_remove takes seq's positions [from, to) from it; from, to < 0: from the start, to the end.
void station_remove(station_engine *e, int seq, int from, int to);
// station_span gives a sequence's first and last position, -1 when empty.
void station_span(station_engine *e, int seq, int32_t *first, int32_t *last);
size_t station_state_size(station_engine *e, int seq);
// station_state_save writes seq's state and checks that it holds exactly the
// cells of positions [from, to), ascending.
int station_state_save(station_engine *e, int seq, int from, int to, uint8_t *buf, size_t size, station_error *err);
int station_state_restore(station_engine *e, int seq, const uint8_t *buf, size_t size, station_error *err);

// --- blocks.cpp: KV in memory of the caller's, without a state in between ---

// station_rows is a run of rows of a block; see engine.Piece.
typedef struct {
    uint8_t *data;
    int32_t rows;
    int32_t skip;
    int32_t take;
} station_rows;

// station_layout reads from the state of seq, which holds position 0 alone, what
// parts KV has, and returns their number; 0 and the reason in err when it cannot
// be moved in blocks.
int station_layout(station_engine *e, int seq, station_error *err);
// station_part_row is the size of one position in a part.
size_t station_part_row(const station_engine *e, int part);
// station_export copies the positions from from on, which are all that seq has.
int station_export(station_engine *e, int seq, int from, const station_rows *piece, int pieces, station_error *err);
// station_import puts them into seq, which is empty and stays so on failure. The
// cells taken must be those from cell on.
int station_import(station_engine *e, int seq, int from, int cell, const station_rows *piece, int pieces, station_error *err);

// --- vocab.cpp ---

// station_tokenize returns the count, or the negative count needed when max is too small;
// INT32_MIN on failure.
int station_tokenize(const station_engine *e, const char *text, int len, bool special,
                     int32_t *out, int max, station_error *err);
// station_piece writes a token's bytes and returns their number, negative when size is too small.
int station_piece(const station_engine *e, int32_t token, bool special, char *buf, int size);
bool station_is_eog(const station_engine *e, int32_t token);
bool station_is_control(const station_engine *e, int32_t token);

int station_quantize(const char *in, const char *out, int ftype, int threads, station_error *err);

// --- sampler.cpp ---

typedef struct station_sampler station_sampler;

typedef struct {
    float temperature;
    int32_t top_k;
    float top_p;
    float min_p;
    float typical_p;
    float repeat_penalty;
    int32_t repeat_last_n;
    float frequency_penalty;
    float presence_penalty;
    uint32_t seed;
    const char *grammar;      // NULL for none
    bool control_text;        // the grammar matches control tokens by their text
    const int32_t *bias_token;
    const float *bias_value;
    int32_t bias_n;
    const int32_t *prompt;    // the repeat penalty's first window
    int32_t prompt_n;
} station_sampler_params;

typedef struct {
    int32_t row;           // batch index, unless held is set
    bool no_eog;
    bool logprob;
    int32_t top;           // alternatives wanted, at most STATION_TOP_MAX
    station_sampler *sampler;
    float *held;
} station_sample;

enum { STATION_TOP_MAX = 20 };

typedef struct {
    int32_t token;
    float logprob;
    int32_t result;    // STATION_OK, _FAILED or _GRAMMAR
    char reason[160];  // of the last two
    int32_t top_n;
    int32_t top_token[STATION_TOP_MAX];
    float top_logprob[STATION_TOP_MAX];
} station_sampled;

// station_sampler_new gives STATION_OK and the sampler, or what is wrong; safe from any thread.
int station_sampler_new(station_engine *e, const station_sampler_params *p, station_sampler **out, station_error *err);
void station_sampler_free(station_sampler *s);
// station_sample_all draws one token for each request and accepts it. Those that
// fail say so.
void station_sample_all(station_engine *e, int n, const station_sample *req, station_sampled *out);
// station_logprobs fills out for token next of a row of logits.
int station_logprobs(const float *row, int n, int32_t next, int top, station_sampled *out, station_error *err);
// station_sample_reference draws with llama.cpp's own chain over the whole
// vocabulary: the truth that tests compare with.
int station_sample_reference(const float *row, int n, const station_sampler_params *p, int draws, int32_t *out, station_error *err);

// Which tokens may follow those taken: by llama.cpp's own grammar, and by ours.
int station_grammar_reference(const station_engine *e, const char *grammar, int n, const int32_t *taken, uint8_t *may, station_error *err);
int station_grammar_tokens(station_engine *e, const station_sampler_params *p, int n, const int32_t *taken, uint8_t *may, station_error *err);

// The bytes of the grammars kept.
int64_t station_grammars_size(station_engine *e);

#ifdef __cplusplus
}
#endif
