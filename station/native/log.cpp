// llama.cpp and ggml print; the station keeps. Lines below a warning are
// dropped; warnings and errors wait in a ring until Go takes them.
#include "shim.hpp"

#include <cstring>
#include <deque>
#include <mutex>
#include <string>

namespace {

constexpr size_t max_lines = 64;

struct line {
    int level;
    std::string text;
};

struct ring {
    std::mutex mu;
    std::deque<line> lines; // whole lines not taken yet
    std::string partial;    // a line still being printed
    int partial_level = 0;
    std::string last_error;
    int32_t pending = 0;

    void add(ggml_log_level level, const char *text) {
        std::lock_guard<std::mutex> lock(mu);
        if (level != GGML_LOG_LEVEL_CONT) {
            partial_level = level;
            partial.clear();
        }
        if (partial_level < GGML_LOG_LEVEL_WARN || partial_level == GGML_LOG_LEVEL_CONT) {
            return;
        }
        partial += text;
        if (partial.size() > 4096) {
            partial.resize(4096);
            partial += '\n';
        }
        if (partial.empty() || partial.back() != '\n') {
            return;
        }
        partial.pop_back();
        if (partial_level == GGML_LOG_LEVEL_ERROR) {
            last_error = partial;
        }
        if (lines.size() == max_lines) {
            lines.pop_front();
        }
        lines.push_back({partial_level, partial});
        partial.clear();
        __atomic_store_n(&pending, (int32_t) lines.size(), __ATOMIC_RELEASE);
    }
};

ring &the_ring() {
    static ring *r = new ring; // never destroyed: threads may log at exit
    return *r;
}

void sink(ggml_log_level level, const char *text, void *) {
    try {
        the_ring().add(level, text);
    } catch (...) {
        // out of memory while logging: the line is lost
    }
}

} // namespace

extern "C" void station_log_init(void) { llama_log_set(sink, nullptr); }

// The kernel libraries carry their own copy of ggml-base, and with it their own log.
void station_log_attach(void (*set)(ggml_log_callback, void *)) { set(sink, nullptr); }

extern "C" const int32_t *station_log_pending(void) { return &the_ring().pending; }

extern "C" bool station_log_take(char *buf, size_t size, int *level) {
    ring &r = the_ring();
    std::lock_guard<std::mutex> lock(r.mu);
    if (r.lines.empty()) {
        return false;
    }
    snprintf(buf, size, "%s", r.lines.front().text.c_str());
    *level = r.lines.front().level;
    r.lines.pop_front();
    __atomic_store_n(&r.pending, (int32_t) r.lines.size(), __ATOMIC_RELEASE);
    return true;
}

extern "C" void station_log_last(char *buf, size_t size) {
    ring &r = the_ring();
    std::lock_guard<std::mutex> lock(r.mu);
    snprintf(buf, size, "%s", r.last_error.c_str());
}

extern "C" void station_log_forget(void) {
    ring &r = the_ring();
    std::lock_guard<std::mutex> lock(r.mu);
    r.last_error.clear();
}
