package entrypoint

import (
	"os"
	"syscall"
	"time"
)

// stopPlan shares the shutdown time out. What is left after both shares is
// split: half gives the host time to end by itself after its drain, a quarter
// stays for killing and collecting what would not end.
type stopPlan struct {
	host time.Duration // from the signal until the host is killed
	all  time.Duration // from the signal until the station is killed
}

func (o *Options) stopPlan() stopPlan {
	spare := o.Shutdown - o.HostDrain - o.StationFlush
	return stopPlan{host: o.HostDrain + spare/2, all: o.Shutdown - spare/4}
}

// stopAll stops the host, then the station, inside the deadline. One more
// signal ends everything at once.
func (s *Supervisor) stopAll(signals <-chan os.Signal, hostStarted bool) error {
	began := time.Now()
	plan := s.o.stopPlan()
	overdue := time.NewTimer(s.o.Shutdown)
	defer overdue.Stop()

	type stage struct {
		k  *keeper
		by time.Duration // since the signal
	}
	var stages []stage
	if hostStarted {
		stages = append(stages, stage{s.host, plan.host})
	}
	if s.station != nil {
		stages = append(stages, stage{s.station, plan.all})
	}
	killAll := func() {
		for _, st := range stages {
			st.k.Kill()
		}
	}
	code := 0
	for _, st := range stages {
		st.k.Stop(st.by - time.Since(began))
		for ended := false; !ended; {
			select {
			case <-st.k.ended:
				ended = true
				if st.k.forced && code == 0 {
					code = exitSignal + int(syscall.SIGTERM)
				}
				s.o.Log.Info().Str("child", st.k.name).Bool("killed", st.k.forced).
					Dur("after_ms", time.Since(began)).Msg("stopped")
			case sig := <-signals:
				code = exitSignal + signalNumber(sig)
				s.o.Log.Warn().Str("signal", sig.String()).Msg("second signal: ending at once")
				killAll()
			case <-overdue.C:
				// Killed and still not gone: it hangs in the kernel. Waiting
				// longer would only get us killed, with nothing said.
				s.o.Log.Error().Str("child", st.k.name).Msg("cannot be ended inside the deadline")
				killAll()
				return &ExitError{Code: ExitFailed, Msg: st.k.name + " could not be ended inside the deadline"}
			}
		}
	}
	if code != 0 {
		return &ExitError{Code: code, Msg: "not everything stopped by itself"}
	}
	return nil
}

func signalNumber(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGTERM)
}
