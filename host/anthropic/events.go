package anthropic

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
)

// Each function appends one event of a stream. The deltas are by far the most
// frequent, so they are put together by hand.

// AppendStart opens a stream: the message as far as it is known.
func AppendStart(dst []byte, m *Message) []byte {
	return appendEvent(dst, "message_start", struct {
		Type    string   `json:"type"`
		Message *Message `json:"message"`
	}{"message_start", m})
}

// AppendBlockStart opens block number index.
func AppendBlockStart(dst []byte, index int, b Block) []byte {
	return appendEvent(dst, "content_block_start", struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block Block  `json:"content_block"`
	}{"content_block_start", index, b})
}

// AppendText adds to a text block.
func AppendText(dst []byte, index int, text string) []byte {
	return appendDelta(dst, index, `"text_delta","text":`, text)
}

// AppendThinking adds to a thinking block.
func AppendThinking(dst []byte, index int, text string) []byte {
	return appendDelta(dst, index, `"thinking_delta","thinking":`, text)
}

// AppendInput adds to the JSON text of a tool_use block's input.
func AppendInput(dst []byte, index int, text string) []byte {
	return appendDelta(dst, index, `"input_json_delta","partial_json":`, text)
}

func appendDelta(dst []byte, index int, kind, text string) []byte {
	dst = append(dst, `event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(append(dst, `,"delta":{"type":`...), kind...)
	dst, _ = jsontext.AppendQuote(dst, text)
	return append(dst, "}}\n\n"...)
}

// AppendBlockStop closes a block.
func AppendBlockStop(dst []byte, index int) []byte {
	dst = append(dst, `event: content_block_stop`+"\n"+`data: {"type":"content_block_stop","index":`...)
	return append(strconv.AppendInt(dst, int64(index), 10), "}\n\n"...)
}

// AppendEnd ends the message, and with it the stream.
func AppendEnd(dst []byte, reason string, sequence *string, u Usage, g *openai.Gnosis) []byte {
	var e struct {
		Type  string `json:"type"`
		Delta struct {
			StopReason   string  `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		} `json:"delta"`
		Usage  Usage          `json:"usage"`
		Gnosis *openai.Gnosis `json:"_gnosis,omitempty"`
	}
	e.Type, e.Usage, e.Gnosis = "message_delta", u, g
	e.Delta.StopReason, e.Delta.StopSequence = reason, sequence
	dst = appendEvent(dst, "message_delta", e)
	return append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// AppendPing is a sign of life.
func AppendPing(dst []byte) []byte {
	return append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

// AppendError ends a stream that failed.
func AppendError(dst []byte, e *openai.Error, requestID string) []byte {
	return appendEvent(dst, "error", NewEnvelope(e, requestID))
}

func appendEvent(dst []byte, name string, v any) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: "...), openai.Encode(v)...)
	return append(dst, "\n\n"...)
}
