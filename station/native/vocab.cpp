// Vocabulary: tokens of text and bytes of tokens.
#include "shim.hpp"

#include <climits>

extern "C" int station_tokenize(const station_engine *e, const char *text, int len, bool special,
                                int32_t *out, int max, station_error *err) {
    STATION_GUARD(err, INT32_MIN, { return llama_tokenize(e->vocab, text, len, out, max, false, special); })
}

extern "C" int station_piece(const station_engine *e, int32_t token, bool special, char *buf, int size) {
    STATION_GUARD(nullptr, 0, { return llama_token_to_piece(e->vocab, token, buf, size, 0, special); })
}

extern "C" bool station_is_eog(const station_engine *e, int32_t token) { return llama_vocab_is_eog(e->vocab, token); }

extern "C" bool station_is_control(const station_engine *e, int32_t token) {
    return llama_vocab_is_control(e->vocab, token);
}
