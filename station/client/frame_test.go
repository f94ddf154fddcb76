package client

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func FuzzDecodeFrame_IsTheGeneralDecoder(f *testing.F) {
	for _, line := range []string{
		`{"type":"text"}`, `{"type":"text","text":""}`, `{"type":"text","tokens":[]}`, `{"type":"text","text":"a","tokens":[1,20,0]}`,
		`{"type":"text","choice":3,"text":"\u003cb\u003e \"\\\n\ud83d\ude00","tokens":[2147483647]}`, `{"type":"text","text":"café 日本"}`,
		`{"type":"text","text":"\ud83d","tokens":[1]}`, "{\"type\":\"text\",\"text\":\"\xff\"}", "{\"type\":\"text\",\"text\":\"a\tb\"}",
		`{"type":"text","tokens":[2147483648]}`, `{"type":"text","tokens":[01]}`, `{"type":"text","tokens":[1,]}`, `{"type":"text","tokens":[-1]}`,
		`{"type":"text","tokens":[1.0]}`, `{"type":"text","tokens":[1`, `{"type":"text","text":"a`, `{"type":"text","text":"a\`, `{"type":"text","text":"a"`, `{"type":"text","text":"a"}}`,
		`{"type":"text","text":"a","text":"b"}`, `{"type":"text","tokens":[1],"text":"b"}`, `{ "type":"text","text":"a" }`, `{"type":"text","text":"a","logprobs":[{"id":1,"bytes":"YQ==","logprob":-1}]}`,
		`{"type":"text","choice":-1}`, `{"type":"text","choice":1e1}`, `{"type":"progress","progress":{"queue":1,"position":2,"total":3}}`, `{"type":"done","done":{"reason":"eog"}}`, `nonsense`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		want := new(wire.Frame)
		wantErr := json.Unmarshal(line, want)
		got, err := decodeFrame(line)
		if wantErr != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		if len(want.Tokens) == 0 && len(got.Tokens) == 0 {
			want.Tokens, got.Tokens = nil, nil // [] and absent mean the same
		}
		require.Equal(t, want, got)
	})
}

// What a station writes is read without the general decoder.
func TestTextFrame_IsWhatAStationWrites(t *testing.T) {
	for _, f := range []wire.Frame{
		{Type: wire.FrameText, Text: " the", Tokens: []int32{7}},
		{Type: wire.FrameText, Text: "<a href=\"x\">\n\tcafé 日本 😀\u2028\\</a>", Tokens: []int32{1, 2, 151935}},
		{Type: wire.FrameText, Tokens: []int32{0}},
		{Type: wire.FrameText, Choice: 2, Text: "held back"},
	} {
		line, err := json.Marshal(f)
		require.NoError(t, err)
		got := textFrame(line)
		require.NotNil(t, got, "%s", line)
		require.Equal(t, f, *got)
	}
}

func BenchmarkDecodeFrame(b *testing.B) {
	line := []byte(`{"type":"text","text":" the \"river\"","tokens":[12345]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeFrame(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeFrame_General(b *testing.B) {
	line := []byte(`{"type":"text","text":" the \"river\"","tokens":[12345]}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := json.Unmarshal(line, new(wire.Frame)); err != nil {
			b.Fatal(err)
		}
	}
}
