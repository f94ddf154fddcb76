// Kernel libraries: which one suits this machine, and what is in use.
#include "shim.hpp"

#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <string>

void station_log_attach(void (*set)(ggml_log_callback, void *));

namespace {

// glibc gives every thread an arena of its own, and they grow to gigabytes
// beside a heap Go knows nothing about.
struct few_arenas {
    few_arenas() { mallopt(M_ARENA_MAX, 2); }
} const few_arenas_at_start;

ggml_backend_dev_t cpu_device() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

ggml_backend_dev_t gpu_device() {
    ggml_backend_dev_t dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
    return dev ? dev : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU);
}

} // namespace

extern "C" int station_backend_probe(const char *path, station_error *err) {
    STATION_GUARD(err, -1, {
        // Never closed: ggml loads the chosen one again, the others cost a mapping.
        void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!lib) {
            station_fail(err, dlerror());
            return -1;
        }
        if (void *set = dlsym(lib, "ggml_log_set")) {
            station_log_attach(reinterpret_cast<void (*)(ggml_log_callback, void *)>(set));
        }
        void *score = dlsym(lib, "ggml_backend_score");
        if (!score) {
            return 1;
        }
        return reinterpret_cast<int (*)()>(score)();
    })
}

extern "C" bool station_backend_load(const char *path, station_error *err) {
    STATION_GUARD(err, false, {
        station_log_forget();
        if (ggml_backend_load(path)) {
            return true;
        }
        station_log_last(err->text, sizeof(err->text));
        if (!err->text[0]) {
            station_fail(err, "not usable on this machine");
        }
        return false;
    })
}

extern "C" bool station_backend_exact(const char *path, bool on) {
    void *lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *set = lib ? dlsym(lib, "thoth_set_exact") : nullptr;
    if (set) {
        reinterpret_cast<void (*)(bool)>(set)(on);
    }
    if (lib) {
        dlclose(lib); // ggml's own handle keeps it
    }
    return set != nullptr;
}

extern "C" void station_backend_init(void) { llama_backend_init(); }

extern "C" void station_backend_devices(station_devices *out) {
    memset(out, 0, sizeof(*out));
    try {
        ggml_backend_dev_t cpu = cpu_device();
        if (!cpu) {
            return;
        }
        snprintf(out->cpu, sizeof(out->cpu), "%s", ggml_backend_dev_description(cpu));
        ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu);
        // The linked library registers first under this name; a loaded one sorts before it by score.
        out->linked = reg == ggml_backend_reg_by_name("CPU");
        auto features = reinterpret_cast<ggml_backend_get_features_t>(
            ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
        std::string all;
        if (features) {
            for (auto *f = features(reg); f && f->name; f++) {
                all += (all.empty() ? "" : " ") + std::string(f->name) + "=" + f->value;
            }
        }
        snprintf(out->features, sizeof(out->features), "%s", all.c_str());
        if (ggml_backend_dev_t gpu = gpu_device()) {
            snprintf(out->gpu, sizeof(out->gpu), "%s", ggml_backend_dev_description(gpu));
            ggml_backend_dev_memory(gpu, &out->gpu_free, &out->gpu_total);
        }
    } catch (...) {
        // a device that cannot describe itself stays unnamed
    }
}
