package client

import (
	"bytes"
	"math"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

// decodeFrame reads a line of a stream. Nearly all lines are text frames as a
// station writes them, and those are read without reflection, which would be the
// better part of what a token costs its reader; whatever looks otherwise in any way
// is left to the general decoder. A test holds both to what encoding/json gives.
func decodeFrame(line []byte) (*wire.Frame, error) {
	if f := textFrame(line); f != nil {
		return f, nil
	}
	f := new(wire.Frame)
	if err := jsonv2.Unmarshal(line, f, asV1); err != nil {
		return nil, err
	}
	return f, nil
}

// textFrame reads {"type":"text","choice":1,"text":"...","tokens":[1,2]}, where what
// follows the type may be absent; nil for anything else.
func textFrame(line []byte) *wire.Frame {
	rest, ok := bytes.CutPrefix(line, []byte(`{"type":"text"`))
	if !ok {
		return nil
	}
	// A frame has one token, mostly: it is allocated with it.
	all := new(struct {
		wire.Frame
		token [1]int32
	})
	f := &all.Frame
	f.Type, f.Tokens = wire.FrameText, all.token[:0]
	if after, found := bytes.CutPrefix(rest, []byte(`,"choice":`)); found {
		var n int32
		if n, rest, ok = integer(after); !ok {
			return nil
		}
		f.Choice = int(n)
	}
	if after, found := bytes.CutPrefix(rest, []byte(`,"text":`)); found {
		if f.Text, rest, ok = text(after); !ok {
			return nil
		}
	}
	if after, found := bytes.CutPrefix(rest, []byte(`,"tokens":[`)); found {
		for rest = after; ; rest = rest[1:] {
			var n int32
			if n, rest, ok = integer(rest); !ok || len(rest) == 0 {
				return nil
			}
			if f.Tokens = append(f.Tokens, n); rest[0] != ',' {
				break
			}
		}
		if rest[0] != ']' {
			return nil
		}
		rest = rest[1:]
	}
	if string(rest) != "}" {
		return nil
	}
	if len(f.Tokens) == 0 {
		f.Tokens = nil
	}
	return f
}

// integer reads a number without a sign, fraction, exponent or leading zero.
func integer(b []byte) (n int32, rest []byte, ok bool) {
	var sum int64
	i := 0
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9' && sum <= math.MaxInt32; i++ {
		sum = 10*sum + int64(b[i]-'0')
	}
	return int32(sum), b[i:], i > 0 && sum <= math.MaxInt32 && (b[0] != '0' || i == 1)
}

// text reads a string.
func text(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", nil, false
	}
	plain := true
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"' && plain:
			return string(b[1:i]), b[i+1:], true
		case c == '"':
			s, err := jsontext.AppendUnquote(nil, b[:i+1])
			return string(s), b[i+1:], err == nil
		case c == '\\':
			plain = false
			i++
		case c < ' ' || c >= 0x80:
			plain = false
		}
	}
	return "", nil, false
}
