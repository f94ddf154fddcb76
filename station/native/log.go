package native

// #include "shim.h"
import "C"

import (
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"
)

// logPending is written by C; looking at it costs no call.
var logPending = func() *int32 {
	C.station_log_init()
	return (*int32)(unsafe.Pointer(C.station_log_pending()))
}()

// untrue are warnings that do not hold here.
var untrue = []string{
	"possible training context overflow", // it takes the pool for one sequence's context
	"removing memory module entries",     // an abort that was asked for
}

// drainLog hands llama.cpp's waiting warnings and errors to the caller's log.
func drainLog(log func(level, line string)) {
	if atomic.LoadInt32(logPending) == 0 {
		return
	}
	var buf [4096]C.char
	var level C.int
	for C.station_log_take(&buf[0], C.size_t(len(buf)), &level) {
		name := "warn"
		if level == 4 { // GGML_LOG_LEVEL_ERROR
			name = "error"
		}
		line := C.GoString(&buf[0])
		if !slices.ContainsFunc(untrue, func(s string) bool { return strings.Contains(line, s) }) {
			log(name, line)
		}
	}
}

// message gives what C wrote into an error, or a stand-in.
func message(e *C.station_error, otherwise string) string {
	if s := C.GoString(&e.text[0]); s != "" {
		return s
	}
	return otherwise
}
