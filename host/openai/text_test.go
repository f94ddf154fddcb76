package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits_DepthIsASetting(t *testing.T) {
	nested := func(levels int) []byte {
		return []byte(`{"tokens":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`)
	}
	for most, l := range map[int]Limits{128: {}, 5: {Depth: 5}} {
		_, e := DecodeDetokenize(nested(most+1), l)
		require.Equal(t, CodeInvalidJSON, e.Code)
		require.Contains(t, e.Message, "levels deep: at most")
		_, e = DecodeDetokenize(nested(most), l)
		require.Equal(t, CodeInvalidType, e.Code, "what is not too deep is read")
	}
	_, e := DecodeTokenize(nested(129), Limits{})
	require.Equal(t, "the body is nested 129 levels deep: at most 128 are allowed", e.Message)
}

func TestToken_PiecesAreTextOrBytes(t *testing.T) {
	for want, token := range map[string]Token{
		`7`:                        {ID: 7},
		`{"id":7,"piece":"é"}`:     {ID: 7, Piece: []byte("é"), Named: true},
		`{"id":7,"piece":[195]}`:   {ID: 7, Piece: []byte{195}, Named: true},
		`{"id":7,"piece":[255,0]}`: {ID: 7, Piece: []byte{255, 0}, Named: true},
		`{"id":7,"piece":""}`:      {ID: 7, Named: true},
	} {
		got, err := json.Marshal(token)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}

func TestDecodeDetokenize_IdsAreThoseOfTheModel(t *testing.T) {
	for bad, at := range map[string]string{`[-1]`: "tokens[0]", `[100]`: "tokens[0]", `[2147483648]`: "tokens[0]", `[0,0,100]`: "tokens[2]", `5`: "tokens", `"a"`: "tokens"} {
		_, e := DecodeDetokenize([]byte(`{"tokens":`+bad+`}`), Limits{Vocabulary: 100})
		require.Equal(t, at, *e.Param, bad)
	}
	_, e := DecodeDetokenize([]byte(`{"tokens":[2147483648]}`), Limits{})
	require.NotNil(t, e, "32 bits, also before the vocabulary is known")
	r, e := DecodeDetokenize([]byte(`{"tokens":[]}`), Limits{})
	require.Nil(t, e)
	require.Empty(t, r.Tokens)
	r, e = DecodeDetokenize([]byte(`{"tokens":[99,0.0]}`), Limits{Vocabulary: 100})
	require.Nil(t, e)
	require.Equal(t, []int32{99, 0}, r.Wire().Tokens)
}

func TestDecodeTemplate_TheModelMayBeLeftOut(t *testing.T) {
	r, e := DecodeTemplate([]byte(`{"messages":[{"role":"user","content":"x"}]}`), Limits{}, "served")
	require.Nil(t, e)
	require.Equal(t, "served", *r.Model)
	_, e = DecodeTemplate([]byte(`{"model":"","messages":[{"role":"user","content":"x"}]}`), Limits{}, "served")
	require.Equal(t, "model", *e.Param, "given and empty is a slip")
}
