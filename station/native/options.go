package native

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"thoth/station/engine"
)

// Backends a caller may ask for.
const (
	BackendAuto = "auto" // CUDA where it works, else CPU
	BackendCPU  = "cpu"
	BackendCUDA = "cuda"
)

// maxSequences leaves room for ballast and scratch below llama.cpp's 256.
const maxSequences = 254

// Options configure Load. The zero value of a field means its default.
type Options struct {
	// Model is the path of a GGUF file, the first shard of a split one.
	Model string
	// Cells is the KV pool's size; 0: four contexts, within a quarter of the
	// free memory. Rounded up to a multiple of 256.
	Cells int
	// ContextLength is the most tokens of one sequence; 0: what the model was
	// trained for, at most 32768, less when memory is short.
	ContextLength int
	// Sequences is how many sequences may live at once; 0: 64.
	Sequences int
	// BatchSize is the most tokens of one decode; 0: 512.
	BatchSize int
	// KVTypeK and KVTypeV are f16 or q8_0; "": f16.
	KVTypeK, KVTypeV string
	// NoFlashAttention turns flash attention off. Restored KV then gives other
	// logits, and every parked sequence slows the others.
	NoFlashAttention bool
	// Threads compute; 0: what the cgroup's CPU quota and the affinity allow.
	Threads int
	// Poll is how hard idle compute threads spin for work, 0 to 100; negative: the default.
	Poll int
	// Backend is auto, cpu or cuda; "": auto.
	Backend string
	// BackendReason is why the caller chose Backend; it begins Backend.Reason.
	BackendReason string
	// GPULayers is how many layers go to the GPU; 0: all of them.
	GPULayers int
	// LibraryDir holds the kernel libraries; "": ../lib/ollama beside the program.
	LibraryDir string
	// Exact leaves out kernels whose sums depend on what else is in a batch: those
	// for F32, F16 and BF16 weights. CPU only; the last Load of a process decides.
	Exact bool
	// AllowSlow starts even when only the baseline kernels are there.
	AllowSlow bool
	// EmbedPooling makes one vector of a text's: mean, cls or last; "": as the
	// model says, mean where it says nothing.
	EmbedPooling string
	// EmbedContext is the most tokens of one text to be embedded by a model that
	// also generates; 0: ContextLength, at most 8192. Encoders take ContextLength.
	EmbedContext int
	// MemoryBudget bounds weights, KV and buffers, in bytes; 0: the memory that is free.
	MemoryBudget int64
	// NoMmap reads the weights instead of mapping them.
	NoMmap bool
	// Log receives llama.cpp's warnings and errors, one line each; nil: dropped.
	Log func(level, line string)
}

// DefaultPoll is the polling of Options.Poll below zero.
const DefaultPoll = 50

// fill checks o and puts its defaults in. Cells and ContextLength stay 0 where
// automatic: they depend on the model.
func (o Options) fill() (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return o, &engine.LoadError{Kind: engine.LoadBadSetting, Msg: fmt.Sprintf(format, args...)}
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Sequences, 64)
	def(&o.BatchSize, 512)
	def(&o.Threads, AvailableThreads())
	if o.KVTypeK == "" {
		o.KVTypeK = "f16"
	}
	if o.KVTypeV == "" {
		o.KVTypeV = "f16"
	}
	if o.Backend == "" {
		o.Backend = BackendAuto
	}
	if o.Poll < 0 {
		o.Poll = DefaultPoll
	}
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	switch {
	case o.Cells < 0 || o.Cells > math.MaxInt32-256:
		return bad("cells must be 0 (automatic) or more, not %d", o.Cells)
	case o.ContextLength < 0 || o.ContextLength > math.MaxInt32-256:
		return bad("context length must be 0 (automatic) or more, not %d", o.ContextLength)
	case o.Sequences < 1 || o.Sequences > maxSequences:
		return bad("sequences must be 1 to %d, not %d", maxSequences, o.Sequences)
	case o.BatchSize < 1 || o.BatchSize > 8192:
		return bad("batch size must be 1 to 8192, not %d", o.BatchSize)
	case o.EmbedContext < 0 || o.EmbedContext > math.MaxInt32-256:
		return bad("embed context must be 0 (automatic) or more, not %d", o.EmbedContext)
	case o.EmbedPooling != "" && poolings[o.EmbedPooling] == 0:
		return bad("embed pooling must be mean, cls or last, not %q", o.EmbedPooling)
	case o.Threads < 1 || o.Threads > 512:
		return bad("threads must be 1 to 512, not %d", o.Threads)
	case o.Poll > 100:
		return bad("poll must be 0 to 100, not %d", o.Poll)
	case o.MemoryBudget < 0:
		return bad("memory budget must be 0 (automatic) or more, not %d", o.MemoryBudget)
	case o.GPULayers < 0:
		return bad("GPU layers must be 0 (all) or more, not %d", o.GPULayers)
	case o.Exact && o.Backend == BackendCUDA:
		return bad("exact results need backend cpu, not cuda")
	case o.Backend != BackendAuto && o.Backend != BackendCPU && o.Backend != BackendCUDA:
		return bad("backend must be auto, cpu or cuda, not %q", o.Backend)
	}
	for _, t := range []string{o.KVTypeK, o.KVTypeV} {
		if _, ok := kvTypes[t]; !ok {
			return bad("KV type must be f16 or q8_0, not %q", t)
		}
	}
	if o.NoFlashAttention && o.KVTypeV != "f16" {
		return bad("KV type %s for V needs flash attention", o.KVTypeV)
	}
	if o.ContextLength > 0 && o.Cells > 0 && o.ContextLength > o.Cells {
		return bad("context length %d is more than the pool's %d cells", o.ContextLength, o.Cells)
	}
	if o.LibraryDir == "" {
		exe, err := os.Executable()
		if err != nil {
			return bad("library folder is not set and the program's own path is unknown: %v", err)
		}
		o.LibraryDir = filepath.Join(filepath.Dir(exe), "..", "lib", "ollama")
	}
	dir, err := filepath.Abs(o.LibraryDir)
	if err != nil {
		return bad("library folder %q: %v", o.LibraryDir, err)
	}
	o.LibraryDir = dir
	return o, nil
}

// kvType is a type the KV cache may have: block and block size, as in ggml.
type kvType struct {
	ggml       int32
	blockLen   int64
	blockBytes int64
}

var kvTypes = map[string]kvType{
	"f16":  {ggml: 1, blockLen: 1, blockBytes: 2},
	"q8_0": {ggml: 8, blockLen: 32, blockBytes: 34},
}

// AvailableThreads is the number of threads this process can run at once: the
// floor of the cgroup's CPU quota, within the affinity mask, at least 1. More
// threads than quota collapse: the spinning ones eat what the working ones need.
func AvailableThreads() int {
	n := runtime.NumCPU() // counts the affinity mask
	if quota, ok := cpuQuota(cgroupRoot, selfCgroup()); ok {
		n = min(n, int(quota))
	}
	return max(n, 1)
}
