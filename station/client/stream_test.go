package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

func TestStream_ClosingEarlyReachesTheStation(t *testing.T) {
	left := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	}, client.Options{})
	s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	<-left
}

// A stream knows that its end is here when it came with the last frame, which is what a
// station sends.
func TestStream_Ended(t *testing.T) {
	for _, apart := range []bool{false, true} {
		closed := make(chan struct{})
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"type":"text","text":"a"}`+"\n")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, `{"type":"done"}`+"\n")
			if apart {
				w.(http.Flusher).Flush()
				<-closed
			}
		}, client.Options{})
		s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
		require.NoError(t, err)
		for range 2 {
			require.True(t, s.Ended(), "who closes it now cuts it")
			_, err = s.Next()
			require.NoError(t, err)
		}
		require.Equal(t, !apart, s.Ended())
		close(closed)
		require.NoError(t, s.Close())
	}
}

// One whose end does not come is cut; a connection whose stream ended in time serves on.
func TestStream_TheEndHasItsTime(t *testing.T) {
	left, remotes := make(chan struct{}), make(chan string, 3)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		remotes <- r.RemoteAddr
		_, _ = io.WriteString(w, `{"type":"done"}`+"\n")
		w.(http.Flusher).Flush()
		if len(remotes) == cap(remotes) {
			<-r.Context().Done()
			close(left)
		}
	}, client.Options{})
	for range 3 {
		s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
		require.NoError(t, err)
		_, err = s.Next()
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	<-left
	first := <-remotes
	require.Equal(t, []string{first, first}, []string{<-remotes, <-remotes})
}

func TestStream_Ends(t *testing.T) {
	const text = `{"type":"text","text":"a"}` + "\n"
	cases := []struct {
		name, body string
		texts      int
		done       bool
		code       wire.Code
	}{
		{"done", text + text + `{"type":"done","done":{"reason":"length"}}` + "\n", 2, true, ""},
		{"done without a line end", text + `{"type":"done","done":{"reason":"length"}}`, 1, true, ""},
		{"blank lines between", "\n" + text + "\n\n" + `{"type":"done"}` + "\n", 1, true, ""},
		{"error frame", text + `{"type":"error","error":{"code":"engine_failed","message":"m"}}` + "\n", 1, false, wire.CodeEngine},
		{"error frame without an error", `{"type":"error"}` + "\n", 0, false, wire.CodeInternal},
		{"nothing", "", 0, false, wire.CodeUnavailable},
		{"cut between frames", text + text, 2, false, wire.CodeUnavailable},
		{"cut inside a frame", text + `{"type":"te`, 1, false, wire.CodeUnavailable},
		{"garbage line", text + "panic: runtime error\n" + text, 1, false, wire.CodeUnavailable},
		{"a line of JSON that is no frame", `[1,2]` + "\n", 0, false, wire.CodeUnavailable},
		{"a frame of a later version", `{"type":"news","x":1}` + "\n" + `{"type":"done"}` + "\n", 1, true, ""},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c := serve(t, answer(200, k.body), client.Options{})
			s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
			require.NoError(t, err)
			defer s.Close()
			for range k.texts {
				f, err := s.Next()
				require.NoError(t, err)
				require.NotEqual(t, wire.FrameDone, f.Type)
			}
			f, err := s.Next()
			if k.done {
				require.NoError(t, err)
				require.Equal(t, wire.FrameDone, f.Type)
			} else {
				requireCode(t, err, k.code)
			}
			_, err = s.Next()
			require.ErrorIs(t, err, io.EOF, "nothing comes after the end")
		})
	}
}

// A station that says what is wrong, or talks nonsense, and leaves the stream open does
// not keep the caller from it.
func TestStream_ClosesAtOnceAfterAnError(t *testing.T) {
	for _, line := range []string{`{"type":"error","error":{"code":"engine_failed","message":"m"}}`, "panic: runtime error", `{"type":"text","choice":7}`} {
		left := make(chan struct{})
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, line+"\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done() // not before the client closes
			close(left)
		}, client.Options{})
		s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
		require.NoError(t, err)
		_, err = s.Next()
		require.Error(t, err)
		require.NoError(t, s.Close())
		<-left
	}
}

func TestStream_AFrameOfNoAnswerEndsIt(t *testing.T) {
	const done = `{"type":"done","choice":1,"done":{"reason":"eog"}}` + "\n"
	for name, k := range map[string]struct {
		body   string
		before int // frames
	}{
		"another done":       {done + done, 1},
		"text behind a done": {done + `{"type":"text","choice":1,"text":"a"}` + "\n", 1},
		"too many answers":   {`{"type":"text","choice":2,"text":"a"}` + "\n", 0},
		"below them":         {`{"type":"done","choice":-1}` + "\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, answer(200, k.body), client.Options{})
			two := 2
			s, err := c.Generate(t.Context(), &wire.GenerateRequest{Later: wire.Later{Fork: &two}})
			require.NoError(t, err)
			defer s.Close()
			for range k.before {
				_, err := s.Next()
				require.NoError(t, err)
			}
			_, err = s.Next()
			requireCode(t, err, wire.CodeInternal)
		})
	}
}

func TestStream_StationDiesMidway(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"type":"text","text":"a"}`+"\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler) // the connection breaks
	}, client.Options{})
	s, err := c.DecodeNext(t.Context(), &wire.DecodeRequest{})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Next()
	require.NoError(t, err)
	_, err = s.Next()
	require.True(t, requireCode(t, err, wire.CodeUnavailable).Retryable)
}

func TestStream_LongLines(t *testing.T) {
	for _, size := range []int{1 << 10, 1 << 20, 20 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			line, err := json.Marshal(&wire.Frame{Type: wire.FrameText, Text: strings.Repeat("x", size)})
			require.NoError(t, err)
			c := serve(t, answer(200, string(line)+"\n"+`{"type":"done"}`+"\n"), client.Options{})
			s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
			require.NoError(t, err)
			defer s.Close()
			f, err := s.Next()
			if size > 16<<20 {
				requireCode(t, err, wire.CodeUnavailable) // bounded: a runaway line ends the stream
				return
			}
			require.NoError(t, err)
			require.Len(t, f.Text, size)
			_, err = s.Next()
			require.NoError(t, err)
		})
	}
}

// A reader that waits for the last of many frames before it shows any would wait
// for ever with a station that never pauses.
func TestStream_MoreIsNotForEver(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, `{"type":"text","text":"`+strings.Repeat("a", 100)+`"}`+"\n"); err != nil {
				return
			}
		}
	}, client.Options{})
	s, err := c.Generate(t.Context(), &wire.GenerateRequest{})
	require.NoError(t, err)
	defer s.Close()
	row := 0
	for range 1000 {
		_, err := s.Next()
		require.NoError(t, err)
		if row++; !s.More() {
			row = 0
		}
		require.LessOrEqual(t, row, 4096/100, "as many as a buffer holds")
	}
}
