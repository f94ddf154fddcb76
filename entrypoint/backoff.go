package entrypoint

import "time"

// backoff spaces restarts: the pause doubles with each end of a child and
// decays with the time a child ran, one step for every Stable. So a crash now
// and then costs the first pause only, and a crash loop cannot become a fork
// storm. The zero step is "no crash remembered".
type backoff struct {
	first, longest time.Duration
	stable         time.Duration
	step           int
}

// next is the pause after a child that ran so long.
func (b *backoff) next(ran time.Duration) time.Duration {
	if b.stable > 0 {
		b.step = max(0, b.step-int(ran/b.stable))
	}
	d := b.first
	for i := 0; i < b.step && d < b.longest; i++ {
		d *= 2
	}
	if d < b.longest {
		b.step++
	}
	return min(d, b.longest)
}
