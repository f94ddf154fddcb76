//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// arrivals reads a stream's events and when each came.
func arrivals(t *testing.T, r io.Reader) (at []time.Time, raw []byte) {
	t.Helper()
	rd := bufio.NewReader(r)
	for {
		line, err := rd.ReadBytes('\n')
		raw = append(raw, line...)
		if bytes.HasPrefix(line, []byte("data: ")) {
			at = append(at, time.Now())
		}
		if err == io.EOF {
			return at, raw
		}
		require.NoError(t, err)
	}
}

// requireSteady checks that events came one by one: the first long before the
// last, and at many different times between.
func requireSteady(t *testing.T, at []time.Time, tokens int) {
	t.Helper()
	require.Greater(t, len(at), tokens/2)
	first, last := at[0], at[len(at)-1]
	whole := last.Sub(first)
	apart, longest := 0, time.Duration(0)
	for i := 1; i < len(at); i++ {
		gap := at[i].Sub(at[i-1])
		longest = max(longest, gap)
		if gap > whole/time.Duration(20*len(at)) {
			apart++
		}
	}
	require.Greater(t, apart, tokens/2, "events came in heaps: %d apart of %d", apart, len(at))
	require.Less(t, longest, whole/2, "the stream stood still")
}

func TestStream_TokensComeOneByOne(t *testing.T) {
	const tokens = 200
	body := func(n int) string {
		b, err := json.Marshal(P(obj{"stream": true, "max_tokens": n, "messages": []obj{user(counting)}}))
		require.NoError(t, err)
		return string(b)
	}
	t.Run("Directly", func(t *testing.T) {
		resp, err := shared.open(t.Context(), http.MethodPost, chatPath, body(tokens))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, "text/event-stream", strings.SplitN(resp.Header.Get("Content-Type"), ";", 2)[0])
		require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
		require.Empty(t, resp.Header.Get("Content-Length"))
		require.EqualValues(t, -1, resp.ContentLength)
		at, _ := arrivals(t, resp.Body)
		requireSteady(t, at, tokens)
	})
	t.Run("ToAClientThatTakesCompression", func(t *testing.T) {
		resp, err := shared.open(t.Context(), http.MethodPost, chatPath, body(60), "Accept-Encoding", "gzip, br, zstd")
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Empty(t, resp.Header.Get("Content-Encoding"))
		at, raw := arrivals(t, resp.Body)
		requireSteady(t, at, 60)
		_, err = parseEvents(raw)
		require.NoError(t, err)
	})
	t.Run("OverHTTP10", func(t *testing.T) {
		c, err := net.Dial("tcp", strings.TrimPrefix(shared.base, "http://"))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		b := body(60)
		fmt.Fprintf(c, "POST %s HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(b), b)
		rd := bufio.NewReader(c)
		resp, err := http.ReadResponse(rd, nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Empty(t, resp.TransferEncoding, "HTTP/1.0 knows no chunks")
		at, raw := arrivals(t, resp.Body)
		requireSteady(t, at, 60)
		e, err := parseEvents(raw)
		require.NoError(t, err)
		require.True(t, e.Done)
	})
	t.Run("ThroughAProxy", func(t *testing.T) {
		target, err := url.Parse(shared.base)
		require.NoError(t, err)
		proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
		defer proxy.Close()
		resp, err := http.Post(proxy.URL+chatPath, "application/json", strings.NewReader(body(60)))
		require.NoError(t, err)
		defer resp.Body.Close()
		at, _ := arrivals(t, resp.Body)
		requireSteady(t, at, 60)
	})
}

// pings counts the comments in a piece of a stream, and checks that each is a
// line of its own that no parser takes for an event.
func pings(t *testing.T, raw []byte) int {
	t.Helper()
	n := 0
	for _, block := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n\n")), []byte("\n\n")) {
		if bytes.HasPrefix(block, []byte(":")) {
			require.NotContains(t, string(block), "\n")
			n++
			continue
		}
		require.Regexp(t, `^data: .`, string(block))
	}
	return n
}

// A stream that has nothing to say yet says so.
func TestStream_SilenceIsFilledWithComments(t *testing.T) {
	s := start(t, append(oneSlot, "THOTH_PING_INTERVAL=100ms")...)
	long := obj{"messages": []obj{user(longPrompt(600))}}

	t.Run("WhileThePromptIsEvaluated", func(t *testing.T) {
		e := s.stream(t, long)
		require.True(t, e.Done)
		require.NotEmpty(t, e.Text(0))
		firstData := bytes.Index(e.Raw, []byte("data: "))
		require.GreaterOrEqual(t, pings(t, e.Raw[:firstData]), 5)
		pings(t, e.Raw)
		require.Equal(t, s.chat(t, long).Text(t), e.Text(0))
	})
	t.Run("AndTheSDKReadsOn", func(t *testing.T) {
		config := sdk.DefaultConfig("none")
		config.BaseURL = s.base + "/v1"
		config.EmptyMessagesLimit = 1e6 // it counts lines without data; the default is right for pings every ten seconds
		stream, err := sdk.NewClientWithConfig(config).CreateChatCompletionStream(t.Context(), sdk.ChatCompletionRequest{
			Model: "test-model", MaxCompletionTokens: 8, Temperature: 1e-9, Messages: []sdk.ChatCompletionMessage{{Role: "user", Content: longPrompt(600)}}})
		require.NoError(t, err)
		defer stream.Close()
		text := ""
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			text += r.Choices[0].Delta.Content
		}
		require.NotEmpty(t, text)
	})
	t.Run("WhileWaiting", func(t *testing.T) {
		active := s.begin(t, endless).follow()
		resp, err := s.open(t.Context(), http.MethodPost, chatPath, P(obj{"stream": true}))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 1, s.number(t, "host", "waiting"))
		rd := bufio.NewReader(resp.Body)
		var raw []byte
		for bytes.Count(raw, []byte("\n\n")) < 3 {
			line, err := rd.ReadBytes('\n')
			require.NoError(t, err)
			raw = append(raw, line...)
		}
		require.Equal(t, 3, pings(t, raw))
		require.False(t, active.ended())
		active.cancel()
		rest, err := io.ReadAll(rd)
		require.NoError(t, err)
		e, err := parseEvents(append(raw, rest...))
		require.NoError(t, err)
		require.True(t, e.Done)
		require.NotEmpty(t, e.Text(0))
	})
	// The status is sent by then: what fails is an event.
	t.Run("AndAFailureIsAnEvent", func(t *testing.T) {
		another := obj{"messages": []obj{user("Another. " + longPrompt(600))}, "stream": true} // one it has not seen
		resp, err := s.open(t.Context(), http.MethodPost, chatPath, P(another))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
		s.signalChild(t, stationProgram, syscall.SIGKILL)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Positive(t, pings(t, raw))
		e, err := parseEvents(raw)
		require.NoError(t, err)
		require.False(t, e.Done)
		require.Equal(t, "station_unavailable", e.Error["code"])
		s.comesBack(t)
	})
}
