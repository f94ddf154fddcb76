// llama.cpp's own sampler chain and grammar over the whole vocabulary, slow and
// sure: what tests hold draw.cpp and match.cpp against.
#include "sampler.hpp"

#include <memory>

extern "C" int station_sample_reference(const float *row, int n, const station_sampler_params *p, int draws, int32_t *out, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        std::unique_ptr<llama_sampler, void (*)(llama_sampler *)> chain(
            llama_sampler_chain_init(llama_sampler_chain_default_params()), llama_sampler_free);
        auto add = [&](llama_sampler *s) { llama_sampler_chain_add(chain.get(), s); };
        std::vector<llama_logit_bias> bias;
        for (int i = 0; i < p->bias_n; i++) {
            bias.push_back({p->bias_token[i], p->bias_value[i]});
        }
        add(llama_sampler_init_logit_bias(n, p->bias_n, bias.data()));
        llama_sampler *repeat = llama_sampler_init_penalties(p->repeat_last_n, p->repeat_penalty, 0, 0);
        for (int i = 0; i < p->prompt_n; i++) {
            llama_sampler_accept(repeat, p->prompt[i]);
        }
        add(repeat);
        add(llama_sampler_init_penalties(1 << 16, 1, p->frequency_penalty, p->presence_penalty));
        if (p->temperature <= 0) {
            add(llama_sampler_init_greedy());
        } else {
            add(llama_sampler_init_top_k(p->top_k));
            add(llama_sampler_init_typical(p->typical_p, 1));
            add(llama_sampler_init_top_p(p->top_p, 1));
            add(llama_sampler_init_min_p(p->min_p, 1));
            add(llama_sampler_init_temp(p->temperature));
            add(llama_sampler_init_dist(p->seed));
        }
        std::vector<llama_token_data> data((size_t) n);
        for (int d = 0; d < draws; d++) {
            for (int i = 0; i < n; i++) {
                data[(size_t) i] = {i, row[i], 0};
            }
            llama_token_data_array a = {data.data(), data.size(), -1, false};
            llama_sampler_apply(chain.get(), &a);
            out[d] = a.data[a.selected].id;
            llama_sampler_accept(chain.get(), out[d]);
        }
        return STATION_OK;
    })
}

extern "C" int station_grammar_reference(const station_engine *e, const char *grammar, int n, const int32_t *taken, uint8_t *may, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        std::unique_ptr<llama_sampler, void (*)(llama_sampler *)> g(llama_sampler_init_grammar(e->vocab, grammar, "root"), llama_sampler_free);
        if (!g) {
            station_fail(err, "the grammar does not parse");
            return STATION_GRAMMAR;
        }
        for (int i = 0; i < n; i++) {
            llama_sampler_accept(g.get(), taken[i]);
        }
        std::vector<llama_token_data> data;
        for (int32_t t = 0; t < e->n_vocab; t++) {
            data.push_back({t, 0, 0});
        }
        llama_token_data_array a = {data.data(), data.size(), -1, false};
        llama_sampler_apply(g.get(), &a);
        for (size_t i = 0; i < a.size; i++) {
            may[a.data[i].id] = a.data[i].logit == 0;
        }
        return STATION_OK;
    })
}

extern "C" int station_grammar_tokens(station_engine *e, const station_sampler_params *p, int n, const int32_t *taken, uint8_t *may, station_error *err) {
    station_sampler *s;
    int result = station_sampler_new(e, p, &s, err);
    if (result != STATION_OK) {
        return result;
    }
    std::unique_ptr<station_sampler, void (*)(station_sampler *)> owner(s, station_sampler_free);
    STATION_GUARD(err, STATION_FAILED, {
        try {
            match::reader &g = *s->grammar;
            g.next();
            for (int i = 0; i < n; i++) {
                g.accept(taken[i]);
                g.next();
            }
            g.tokens([&](size_t word, uint64_t bits) {
                for (int i = 0; i < 64 && (int) word * 64 + i < e->n_vocab; i++) {
                    may[word * 64 + (size_t) i] = bits >> i & 1;
                }
            });
            for (int32_t t = 0; t < e->n_vocab; t++) {
                if (llama_vocab_is_eog(e->vocab, t)) {
                    may[t] = g.complete();
                } else if (may[t] != g.allows(t)) {
                    station_fail(err, "the set of tokens and a single one's test differ");
                    return STATION_FAILED;
                }
            }
            return STATION_OK;
        } catch (const gbnf::invalid &x) {
            station_fail(err, x.what());
            return STATION_GRAMMAR;
        }
    })
}

extern "C" int64_t station_grammars_size(station_engine *e) { return (int64_t) e->grammars.size(); }
