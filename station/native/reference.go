package native

// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"thoth/station/engine"
)

// What tests look at. A test file cannot use cgo, so it stands here.

// referenceDraws gives what llama.cpp's own chain draws n times from one row.
func referenceDraws(row []float32, p engine.SamplerParams, prompt []engine.Token, n int) ([]engine.Token, error) {
	cp, free := samplerParams(p, prompt)
	defer free()
	out := make([]engine.Token, n)
	var fail C.station_error
	if C.station_sample_reference((*C.float)(unsafe.Pointer(&row[0])), C.int(len(row)), cp, C.int(n), (*C.int32_t)(unsafe.Pointer(&out[0])), &fail) != C.STATION_OK {
		return nil, errors.New(message(&fail, "no reason given"))
	}
	return out, nil
}

// rowSlice lets a held row be read and written.
func rowSlice(h *held, n int) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(h.row)), n) }
