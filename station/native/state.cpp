// The pool of cells: ownership, and moving KV in and out.
#include "shim.hpp"

#include <cstring>

extern "C" void station_clear(station_engine *e) {
    // Without wiping the data: a free cell is masked, and clearing gigabytes takes long.
    llama_memory_clear(e->memory(), false);
}

extern "C" void station_copy(station_engine *e, int src, int dst, int from, int to) {
    llama_memory_seq_cp(e->memory(), src, dst, from, to);
}

extern "C" void station_remove(station_engine *e, int seq, int from, int to) { llama_memory_seq_rm(e->memory(), seq, from, to); }

extern "C" void station_span(station_engine *e, int seq, int32_t *first, int32_t *last) {
    *first = llama_memory_seq_pos_min(e->memory(), seq);
    *last = llama_memory_seq_pos_max(e->memory(), seq);
}

extern "C" size_t station_state_size(station_engine *e, int seq) {
    STATION_GUARD(nullptr, 0, { return llama_state_seq_get_size(e->ctx, seq); })
}

namespace {

// A state begins: streams (u32, one here), cells (u32), then per cell its
// position (i32), its number of sequences (u32, one) and the sequence (i32).
// Cells are written in physical order, so ascending positions here are the
// placement the engine promises.
bool check_cells(const uint8_t *buf, size_t size, int from, int to, station_error *err) {
    uint32_t head[2];
    if (size < sizeof(head)) {
        station_fail(err, "state is shorter than its head");
        return false;
    }
    memcpy(head, buf, sizeof(head));
    if (head[0] != 1 || head[1] != (uint32_t) (to - from)) {
        snprintf(err->text, sizeof(err->text), "state holds %u cells in %u streams instead of %d in one", head[1], head[0], to - from);
        return false;
    }
    const size_t cell = 12;
    if (size < sizeof(head) + (size_t) head[1] * cell) {
        station_fail(err, "state is shorter than its cells");
        return false;
    }
    for (int i = 0; i < to - from; i++) {
        int32_t pos;
        memcpy(&pos, buf + sizeof(head) + (size_t) i * cell, sizeof(pos));
        if (pos != from + i) {
            snprintf(err->text, sizeof(err->text), "cell %d of the state holds position %d instead of %d: cells are out of order", i, pos, from + i);
            return false;
        }
    }
    return true;
}

} // namespace

extern "C" int station_state_save(station_engine *e, int seq, int from, int to, uint8_t *buf, size_t size, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        station_log_forget();
        size_t got = llama_state_seq_get_data(e->ctx, buf, size, seq);
        if (got != size) {
            char last[900];
            station_log_last(last, sizeof(last));
            snprintf(err->text, sizeof(err->text), "state of %zu bytes instead of %zu: %s", got, size, last);
            return STATION_FAILED;
        }
        return check_cells(buf, size, from, to, err) ? STATION_OK : STATION_FAILED;
    })
}

extern "C" int station_state_restore(station_engine *e, int seq, const uint8_t *buf, size_t size, station_error *err) {
    int rc = STATION_FAILED;
    try {
        station_log_forget();
        if (llama_state_seq_set_data(e->ctx, buf, size, seq) == size) {
            return STATION_OK;
        }
        station_log_last(err->text, sizeof(err->text));
        if (!err->text[0]) {
            station_fail(err, "state was not read whole");
        }
    } catch (const std::exception &x) {
        station_fail(err, x.what());
    } catch (...) {
        station_fail(err, "unknown C++ exception");
    }
    llama_memory_seq_rm(e->memory(), seq, -1, -1); // a state cut short leaves cells behind
    return rc;
}
