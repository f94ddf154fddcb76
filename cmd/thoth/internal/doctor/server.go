package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"thoth/station/client"
	"thoth/station/wire"
)

// askWait bounds one question to a server.
const askWait = 3 * time.Second

// servers looks at the host's port: free for a start, or taken by a host that is
// then asked how it is; and at the station, if one is named.
func servers(ctx context.Context, o *Options) []Finding {
	out := []Finding{host(ctx, o)}
	if o.StationURL != "" {
		out = append(out, station(ctx, o.StationURL))
	}
	return out
}

func host(ctx context.Context, o *Options) Finding {
	const what = "server"
	health, status, err := hostHealth(ctx, o.URL)
	if err == nil {
		return hostFinding(what, o.URL, health, status)
	}
	ln, lerr := net.Listen("tcp", fmt.Sprintf(":%d", o.Port))
	if lerr != nil {
		return fail("port", "stop what uses it (ss -ltnp shows it), or set PORT",
			"%d cannot be used (%s), and no server of ours answers at %s", o.Port, firstLine(lerr.Error()), o.URL)
	}
	_ = ln.Close()
	return ok("port", "%d is free; no server runs at %s", o.Port, o.URL)
}

// hostHealth reads /health; the three liquid fields prove that it is ours.
func hostHealth(ctx context.Context, url string) (health map[string]any, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/health", nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, 0, err
	}
	if err := json.Unmarshal(b, &health); err != nil {
		return nil, 0, err
	}
	if _, ours := health["liquid_memory"]; !ours {
		return nil, 0, fmt.Errorf("%s/health is another program's", url)
	}
	return health, resp.StatusCode, nil
}

func hostFinding(what, url string, health map[string]any, status int) Finding {
	text := func(v any) string {
		if v == nil {
			return "?"
		}
		return fmt.Sprint(v)
	}
	detail := fmt.Sprintf("%s answers %d: status %s, liquid memory %s", url, status, text(health["status"]), text(health["liquid_memory"]))
	for _, k := range []string{"liquid_reason", "reason"} {
		if s, ok := health[k].(string); ok && s != "" {
			detail += " (" + s + ")"
		}
	}
	if st := health["status"]; st == "failed" || st == "template_broken" || st == "stalled" || status >= 500 {
		return fail(what, "read the server's log", "%s", detail)
	} else if st != "ok" {
		return warn(what, "wait a little, then read the server's log", "%s", detail)
	}
	return ok(what, "%s", detail)
}

func station(ctx context.Context, url string) Finding {
	const what = "station"
	c, err := client.New(url, client.Options{})
	if err != nil {
		return fail(what, "correct FAT_STATION_URL", "%v", err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	h, err := c.Health(ctx)
	if err != nil {
		return fail(what, "start the station, or correct FAT_STATION_URL", "%s: %v", url, err)
	}
	detail := fmt.Sprintf("%s: %s, build %s, %s on %s, %d threads", url, h.Status, h.Build, h.Backend.Selected, h.Backend.Device, h.Backend.Threads)
	switch {
	case h.Wire != 0 && h.Wire != wire.Version:
		return fail(what, "make build, and restart both", "%s speaks wire %d, this build speaks %d", url, h.Wire, wire.Version)
	case h.Status == wire.StatusFailed:
		return fail(what, "read its log", "%s: %s", detail, h.Error)
	case h.Backend.Slow:
		return warn(what, "make backends", "%s: it runs on the slow baseline kernels", detail)
	case h.Status != wire.StatusOK:
		return warn(what, "wait", "%s", detail)
	case len(h.Backend.Errors) > 0:
		return warn(what, "make backends", "%s; libraries that failed: %s", detail, strings.Join(h.Backend.Errors, "; "))
	}
	return ok(what, "%s", detail)
}
