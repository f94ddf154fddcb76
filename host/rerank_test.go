package host

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

type rerankAnswer struct {
	Object, Model string
	Results       []struct {
		Index    int
		Score    float64 `json:"relevance_score"`
		Document *struct{ Text string }
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func askRerank(t *testing.T, h *testHost, path, fields string) rerankAnswer {
	t.Helper()
	r := h.do("POST", path, `{"model":"`+model+`",`+fields+`}`)
	require.Equal(t, 200, r.status, r.body)
	var a rerankAnswer
	require.NoError(t, json.Unmarshal([]byte(r.body), &a))
	require.Equal(t, "list", a.Object)
	require.Equal(t, model, a.Model)
	require.Equal(t, a.Usage.Prompt, a.Usage.Total)
	return a
}

// The fake's score of a document is its length less 4.
func TestRerank_GivesTheBestFirst(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	const documents = `"documents":["four",{"text":"sixsix"},"a","same",` + `"` + "0123456789012345678901234567890123456789012345" + `","` + "01234567890123456789012345678901234567890123456" + `"]`
	for _, path := range []string{"/v1/rerank", "/v2/rerank", "/v1/reranking", "/rerank", "/reranking"} {
		a := askRerank(t, h, path, `"query":"q","user":"u",`+documents)
		var order []int
		for _, r := range a.Results {
			order = append(order, r.Index)
			require.Nil(t, r.Document)
			require.LessOrEqual(t, r.Score, 1.)
		}
		require.Equal(t, []int{5, 4, 1, 0, 3, 2}, order, "by logits, which differ where their logistic function is 1; equal ones in the order they came")
		require.Equal(t, 1., a.Results[0].Score)
		require.InDelta(t, 1/(1+math.Exp(-2)), a.Results[2].Score, 1e-12)
		require.Equal(t, .5, a.Results[3].Score)
		require.Equal(t, 3+4+5+6+7+8, a.Usage.Prompt, "tokens as the station counted them")
		require.Equal(t, wire.RerankRequest{Query: "q", Documents: f.ranked[0].Documents}, f.ranked[len(f.ranked)-1])
	}
	require.Equal(t, []string{"four", "sixsix", "a", "same"}, f.ranked[0].Documents[:4])

	a := askRerank(t, h, "/v1/rerank", `"query":"q","top_n":2,"return_documents":true,"raw_scores":true,"documents":["é","four",{"text":"sixsix"}]`)
	require.Len(t, a.Results, 2)
	require.Equal(t, 2., a.Results[0].Score)
	require.Equal(t, "sixsix", a.Results[0].Document.Text)
	require.Equal(t, "four", a.Results[1].Document.Text)
	require.Equal(t, 12, a.Usage.Prompt, "those left out were read too")
	require.Len(t, askRerank(t, h, "/v1/rerank", `"query":"q","top_n":9,"documents":["a"]`).Results, 1)
}

func TestRerank_AnAnswerWithoutRoomIsRefusedBeforeTheStationWorks(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	others := &hold{budget: &h.answers}
	require.True(t, others.take(h.answers.most))
	fields := `{"model":"` + model + `","query":"q","documents":["` + strings.Repeat("a", smallAnswer) + `"]`
	r := h.do("POST", "/v1/rerank", fields+`,"return_documents":true}`)
	require.Equal(t, 429, r.status, r.body)
	require.Contains(t, r.body, "have not read yet")
	require.Empty(t, f.ranked)
	require.Equal(t, 200, h.do("POST", "/v1/rerank", fields+`}`).status, "a small one always has room")
	others.release()
}

func TestRerank_RefusesByName(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	for fields, param := range map[string]string{
		`"documents":["a"]`:                                                 "query",
		`"query":"","documents":["a"]`:                                      "query",
		`"query":["q"],"documents":["a"]`:                                   "query",
		`"query":"q"`:                                                       "documents",
		`"query":"q","documents":[]`:                                        "documents",
		`"query":"q","documents":"a"`:                                       "documents",
		`"query":"q","documents":["a",""]`:                                  "documents[1]",
		`"query":"q","documents":["a",7]`:                                   "documents[1]",
		`"query":"q","documents":["a",{}]`:                                  "documents[1].text",
		`"query":"q","documents":["a",{"text":7}]`:                          "documents[1].text",
		`"query":"q","documents":[{"text":"a","t":"b"}]`:                    "documents[0].t",
		`"query":"q","documents":["a"],"top_n":0`:                           "top_n",
		`"query":"q","documents":["a"],"top_n":1.5`:                         "top_n",
		`"query":"q","documents":["a"],"rank_fields":[1]`:                   "rank_fields",
		`"query":"q","documents":["a"` + strings.Repeat(`,"a"`, 2048) + `]`: "documents",
	} {
		r := h.do("POST", "/v1/rerank", `{"model":"`+model+`",`+fields+`}`)
		require.Equal(t, 400, r.status, "%.60s: %s", fields, r.body)
		require.Equal(t, param, paramOf(t, r.body), "%.60s: %s", fields, r.body)
	}
	require.Equal(t, 400, h.do("POST", "/v1/rerank", `{"query":"q","documents":["a"]}`).status)
	require.Equal(t, 404, h.do("POST", "/v1/rerank", `{"model":"none","query":"q","documents":["a"]}`).status)
	require.Empty(t, f.ranked, "nothing of it reached the station")

	f.fail = &wire.Error{Code: wire.CodeContextLength, Param: "documents[1]", Message: "documents[1] has 602 tokens; a pair may have at most 512"}
	r := h.do("POST", "/v1/rerank", `{"model":"`+model+`","query":"q","documents":["a","b"]}`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "context_length_exceeded", r.code(t))
	require.Equal(t, "documents[1]", paramOf(t, r.body))
	require.Contains(t, r.body, "602 tokens")
}

func paramOf(t *testing.T, body string) string {
	t.Helper()
	var e struct {
		Error struct{ Param string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &e))
	return e.Error.Param
}

func TestRerank_CountsTokensAndIsNoChat(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	askRerank(t, h, "/rerank", `"query":"q","documents":["a","b"]`)
	var m map[string]any
	h.eventually(func() bool {
		m = h.get("/stats").json(t)["host"].(map[string]any)
		return m["prompt_tokens"] == 7.
	})
	require.Equal(t, 0., m["chats"])
}

func TestKeys_RerankingsArePaidFor(t *testing.T) {
	const ask = `{"model":"` + model + `","query":"01234567","documents":["a","abcdef"]}`
	f := newTextStation(t)
	h := startHost(t, f.srv.URL, limited)
	h.await(200)
	require.Equal(t, 200, h.do("POST", "/v1/rerank", ask, "Authorization", "Bearer k-free").status)
	require.Equal(t, 7., h.charged(), "as the station counted")

	broken := newFaultStation(t)
	asked := make(chan struct{})
	broken.fault(wire.RouteRerank, func(w http.ResponseWriter, r *http.Request) { close(asked); hangs(w, r) })
	h = startHost(t, broken.srv.URL, limited, func(o *Options) { o.LiquidMemory = false })
	h.await(200)
	_, leave := h.start("/v1/rerank", ask)
	<-asked
	leave()
	require.Equal(t, 2+1+2+2., h.charged(), "broken off: the query with each document")
}

func TestRerank_AModelThatCannotSaysWhy(t *testing.T) {
	f := newTextStation(t)
	f.set(func(f *fakeStation) {
		f.health.Embeddings = &wire.Embeddings{Only: true, Reason: "the model is a reranker"}
		f.model.ChatTemplate = ""
	})
	h := startHost(t, f.srv.URL)
	h.await(200)
	r := h.do("POST", "/v1/chat/completions", body())
	require.Equal(t, 400, r.status, r.body)
	require.Contains(t, r.body, "POST /v1/rerank")
	r = h.do("POST", "/v1/embeddings", `{"model":"`+model+`","input":"a"}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "the model is a reranker")

	for _, set := range []struct {
		to   *wire.Rerank
		says string
	}{{&wire.Rerank{Reason: "it has no head"}, "cannot rank documents: it has no head"}, {nil, "its station is older"}} {
		f.set(func(f *fakeStation) { f.health.Rerank = set.to; f.health.UptimeSeconds++ })
		require.Eventually(t, func() bool {
			r := h.do("POST", "/v1/rerank", `{"model":"`+model+`","query":"q","documents":["a"]}`)
			return r.status == 400 && r.code(t) == "unsupported_parameter" && strings.Contains(r.body, set.says)
		}, 10*time.Second, 5*time.Millisecond)
	}
}
