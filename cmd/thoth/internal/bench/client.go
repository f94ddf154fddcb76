package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// server is a target that can be asked.
type server struct {
	Target
	http    *http.Client
	timeout time.Duration
}

func newServer(t Target, timeout time.Duration) *server {
	return &server{Target: t, timeout: timeout, http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 4096,
		DisableCompression:  true,
	}}}
}

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// question is one chat request.
type question struct {
	prompt      string    // of a user, alone
	messages    []message // or a whole conversation
	maxTokens   int
	temperature float64
	topP        float64 // 0: left out
	topK        int     // 0: left out
	schema      string  // of the answer, "" for none
	seed        int
	toTheCap    bool // go on past the end of the turn, so that all answers are as long
	noReuse     bool // compute the whole prompt, whatever is stored
}

// answer is what the client saw. Times count from just before the request.
type answer struct {
	began            time.Time
	first            time.Duration   // first text
	arrivals         []time.Duration // every piece of text
	text             string
	finish           string
	promptTokens     int
	completionTokens int
	engineMS         float64 // the server's own figure for the prompt's evaluation; 0 when it gives none
	serverTTFTMS     float64 // the server's own time to first token; 0 when it gives none
	cachedTokens     int     // of the prompt, not computed
	liquid           string  // _gnosis.liquid_memory; "" of a server without
}

// tokensPerChunk weighs a chunk: a server may put several tokens into one, or
// hold text back.
func (a *answer) tokensPerChunk() float64 {
	return float64(a.completionTokens) / float64(len(a.arrivals))
}

// chunk is the part of a stream's event that is looked at.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Gnosis *struct {
		LiquidMemory string `json:"liquid_memory"`
		Timings      struct {
			EngineMS float64 `json:"engine_ms"`
			TTFTMS   float64 `json:"ttft_ms"`
		} `json:"timings"`
	} `json:"_gnosis"`
	Timings *struct { // llama-server's
		PromptMS float64 `json:"prompt_ms"`
	} `json:"timings"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// ask sends a streamed chat request and reads it to its end.
func (s *server) ask(ctx context.Context, q question) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	messages := q.messages
	if messages == nil {
		messages = []message{{"user", q.prompt}}
	}
	body := map[string]any{
		"model":          s.Model,
		"messages":       messages,
		"max_tokens":     q.maxTokens,
		"temperature":    q.temperature,
		"seed":           q.seed,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	if q.topP > 0 {
		body["top_p"] = q.topP
	}
	if q.topK > 0 {
		body["top_k"] = q.topK
	}
	if q.schema != "" {
		body["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "answer", "strict": true, "schema": json.RawMessage(q.schema)}}
	}
	if q.toTheCap {
		body["ignore_eos"] = true // of llama-server and vLLM too
	}
	if q.noReuse {
		body["cache_prompt"] = false // llama-server's; ours is the header below
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	// Lets the transport send it again when the server closed the idle connection
	// at that very moment, as some do after seconds.
	req.Header.Set("Idempotency-Key", rand.Text())
	if q.noReuse {
		req.Header.Set("X-Thoth-Liquid", "off")
	}
	s.authorize(req)
	a := &answer{began: time.Now()}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(b)))
	}
	return a, a.read(resp.Body)
}

func (s *server) authorize(req *http.Request) {
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
}

// read takes the events of a stream.
func (a *answer) read(r io.Reader) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 16<<10), 4<<20)
	var text strings.Builder
	done := false
	for sc.Scan() {
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data:"))
		if !ok {
			continue // blank, comment, or another field
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			done = true
			continue // to the end, so that the connection can be used again
		}
		now := time.Since(a.began)
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("an event is not JSON: %w", err)
		}
		if c.Error != nil {
			return fmt.Errorf("error event: %s", c.Error.Message)
		}
		a.take(&c, now, &text)
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	a.text = text.String()
	switch {
	case !done && a.finish == "":
		return errors.New("the stream ended without a finish reason")
	case len(a.arrivals) == 0:
		return errors.New("the answer has no text")
	}
	if a.completionTokens == 0 { // no usage: the chunks are the best there is
		a.completionTokens = len(a.arrivals)
	}
	return nil
}

func (a *answer) take(c *chunk, now time.Duration, text *strings.Builder) {
	for _, choice := range c.Choices {
		if t := choice.Delta.Content + choice.Delta.ReasoningContent; t != "" {
			if len(a.arrivals) == 0 {
				a.first = now
			}
			a.arrivals = append(a.arrivals, now)
			text.WriteString(t)
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
	if c.Usage != nil {
		a.promptTokens, a.completionTokens = c.Usage.PromptTokens, c.Usage.CompletionTokens
		a.cachedTokens = c.Usage.Details.CachedTokens
	}
	if c.Gnosis != nil {
		a.liquid = c.Gnosis.LiquidMemory
		a.engineMS, a.serverTTFTMS = c.Gnosis.Timings.EngineMS, c.Gnosis.Timings.TTFTMS
	} else if c.Timings != nil {
		a.engineMS = c.Timings.PromptMS
	}
}

// getJSON reads a small JSON document; header gives the answer's headers too.
func (s *server) getJSON(ctx context.Context, path string, v any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return nil, err
	}
	s.authorize(req)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp.Header, fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return resp.Header, json.Unmarshal(b, v)
}

// chooseModel asks for the served model's name unless one was given.
func (s *server) chooseModel(ctx context.Context) error {
	if s.Model != "" {
		return nil
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if _, err := s.getJSON(ctx, "/v1/models", &list); err != nil {
		return fmt.Errorf("%s: %w", s.URL, err)
	}
	if len(list.Data) == 0 || list.Data[0].ID == "" {
		return fmt.Errorf("%s lists no model; name one", s.URL)
	}
	s.Model = list.Data[0].ID
	return nil
}
