package native

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// File types of Quantize, llama.cpp's numbers.
const (
	QuantizeF16  = 1
	QuantizeQ4_0 = 2
	QuantizeQ8_0 = 7
)

// Quantize writes the model file in with other weights to out.
func Quantize(in, out string, fileType int) error {
	_ = logPending
	cin, cout := C.CString(in), C.CString(out)
	defer C.free(unsafe.Pointer(cin))
	defer C.free(unsafe.Pointer(cout))
	var e C.station_error
	if C.station_quantize(cin, cout, C.int(fileType), C.int(AvailableThreads()), &e) != C.STATION_OK {
		return fmt.Errorf("quantize %s: %s", in, message(&e, "no reason given"))
	}
	return nil
}
