// Forced into every file of the CPU kernel libraries (-include, CMakeLists.txt).
//
// ggml's compute threads spin at the barrier after every operation, and between
// two graphs, with nothing but a pause. As soon as another thread wants one of
// their cores (the HTTP side, a neighbour), one of them waits a whole time slice
// for a thread that is not running while it keeps the core busy: two threads on
// two busy cores fell from 80 tokens a second to between 1 and 14. So every few
// hundred pauses, some ten microseconds, the waiting thread offers its core. With
// nobody there to take it that costs less than a microsecond, of waiting.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sched.h>

static inline void thoth_pause(void) {
    static __thread unsigned pauses;
    __builtin_ia32_pause();
    if (++pauses % 256 == 0) {
        sched_yield();
    }
}

#define _mm_pause() thoth_pause()
#endif
