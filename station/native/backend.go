package native

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"thoth/station/engine"
)

// libraries is what the process has loaded. ggml keeps one registry for the
// whole process and cannot unload, so the first Load decides.
type libraries struct {
	mu       sync.Mutex
	dir      string   // "" before the first start
	cuda     bool     // CUDA was tried
	loaded   []string // paths
	errs     []string // what did not load, in the loader's words
	cudaErrs []string // of CUDA, which not every caller asks for
}

var theLibraries libraries

// start loads the kernel libraries of dir: the CPU library that suits this
// machine best, and CUDA's where it is asked for. The CPU one comes first,
// since devices sort by score and then by order.
//
// ggml would find them by itself, but swallows what the loader says, and then
// computes with the baseline kernels, ten times slower.
func (l *libraries) start(dir string, cuda bool) (loaded, errs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" {
		l.dir = dir
		if !l.loadBest(filepath.Join(dir, "libggml-cpu*.so")) && len(l.errs) == 0 {
			l.errs = append(l.errs, "no libggml-cpu*.so for this machine in "+dir)
		}
		C.station_backend_init()
	}
	if cuda && !l.cuda {
		l.cuda = true
		l.loadCUDA()
	}
	errs = slices.Clone(l.errs)
	if cuda {
		errs = append(errs, l.cudaErrs...)
	}
	if l.dir != dir {
		errs = append(errs, fmt.Sprintf("the libraries of %s are in use already, %s is ignored", l.dir, dir))
	}
	return slices.Clone(l.loaded), errs
}

// loadBest loads that library among those the pattern names which suits this
// machine best, and says whether there was one.
func (l *libraries) loadBest(pattern string) bool {
	paths, _ := filepath.Glob(pattern)
	best, bestScore := "", 0
	for _, p := range paths {
		score, err := probe(p)
		switch {
		case err != nil:
			l.errs = append(l.errs, err.Error())
		case score > bestScore:
			best, bestScore = p, score
		}
	}
	if best == "" {
		return false
	}
	if err := l.load(best); err != nil {
		l.errs = append(l.errs, err.Error())
		return false
	}
	return true
}

// cudaLibraries lists CUDA's libraries, of the newest toolkit first.
func cudaLibraries(dir string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, "cuda_v*", "libggml-cuda.so"))
	slices.Reverse(paths)
	return paths
}

func (l *libraries) loadCUDA() {
	paths := cudaLibraries(l.dir)
	if len(paths) == 0 {
		l.cudaErrs = append(l.cudaErrs, "no cuda_v*/libggml-cuda.so in "+l.dir)
	}
	for _, p := range paths {
		_, err := probe(p)
		if err == nil {
			err = l.load(p)
		}
		if err == nil {
			return
		}
		l.cudaErrs = append(l.cudaErrs, err.Error())
	}
}

// load registers a library for good.
func (l *libraries) load(path string) error {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var e C.station_error
	if !C.station_backend_load(cpath, &e) {
		return fmt.Errorf("%s: %s", path, message(&e, "not usable"))
	}
	l.loaded = append(l.loaded, path)
	return nil
}

// exact tells the CPU library in use whether a row's result may depend on the
// number of rows; it says whether the library can choose.
func (l *libraries) exact(on bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.loaded {
		if !strings.HasPrefix(filepath.Base(p), "libggml-cpu") {
			continue
		}
		cpath := C.CString(p)
		defer C.free(unsafe.Pointer(cpath))
		return bool(C.station_backend_exact(cpath, C.bool(on)))
	}
	return false
}

// probe loads a library and asks its score for this machine.
func probe(path string) (int, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var e C.station_error
	score := C.station_backend_probe(cpath, &e)
	if score < 0 {
		return 0, fmt.Errorf("%s: %s", path, message(&e, "does not load"))
	}
	return int(score), nil
}

// Probe says what would compute, without a model.
func Probe(o Options) (engine.Backend, error) {
	o, err := o.fill()
	if err != nil {
		return engine.Backend{}, err
	}
	b, _, err := chooseBackend(o)
	return b, err
}

// chooseBackend starts the libraries and decides what computes, in which memory. o is filled.
func chooseBackend(o Options) (engine.Backend, memory, error) {
	b := engine.Backend{Requested: o.Backend, Selected: BackendCPU, Threads: o.Threads, Reason: o.BackendReason}
	if o.Exact && o.Backend == BackendAuto {
		o.Backend, b.Reason = BackendCPU, joinReasons(b.Reason, "exact results: only the CPU's do not depend on the batch")
	}
	cuda := o.Backend == BackendCUDA || o.Backend == BackendAuto && len(cudaLibraries(o.LibraryDir)) > 0
	b.Libraries, b.Errors = theLibraries.start(o.LibraryDir, cuda)
	drainLog(o.Log)

	var d C.station_devices
	C.station_backend_devices(&d)
	b.Device = C.GoString(&d.cpu[0])
	b.Features = strings.Fields(C.GoString(&d.features[0]))
	gpu := C.GoString(&d.gpu[0])
	mem := readMemory()
	switch {
	case o.Backend == BackendCPU:
	case !cuda:
		b.Reason = joinReasons(b.Reason, "no CUDA libraries")
	case gpu != "":
		b.Selected, b.Device = BackendCUDA, gpu
		if o.GPULayers == 0 { // all of it lies there
			mem = memory{total: int64(d.gpu_total), free: int64(d.gpu_free)}
		}
	case o.Backend == BackendCUDA:
		return b, mem, loadError(engine.LoadBadSetting, "backend cuda was asked for, but there is no usable GPU: %s", strings.Join(b.Errors, "; "))
	default:
		b.Reason = joinReasons(b.Reason, "no usable GPU")
	}
	if d.linked && b.Selected == BackendCPU {
		b.Slow = true
		if !o.AllowSlow {
			return b, mem, loadError(engine.LoadSlowBackend, "no fast CPU kernels: %s; build them (make backends), name their folder, or insist on the slow ones",
				strings.Join(b.Errors, "; "))
		}
	}
	if can := theLibraries.exact(o.Exact); o.Exact {
		if !can {
			return b, mem, loadError(engine.LoadBadSetting, "exact results were asked for, but the CPU library in use cannot give them; build it anew (make backends)")
		}
		b.Features = append(b.Features, "EXACT=1")
	}
	return b, mem, nil
}

func joinReasons(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
