package cold

import (
	"sync"
	"time"
)

// parallel is how many reads a caller is taken to issue at once, and how many
// deletes are.
const parallel = 8

// speed is what reading was seen to take: the time until the first byte comes and,
// from there, bytes a second over all reads that run together. Both are moving averages.
type speed struct {
	mu      sync.Mutex
	known   bool
	latency float64 // seconds
	rate    float64 // bytes a second, together
	active  int     // reads under way
}

// weight of a new sample in the averages.
const weight = 0.25

func average(old, sample, weight float64) float64 { return old + weight*(sample-old) }

// begin counts a read in; how many run together then is its share of the rate.
func (s *speed) begin() (together int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	return s.active
}

// end counts a read out that took first to its first byte and rest for bytes
// after it; bytes 0 when there was nothing to read, ok false when it failed.
func (s *speed) end(began int, first, rest time.Duration, bytes int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	together := float64(began+s.active) / 2
	s.active--
	if !ok {
		return
	}
	// A rate is measured on what is large enough to have one.
	rate := 0.0
	if bytes >= 16<<10 && rest > 0 {
		rate = float64(bytes) / rest.Seconds() * together
	}
	if !s.known {
		if rate > 0 {
			s.known, s.latency, s.rate = true, first.Seconds(), rate
		}
		return
	}
	s.latency = average(s.latency, first.Seconds(), weight)
	if rate > 0 {
		s.rate = average(s.rate, rate, weight)
	}
}

// predict is how long so many blocks of so many bytes take.
func (s *speed) predict(blocks int, bytes int64) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return 0, false
	}
	rounds := (max(blocks, 1) + parallel - 1) / parallel
	return time.Duration((float64(rounds)*s.latency + float64(bytes)/s.rate) * float64(time.Second)), true
}

// missed says that d was not enough. The prediction of one block then is above d, and
// waiting twice as long the next time would find out more; so it grows as a
// retransmission timeout does, and what the late read took brings it down again.
func (s *speed) missed(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		s.latency = max(2*s.latency, d.Seconds())
	}
}

// measured tells whether there is a prediction.
func (s *speed) measured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// slower tells whether the prediction is far above what a probe just took.
func (s *speed) slower(first time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known && s.latency > 2*first.Seconds()+0.001
}
