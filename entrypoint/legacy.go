package entrypoint

import (
	"context"
	"time"

	"thoth/station/client"
	"thoth/station/wire"
)

const (
	legacyEvery   = 250 * time.Millisecond
	legacyTimeout = 2 * time.Second
)

// legacyAnswer is a silent station's own word about itself.
type legacyAnswer struct {
	url    string
	health *wire.Health
}

// probeLegacy asks a silent station for /health until one address answers: the
// one it was told to listen on, and any loopback port that the process itself
// has open, since a station that old may not know the setting. Only its own
// ports: another instance's station may be near.
func probeLegacy(ctx context.Context, pid int, url string, found chan<- legacyAnswer) {
	tick := time.NewTicker(legacyEvery)
	defer tick.Stop()
	for {
		urls := listeners(pid)
		if url != "" {
			urls = append([]string{url}, urls...)
		}
		for _, u := range urls {
			if h := askHealth(ctx, u, legacyTimeout); h != nil {
				found <- legacyAnswer{u, h}
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// askHealth is a station's /health, nil when it does not answer.
func askHealth(ctx context.Context, url string, timeout time.Duration) *wire.Health {
	c, err := client.New(url, client.Options{MaxConns: 1})
	if err != nil {
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h, err := c.Health(ctx)
	if err != nil {
		return nil
	}
	return h
}
