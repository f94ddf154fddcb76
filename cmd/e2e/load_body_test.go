//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wireConn is a connection on which the test writes what it likes.
type wireConn struct {
	net.Conn
	r *bufio.Reader
}

func (s *server) dial(t *testing.T) *wireConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &wireConn{c, bufio.NewReader(c)}
}

// head writes the head of a chat request.
func (c *wireConn) head(lines ...string) *wireConn {
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n%s\r\n\r\n", chatPath, strings.Join(lines, "\r\n"))
	return c
}

// reply reads the answer, within some time.
func (c *wireConn) reply(t *testing.T, within time.Duration) reply {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, b}
}

// pour writes n bytes of JSON text as the server takes them; chunked or not.
func (c *wireConn) pour(n int, chunked bool) {
	piece := []byte(strings.Repeat("x", 64<<10))
	for sent := 0; sent < n; sent += len(piece) {
		format := "%s"
		if chunked {
			format = fmt.Sprintf("%x\r\n%%s\r\n", len(piece))
		}
		if _, err := fmt.Fprintf(c, format, piece); err != nil {
			return // it has been told to stop
		}
	}
}

const impatient = 2 * time.Second // THOTH_HEADER_TIMEOUT and THOTH_BODY_TIMEOUT of the two tests below

func impatientServer(t *testing.T) *server {
	return start(t, "THOTH_HEADER_TIMEOUT="+impatient.String(), "THOTH_BODY_TIMEOUT="+impatient.String())
}

func TestBody_TooMuchIsRefusedWithoutBeingHeld(t *testing.T) {
	s := impatientServer(t)
	host := s.child(hostProgram)
	s.answersAgain(t)
	before := memory(t, host, "VmHWM")
	start := `{"model":"test-model","messages":[{"role":"user","content":"`

	for name, send := range map[string]func(c *wireConn){
		"TwoHundredMegabytes": func(c *wireConn) {
			c.head("Content-Length: 200000000")
			go func() { io.WriteString(c, start); c.pour(200_000_000, false) }()
		},
		"TwoHundredMegabytesInChunks": func(c *wireConn) {
			c.head("Transfer-Encoding: chunked")
			go c.pour(200_000_000, true)
		},
		"AnAbsurdLength": func(c *wireConn) {
			c.head("Content-Length: 99999999999")
			io.WriteString(c, `{"model":"t`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dial(t)
			send(c)
			require.Equal(t, "request_too_large", c.reply(t, soon).Err(t, 413)["code"])
		})
	}
	t.Run("ALengthThatIsNone", func(t *testing.T) {
		c := s.dial(t)
		c.head("Content-Length: 99999999999999999999999")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
		resp, err := http.ReadResponse(c.r, nil)
		require.NoError(t, err)
		require.Equal(t, 400, resp.StatusCode)
	})
	t.Run("ChunksThatNeverEnd", func(t *testing.T) {
		c := s.dial(t)
		c.head("Transfer-Encoding: chunked")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				if _, err := io.WriteString(c, "1\r\nx\r\n"); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond) // a slow writer
			}
		}()
		require.Equal(t, "request_timeout", c.reply(t, impatient+soon).Err(t, 408)["code"])
		_, err := io.Copy(io.Discard, c.r)
		require.NoError(t, err, "the connection is closed")
		c.Close()
		<-ended
	})

	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	lists := strings.Repeat(`[`, 20_000) + strings.Repeat("]", 20_000)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"AHundredThousandMessages": {raw(`"messages":[%s]`, strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"a"},`, 100_000), ",")), 400},
		"DeepTools":                {raw(`"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]`, deep), 400},
		"DeepUnknownField":         {raw(`"messages":[{"role":"user","content":"a"}],"x":%s`, lists), 400},
		"DeepContent":              {raw(`"messages":[{"role":"user","content":%s}]`, lists), 400},
		"DeepAndUnclosed":          {raw(`"messages":%s`, strings.Repeat(`[`, 4<<20)), 400},
		"TenMegabytesOfStop":       {raw(`"messages":[{"role":"user","content":"a"}],"stop":"%s"`, strings.Repeat("s", 10<<20)), 413},
		"TwoMegabytesOfStop":       {raw(`"messages":[{"role":"user","content":"a"}],"stop":"%s"`, strings.Repeat("s", 2<<20)), 400},
		"ALongPrompt":              {raw(`"messages":[{"role":"user","content":"%s"}]`, strings.Repeat("word ", 1<<20)), 400},
		"OneLetter":                {raw(`"messages":[{"role":"user","content":"%s"}]`, strings.Repeat("a", 1<<20)), 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.do(t, http.MethodPost, chatPath, c.body)
			r.Err(t, c.status)
			require.Less(t, len(r.Body), 2000, "the error does not repeat the body")
		})
	}
	s.answersAgain(t)
	require.Equal(t, host, s.child(hostProgram))
	// A body of 8 MiB may be held a few times over while it is read and decoded,
	// one of 200 MB never.
	require.Less(t, memory(t, host, "VmHWM")-before, int64(160<<20))
}

func TestBody_HalfSentRequestsHoldNobodyUp(t *testing.T) {
	s := impatientServer(t)
	const each = 200
	var heads, bodies []*wireConn
	for range each {
		c := s.dial(t)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: te", chatPath)
		heads = append(heads, c)
		c = s.dial(t).head("Content-Length: 500")
		io.WriteString(c, `{"model":"test-model","mess`)
		bodies = append(bodies, c)
	}
	require.Zero(t, s.number(t, "host", "in_flight"), "no place before the body is there")
	require.Zero(t, s.number(t, "host", "waiting"))
	require.NotEmpty(t, get(t, s.background(t.Context()), soon).Text(t))

	for _, c := range bodies {
		require.Equal(t, "request_timeout", c.reply(t, impatient+soon).Err(t, 408)["code"])
		_, err := c.r.ReadByte()
		require.ErrorIs(t, err, io.EOF, "and the connection is closed")
	}
	for _, c := range heads {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(impatient+soon)))
		rest, err := io.ReadAll(c.r)
		require.NoError(t, err, "closed, not left open")
		require.True(t, len(rest) == 0 || bytes.HasPrefix(rest, []byte("HTTP/1.1 408")), "%s", rest)
	}
	s.answersAgain(t)
	eventually(t, "the files to be given back", func() bool { return files(s.child(hostProgram)) < each/4 })
}
