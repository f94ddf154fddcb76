// The thread that computes.
//
// A decode takes milliseconds. A Go thread that spent them in a cgo call would
// look to the runtime like one stuck in a system call: its monitor then wakes
// every twenty microseconds to see whether to take the thread's processor
// away, more than a thousand times a second, and each time a compute thread loses
// its core. So decodes run here, and the goroutine that waits for one is
// parked on an eventfd, where it costs nothing.
#include "shim.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace {

// Between two steps of a busy loop pass some ten microseconds; sleeping and being
// woken would take as long again. So the thread spins a while, offering its core.
constexpr int spins = 4096;
constexpr int yield_every = 64;

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

int next_job(station_worker &w) {
    for (int i = 1; i <= spins; i++) {
        int job = w.job.load(std::memory_order_acquire);
        if (job != station_worker::idle) {
            return job;
        }
        relax();
        if (i % yield_every == 0) {
            sched_yield();
        }
    }
    std::unique_lock<std::mutex> lock(w.mutex);
    w.wake.wait(lock, [&] { return w.job.load(std::memory_order_acquire) != station_worker::idle; });
    return w.job.load(std::memory_order_acquire);
}

void run(station_engine *e) {
    station_worker &w = e->worker;
    while (next_job(w) == station_worker::call) {
        w.error.text[0] = 0;
        w.result = w.work(w.arg, &w.error);
        w.job.store(station_worker::idle, std::memory_order_release);
        const uint64_t one = 1;
        while (write(w.done, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
    }
}

void give(station_worker &w, int job) {
    {
        std::lock_guard<std::mutex> lock(w.mutex);
        w.job.store(job, std::memory_order_release);
    }
    w.wake.notify_one();
}

} // namespace

void station_worker_start(station_engine *e) {
    if (e->worker.thread.joinable()) {
        return;
    }
    e->worker.done = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (e->worker.done < 0) {
        throw std::runtime_error(std::string("eventfd: ") + strerror(errno));
    }
    e->worker.thread = std::thread(run, e);
}

void station_worker_stop(station_engine *e) {
    if (e->worker.thread.joinable()) {
        give(e->worker, station_worker::stop);
        e->worker.thread.join();
    }
}

void station_worker_call(station_engine *e, int (*work)(void *, station_error *), void *arg) {
    e->worker.work = work;
    e->worker.arg = arg;
    give(e->worker, station_worker::call);
}

extern "C" int station_done_fd(const station_engine *e) { return e->worker.done; }

extern "C" int station_decode_start(station_engine *e, int n, const int32_t *token, const int32_t *pos,
                                    const int32_t *seq, const bool *output, station_error *err) {
    if (n < 1 || n > e->batch_max) {
        station_fail(err, "batch size out of range"); // llama.cpp would end the process
        return STATION_FAILED;
    }
    llama_batch &b = e->batch;
    b.n_tokens = n;
    for (int i = 0; i < n; i++) {
        b.token[i] = token[i];
        b.pos[i] = pos[i];
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = seq[i];
        b.logits[i] = output[i];
    }
    station_worker_call(e, [](void *arg, station_error *x) { return station_decode_batch(static_cast<station_engine *>(arg), x); }, e);
    return STATION_OK;
}

extern "C" int station_decode_result(station_engine *e, station_error *err) {
    if (e->worker.result == STATION_FAILED) {
        station_fail(err, e->worker.error.text);
    }
    return e->worker.result;
}
