package entrypoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	routeReady  = "/readyz"
	routeModels = "/v1/models"
	routeHealth = "/health"
)

// watchHost tells people where the host listens, and what to try once it is
// ready. For the keeper a host serves as soon as it listens: that it is not
// ready is the station's doing.
func (s *Supervisor) watchHost(ctx context.Context, c *Child, served func()) {
	served()
	status := c.Status()
	base := shownURL(status.Handshake.Address)
	s.o.Log.Info().Str("address", status.Handshake.Address).Str("build", status.Handshake.Build).
		Int("pid", status.PID).Msg("host listens")
	if s.greeted { // only this goroutine's predecessors wrote it, and they have ended
		return
	}
	fmt.Fprintf(s.o.Stdout, "listening on %s, loading model\n", base)

	hc := &http.Client{Timeout: 2 * time.Second}
	defer hc.CloseIdleConnections()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if code, _ := get(ctx, hc, base+routeReady); code == http.StatusOK {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	s.greeted = true
	fmt.Fprintf(s.o.Stdout, "ready: %s\n", curlLine(ctx, hc, base))
}

// curlLine is a command that gets an answer from this very server: with the
// name of its model, and a key where it asks for one.
func curlLine(ctx context.Context, hc *http.Client, base string) string {
	model, key := "default", ""
	code, body := get(ctx, hc, base+routeModels)
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	switch {
	case code == http.StatusUnauthorized:
		key = ` -H "Authorization: Bearer $API_KEY"`
		_, body = get(ctx, hc, base+routeHealth) // asks for no key
		var health struct {
			Models []string `json:"models"`
		}
		if json.Unmarshal(body, &health) == nil && len(health.Models) > 0 {
			model = health.Models[0]
		}
	case json.Unmarshal(body, &list) == nil && len(list.Data) > 0:
		model = list.Data[0].ID
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	request, _ := json.Marshal(struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		// A small model may not find its end, and a first try should.
		MaxTokens int `json:"max_tokens"`
	}{model, []message{{"user", "Say hi"}}, 64})
	return fmt.Sprintf("curl %s/v1/chat/completions%s -H 'Content-Type: application/json' -d '%s'", base, key, shellQuoted(request))
}

// shellQuoted escapes what would end a single-quoted shell word.
func shellQuoted(b []byte) string {
	var out []byte
	for _, c := range b {
		if c == '\'' {
			out = append(out, `'\''`...)
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func get(ctx context.Context, hc *http.Client, url string) (int, []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil
	}
	resp, err := hc.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, b
}
