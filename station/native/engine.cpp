// Model, context and decode.
#include "shim.hpp"

#include <cstring>
#include <stdexcept>

// Written in Go: reports progress, says whether to go on.
extern "C" bool stationProgress(uintptr_t handle, float progress);

namespace {

bool on_progress(float progress, void *user) { return stationProgress((uintptr_t) user, progress); }

bool on_abort(void *user) {
    return static_cast<station_engine *>(user)->abort.load(std::memory_order_relaxed);
}

// The pool must come from the library whose device computes. Two CPU libraries
// live in the process, and a pool of the linked one is a slow one; without a
// pool at all every graph would start and end threads of its own.
void make_pool(station_engine *e, int threads, int poll) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    auto make = reinterpret_cast<ggml_threadpool *(*) (ggml_threadpool_params *)>(
        ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new"));
    e->pool_free = reinterpret_cast<void (*)(ggml_threadpool *)>(
        ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_free"));
    if (!make || !e->pool_free) {
        throw std::runtime_error("the CPU library gives no thread pool");
    }
    ggml_threadpool_params tp = ggml_threadpool_params_default(threads);
    tp.poll = (uint32_t) poll;
    e->pool = make(&tp);
    if (!e->pool) {
        throw std::runtime_error("the thread pool could not be made");
    }
}

} // namespace

void station_attach_pool(station_engine *e, llama_context *ctx, int threads, int poll) {
    if (!e->pool) {
        make_pool(e, threads, poll);
    }
    llama_attach_threadpool(ctx, e->pool, e->pool);
}

extern "C" station_engine *station_load(const station_model_params *p, station_error *err) {
    station_engine *e = nullptr;
    try {
        station_log_forget();
        llama_model_params mp = llama_model_default_params();
        ggml_backend_dev_t none[] = {nullptr};
        if (p->gpu_layers == 0) {
            mp.devices = none;
        }
        mp.n_gpu_layers = p->gpu_layers;
        mp.use_mmap = p->mmap;
        mp.progress_callback = on_progress;
        mp.progress_callback_user_data = (void *) p->handle;
        e = new station_engine;
        e->model = llama_model_load_from_file(p->path, mp);
        if (!e->model) {
            station_log_last(err->text, sizeof(err->text));
            delete e;
            return nullptr;
        }
        e->vocab = llama_model_get_vocab(e->model);
        e->n_vocab = llama_vocab_n_tokens(e->vocab);
        for (int32_t t = 0; t < e->n_vocab; t++) {
            if (llama_vocab_is_eog(e->vocab, t)) {
                e->eog.push_back(t);
            }
        }
        return e;
    } catch (const std::exception &x) {
        station_fail(err, x.what());
    } catch (...) {
        station_fail(err, "unknown C++ exception");
    }
    station_free(e);
    return nullptr;
}

extern "C" void station_model(const station_engine *e, station_model_info *out) {
    memset(out, 0, sizeof(*out));
    llama_model_desc(e->model, out->description, sizeof(out->description));
    out->parameters = llama_model_n_params(e->model);
    out->size = llama_model_size(e->model);
    out->vocabulary = e->n_vocab;
    out->vocabulary_type = llama_vocab_type(e->vocab);
    out->embedding = llama_model_n_embd(e->model);
    out->layers = llama_model_n_layer(e->model);
    out->context_train = llama_model_n_ctx_train(e->model);
    out->recurrent = llama_model_is_recurrent(e->model);
    out->hybrid = llama_model_is_hybrid(e->model);
    out->encoder = llama_model_has_encoder(e->model);
    out->decoder = llama_model_has_decoder(e->model);
    out->add_bos = llama_vocab_get_add_bos(e->vocab);
    out->bos = llama_vocab_bos(e->vocab);
    out->eos = llama_vocab_eos(e->vocab);
    out->eot = llama_vocab_eot(e->vocab);
    out->pad = llama_vocab_pad(e->vocab);
    out->chat_template = llama_model_chat_template(e->model, nullptr);
}

extern "C" int station_context(station_engine *e, const station_context_params *p, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        station_log_forget();
        llama_context_params cp = llama_context_default_params();
        cp.n_ctx = p->cells;
        cp.n_batch = p->batch;
        cp.n_ubatch = p->batch; // a step is one micro-batch: an abort removes all of it, or nothing
        cp.n_seq_max = p->sequences;
        cp.n_threads = p->threads;
        cp.n_threads_batch = p->threads;
        cp.type_k = (ggml_type) p->type_k;
        cp.type_v = (ggml_type) p->type_v;
        cp.flash_attn_type = p->flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        cp.offload_kqv = p->offload_kv;
        cp.kv_unified = true;
        cp.swa_full = true;
        cp.no_perf = true;
        cp.abort_callback = on_abort;
        cp.abort_callback_data = e;
        e->ctx = llama_init_from_model(e->model, cp);
        if (!e->ctx) {
            station_log_last(err->text, sizeof(err->text));
            return STATION_FAILED;
        }
        station_attach_pool(e, e->ctx, p->threads, p->poll);
        e->batch = llama_batch_init((int32_t) p->batch, 0, 1);
        e->batch_max = (int) p->batch;
        station_worker_start(e);
        return STATION_OK;
    })
}

extern "C" void station_free(station_engine *e) {
    if (!e) {
        return;
    }
    station_worker_stop(e);
    if (e->batch_max) {
        llama_batch_free(e->batch);
    }
    if (e->ctx) {
        llama_free(e->ctx);
    }
    if (e->pool) {
        e->pool_free(e->pool); // after the context, whose backend still names it
    }
    if (e->model) {
        llama_model_free(e->model);
    }
    delete e;
}

int station_decode_batch(station_engine *e, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        station_log_forget();
        int rc = llama_decode(e->ctx, e->batch);
        switch (rc) {
        case 0:
            return STATION_OK;
        case 1:
            return STATION_POOL_FULL;
        case 2:
            return STATION_ABORTED;
        }
        char last[900];
        station_log_last(last, sizeof(last));
        snprintf(err->text, sizeof(err->text), "llama_decode returned %d: %s", rc, last);
        return STATION_FAILED;
    })
}

extern "C" void station_abort(station_engine *e, bool on) { e->abort.store(on, std::memory_order_relaxed); }

extern "C" float *station_row(station_engine *e, int row) {
    STATION_GUARD(nullptr, nullptr, {
        if (row < 0 || row >= e->batch.n_tokens || !e->batch.logits[row]) {
            return nullptr;
        }
        return llama_get_logits_ith(e->ctx, row);
    })
}

extern "C" int station_quantize(const char *in, const char *out, int ftype, int threads, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        station_log_forget();
        llama_model_quantize_params p = llama_model_quantize_default_params();
        p.ftype = (llama_ftype) ftype;
        p.nthread = threads;
        p.allow_requantize = true;
        if (llama_model_quantize(in, out, &p) == 0) {
            return STATION_OK;
        }
        station_log_last(err->text, sizeof(err->text));
        return STATION_FAILED;
    })
}
