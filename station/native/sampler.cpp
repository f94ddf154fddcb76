// Samplers: made for a request, freed with its sequence, asked for all rows of a
// step at once. draw.cpp draws.
#include "sampler.hpp"

#include <algorithm>
#include <stdexcept>

namespace {

void accept(station_sampler &s, int32_t token) {
    s.recent.add(token);
    if (s.p.frequency_penalty != 0 || s.p.presence_penalty != 0) {
        s.answer[token]++;
    }
    if (s.grammar && !llama_vocab_is_eog(s.engine->vocab, token)) {
        s.grammar->accept(token);
    }
}

} // namespace

static std::unique_ptr<station_sampler> make_sampler(station_engine *e, const station_sampler_params *p) {
    auto s = std::make_unique<station_sampler>();
    s->engine = e;
    s->p = *p;
    s->p.grammar = nullptr;
    s->p.bias_token = s->p.prompt = nullptr;
    s->p.bias_value = nullptr;
    s->rng.seed(p->seed);
    for (int i = 0; i < p->bias_n; i++) {
        if (p->bias_token[i] < 0 || p->bias_token[i] >= e->n_vocab) {
            throw std::runtime_error("logit bias names a token outside the vocabulary");
        }
        s->bias.emplace_back(p->bias_token[i], p->bias_value[i]);
    }
    if (p->repeat_penalty != 1 && p->repeat_last_n > 0) {
        s->recent.limit = (size_t) p->repeat_last_n;
        for (int i = std::max(0, p->prompt_n - p->repeat_last_n); i < p->prompt_n; i++) {
            if (p->prompt[i] >= 0 && p->prompt[i] < e->n_vocab) {
                s->recent.add(p->prompt[i]);
            }
        }
    }
    if (p->typical_p < 1) {
        s->typical.reset(llama_sampler_init_typical(p->typical_p, 1));
    }
    if (p->top_p < 1) {
        s->top_p.reset(llama_sampler_init_top_p(p->top_p, 1));
    }
    if (p->min_p > 0) {
        s->min_p.reset(llama_sampler_init_min_p(p->min_p, 1));
    }
    if (p->grammar) {
        std::call_once(e->words_once, [&] { e->words = std::make_unique<const lexicon>(e->vocab); });
        s->grammar = std::make_unique<match::reader>(e->grammars.get(p->grammar), *e->words, p->control_text);
    }
    return s;
}

extern "C" int station_sampler_new(station_engine *e, const station_sampler_params *p, station_sampler **out, station_error *err) {
    *out = nullptr;
    STATION_GUARD(err, STATION_FAILED, {
        try {
            *out = make_sampler(e, p).release();
            return STATION_OK;
        } catch (const gbnf::invalid &x) {
            station_fail(err, x.what());
            return STATION_GRAMMAR;
        }
    })
}

extern "C" void station_sampler_free(station_sampler *s) { delete s; }

extern "C" void station_sample_all(station_engine *e, int n, const station_sample *req, station_sampled *out) {
    for (int i = 0; i < n; i++) {
        station_sampled &o = out[i];
        auto fail = [&](int result, const char *why) { // one bad row must not take its neighbours along
            o.result = result;
            snprintf(o.reason, sizeof(o.reason), "%s", why);
        };
        o.result = STATION_OK;
        o.top_n = 0;
        try {
            float *row = req[i].held ? req[i].held : station_row(e, req[i].row);
            if (!row) {
                fail(STATION_FAILED, "a row without output was asked for");
                continue;
            }
            o.token = station_draw(*req[i].sampler, row, e->n_vocab, req[i].no_eog);
            if (req[i].logprob) {
                station_row_logprobs(row, e->n_vocab, o.token, req[i].top, &o);
            }
            accept(*req[i].sampler, o.token);
        } catch (const gbnf::invalid &x) {
            fail(STATION_GRAMMAR, x.what());
        } catch (const std::exception &x) {
            fail(STATION_FAILED, x.what());
        } catch (...) {
            fail(STATION_FAILED, "unknown C++ exception");
        }
        if (req[i].sampler->grammar) {
            req[i].sampler->grammar->done();
        }
    }
}
