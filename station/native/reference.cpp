// llama.cpp's own sampler chain over the whole vocabulary, slow and sure: what
// tests hold sampler.cpp against.
#include "shim.hpp"

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
