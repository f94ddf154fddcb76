package entrypoint

import "fmt"

// Backends that may be asked for.
const (
	BackendAuto = "auto"
	BackendCUDA = "cuda"
	BackendCPU  = "cpu"
)

// backendPlan is the station's backend, now and after a failure. The station's
// keeper owns it.
type backendPlan struct {
	backend string // cuda or cpu
	reason  string // why it is not what was asked for; "" when it is
	mayFall bool   // auto on CUDA: a station that does not come up is tried on CPU
	cuda    CUDA
}

// planBackend decides what to start with; onCPU names the setting that asks for
// the CPU, "" for none. An explicit wish for CUDA that cannot work is refused at
// once, naming both versions, and not served slowly.
func planBackend(requested, onCPU string, m Machine) (*backendPlan, error) {
	switch requested {
	case "", BackendAuto, BackendCUDA, BackendCPU:
	default:
		return nil, settingError("THOTH_BACKEND is %q; allowed are auto, cpu and cuda", requested)
	}
	if onCPU != "" {
		if requested == BackendCUDA {
			return nil, settingError("THOTH_BACKEND=cuda and %s=1 contradict each other: unset one", onCPU)
		}
		return &backendPlan{backend: BackendCPU, reason: onCPU + " is set"}, nil
	}
	if requested == BackendCPU {
		return &backendPlan{backend: BackendCPU}, nil
	}
	cuda := DetectCUDA(m)
	if why := cuda.Unusable(); why != "" {
		if requested == BackendCUDA {
			return nil, settingError("THOTH_BACKEND=cuda cannot be had: %s; THOTH_BACKEND=auto would serve on the CPU", why)
		}
		return &backendPlan{backend: BackendCPU, reason: why, cuda: cuda}, nil
	}
	return &backendPlan{backend: BackendCUDA, mayFall: requested != BackendCUDA, cuda: cuda}, nil
}

// fall turns to the CPU after a station on CUDA that never served. It says
// whether there was anything to turn to.
func (p *backendPlan) fall(why string) bool {
	if !p.mayFall || p.backend != BackendCUDA {
		return false
	}
	p.backend, p.mayFall = BackendCPU, false
	p.reason = "fell back from CUDA: " + why
	if p.cuda.Driver != "" {
		p.reason += fmt.Sprintf(" (driver %s, runtime %s)", p.cuda.Driver, p.cuda.Runtime)
	}
	return true
}

// env is what the station is told.
func (p *backendPlan) env(ldPath string) []string {
	env := []string{"THOTH_BACKEND=" + p.backend, "THOTH_BACKEND_REASON=" + p.reason}
	if p.backend == BackendCUDA {
		env = append(env, "LD_LIBRARY_PATH="+p.cuda.libraryPath(ldPath))
	}
	return env
}
