#include "tensor.hpp"

#include "embed.h"
#include "shim.hpp"

#include "llama-model.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace {

// floats writes n values, whole blocks of a type.
void floats(ggml_type type, const void *raw, int64_t n, float *out) {
    if (type == GGML_TYPE_F32) {
        memcpy(out, raw, (size_t) n * sizeof(float));
        return;
    }
    const ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
    if (!to_float) {
        throw std::runtime_error(std::string("a tensor of type ") + ggml_type_name(type) + " has no floats");
    }
    to_float(raw, out, n);
}

} // namespace

const ggml_tensor *station_input_tensor(const llama_model *model, const char *name) {
    return model->get_tensor(name);
}

void station_tensor_row(const ggml_tensor *t, int64_t row, float *out) {
    if (row < 0 || row >= ggml_nrows(t) || !t->data || !t->buffer || !ggml_backend_buffer_is_host(t->buffer)) {
        throw std::runtime_error(std::string("no row of ") + t->name + " is in memory");
    }
    floats(t->type, static_cast<const char *>(t->data) + (size_t) row * t->nb[1], t->ne[0], out);
}

extern "C" int station_floats(int32_t type, const void *raw, int64_t bytes, int64_t n, float *out, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        if (type < 0 || type >= GGML_TYPE_COUNT || n < 0 || n % ggml_blck_size((ggml_type) type) != 0 ||
            (int64_t) ggml_row_size((ggml_type) type, n) != bytes) {
            throw std::runtime_error("its bytes are not those of so many values");
        }
        floats((ggml_type) type, raw, n, out);
        return STATION_OK;
    })
}
