package host

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

type embeddingAnswer struct {
	Object, Model string
	Data          []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func askEmbeddings(t *testing.T, h *testHost, fields string) embeddingAnswer {
	t.Helper()
	r := h.do("POST", "/v1/embeddings", `{"model":"`+model+`",`+fields+`}`)
	require.Equal(t, 200, r.status, r.body)
	var a embeddingAnswer
	require.NoError(t, json.Unmarshal([]byte(r.body), &a))
	return a
}

func TestEmbeddings_TakeEveryFormOfInput(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	for input, want := range map[string]wire.EmbedRequest{
		`"a"`:         {Input: []string{"a"}},
		`["a","é"]`:   {Input: []string{"a", "é"}},
		`[1,2]`:       {InputTokens: [][]int32{{1, 2}}},
		`[[1],[2,3]]`: {InputTokens: [][]int32{{1}, {2, 3}}},
	} {
		a := askEmbeddings(t, h, `"input":`+input+`,"user":"u"`)
		n := max(len(want.Input), len(want.InputTokens))
		require.Equal(t, "list", a.Object)
		require.Equal(t, model, a.Model)
		require.Len(t, a.Data, n)
		for i, d := range a.Data {
			require.Equal(t, "embedding", d.Object)
			require.Equal(t, i, d.Index)
		}
		require.Equal(t, 3*n+n*(n-1)/2, a.Usage.Prompt, "tokens as the station counted them")
		require.Equal(t, a.Usage.Prompt, a.Usage.Total)
		require.Equal(t, want, f.embeds[len(f.embeds)-1])
	}
}

func TestEmbeddings_AreOfLengthOneInBothFormats(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	var numbers []float64
	require.NoError(t, json.Unmarshal(askEmbeddings(t, h, `"input":"a"`).Data[0].Embedding, &numbers))
	require.InDeltaSlice(t, []float64{0.6, 0, 0.8, 0}, numbers, 1e-7)
	var text string
	require.NoError(t, json.Unmarshal(askEmbeddings(t, h, `"input":"a","encoding_format":"base64"`).Data[0].Embedding, &text))
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, raw, 16)
	for i, x := range numbers {
		require.Equal(t, float32(x), math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])), "both formats are the same number")
	}
	require.NoError(t, json.Unmarshal(askEmbeddings(t, h, `"input":["a","b"],"dimensions":2`).Data[1].Embedding, &numbers))
	require.InDeltaSlice(t, []float64{3 / math.Sqrt(10), 1 / math.Sqrt(10)}, numbers, 1e-7, "cut, and of length 1 again")
}

func TestEmbeddings_CountTokensAndAreNoChats(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	require.Equal(t, 200, h.chat().status) // 9 tokens and 2
	askEmbeddings(t, h, `"input":["a","b"]`)
	var m map[string]any
	h.eventually(func() bool {
		m = h.get("/stats").json(t)["host"].(map[string]any)
		return m["prompt_tokens"] == 16.
	})
	require.Equal(t, 1., m["chats"])
	require.Equal(t, 2., m["completion_tokens"])
	page := h.get("/metrics").body
	require.Contains(t, page, `thoth_tokens_total{kind="prompt"} 16`)
	require.Contains(t, page, "# HELP thoth_tokens_total Tokens of ended requests by kind: chats, completions, and the prompts of embeddings and rerankings.")
}

func TestEmbeddings_AnAnswerWithoutRoomIsRefusedBeforeTheStationWorks(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	ask := func(texts int) reply {
		return h.do("POST", "/v1/embeddings", `{"model":"`+model+`","input":["a"`+strings.Repeat(`,"a"`, texts-1)+`]}`)
	}
	others := &hold{budget: &h.answers}
	require.True(t, others.take(h.answers.most))
	r := ask(2000)
	require.Equal(t, 429, r.status, r.body)
	require.Contains(t, r.body, "have not read yet")
	require.Empty(t, f.embeds)
	require.Equal(t, 200, ask(1).status, "a small one always has room")
	others.release()
	require.Equal(t, 200, ask(2000).status)
	require.Len(t, f.embeds, 2)
	require.Eventually(t, func() bool { return h.answers.held() == 0 }, 10*time.Second, time.Millisecond)
}

func TestEmbeddings_RefuseByName(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	many := `["a"` + strings.Repeat(`,"a"`, 2048) + `]`
	for fields, param := range map[string]string{
		`"user":"u"`: "input", `"input":null`: "input", `"input":""`: "input", `"input":[]`: "input", `"input":["a",""]`: "input[1]",
		`"input":["a",1]`: "input[1]", `"input":[1,"a"]`: "input[1]", `"input":[[1],[]]`: "input[1]", `"input":[1.5]`: "input[0]", `"input":[-1]`: "input[0]", `"input":[[1],[2,-1]]`: "input[1][1]",
		`"input":{"a":1}`: "input", `"input":5`: "input", `"input":` + many: "input",
		`"input":"a","encoding_format":"int8"`: "encoding_format", `"input":"a","dimensions":0`: "dimensions", `"input":"a","dimensions":5`: "dimensions",
	} {
		r := h.do("POST", "/v1/embeddings", `{"model":"`+model+`",`+fields+`}`)
		require.Equal(t, 400, r.status, "%.60s: %s", fields, r.body)
		var e struct {
			Error struct{ Param, Message string }
		}
		require.NoError(t, json.Unmarshal([]byte(r.body), &e))
		require.Equal(t, param, e.Error.Param, "%.60s: %s", fields, r.body)
	}
	require.Equal(t, 404, h.do("POST", "/v1/embeddings", `{"model":"none","input":"a"}`).status)
	require.Empty(t, f.embeds, "nothing of it reached the station")

	f.fail = &wire.Error{Code: wire.CodeContextLength, Param: "input_tokens[1]", Message: "input_tokens[1] has 602 tokens; a text may have at most 512"}
	r := h.do("POST", "/v1/embeddings", `{"model":"`+model+`","input":[[1],[2]]}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, `"message":"input[1] has 602 tokens; a text may have at most 512"`)
	require.Contains(t, r.body, `"param":"input[1]"`)
	require.Contains(t, r.body, `"code":"context_length_exceeded"`)
}

func TestEmbeddings_AnEncoderOffersNothingElse(t *testing.T) {
	f := newTextStation(t)
	f.set(func(f *fakeStation) {
		f.health.Embeddings.Only = true
		f.health.Rerank = nil
		f.model.ChatTemplate = ""
	})
	h := startHost(t, f.srv.URL)
	h.await(200)
	r := h.do("POST", "/v1/chat/completions", body())
	require.Equal(t, 400, r.status, r.body)
	require.Contains(t, r.body, "POST /v1/embeddings")
	r = h.completion(`"a"`)
	require.Equal(t, 400, r.status, r.body)
	require.Equal(t, "unsupported_parameter", r.code(t))
	require.Contains(t, r.body, "POST /v1/embeddings")
	require.Empty(t, f.got(), "nothing of it reached the station")
	require.Equal(t, 200, h.get("/v1/models/"+model).status)
	askEmbeddings(t, h, `"input":"a"`)

	f.set(func(f *fakeStation) {
		f.health.Embeddings = &wire.Embeddings{Reason: "the model is a reranker"}
		f.health.UptimeSeconds++
	})
	require.Eventually(t, func() bool {
		r := h.do("POST", "/v1/embeddings", `{"model":"`+model+`","input":"a"}`)
		return r.status == 400 && strings.Contains(r.body, "gives no embeddings: the model is a reranker")
	}, 10*time.Second, 5*time.Millisecond)
}
