package responses

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

func TestRequest_ReferencesAreResolvedToTheirItems(t *testing.T) {
	r, e := Decode([]byte(`{"model":"m","input":[{"role":"user","content":"x"},{"type":"item_reference","id":"msg_a_0"},{"id":"rs_b_i2","type":null}]}`), openai.Limits{}, false)
	require.Nil(t, e)
	refs, e := r.References(nil)
	require.Nil(t, e)
	require.Equal(t, []Reference{{"input[1].id", "msg_a_0"}, {"input[2].id", "rs_b_i2"}}, refs)
	said, thought := Item{Type: TypeMessage, Role: roleAssistant, ID: "msg_a_0"}, Item{Type: TypeReasoning, ID: "rs_b_i2"}
	e = r.Resolve(map[string]*Item{"msg_a_0": &said})
	require.Equal(t, openai.CodeNotFound, e.Code)
	require.Equal(t, "input[2].id", *e.Param)
	require.Contains(t, e.Message, "rs_b_i2")

	require.Nil(t, r.Resolve(map[string]*Item{"msg_a_0": &said, "rs_b_i2": &thought}))
	refs, e = r.References(nil)
	require.Nil(t, e)
	require.Empty(t, refs)
	require.Equal(t, []Item{said, thought}, r.Input[1:])
}

func TestRequest_AnItemIsReferredToOnce(t *testing.T) {
	for _, input := range []string{`{"id":"msg_a_0"},{"role":"user","content":"x"},{"id":"msg_a_0"}`, `{"id":"msg_a_0"},{"id":"msg_a_1"},{"id":"u"}`} {
		r, e := Decode([]byte(`{"model":"m","input":[`+input+`]}`), openai.Limits{}, false)
		require.Nil(t, e)
		_, e = r.References([]Item{{Type: TypeMessage, ID: "u"}})
		require.Equal(t, openai.CodeInvalidValue, e.Code)
		require.Equal(t, "input[2].id", *e.Param)
		require.Contains(t, e.Message, "Duplicate item found with id")
	}
}

func TestRequest_AnInputItemThatIsThereTwiceGetsAnID(t *testing.T) {
	r, e := Decode([]byte(`{"model":"m","input":[{"role":"user","content":"x","id":"u"},{"role":"user","content":"x","id":"u"}]}`), openai.Limits{}, false)
	require.Nil(t, e)
	New(r, "resp_c", "m", time.Time{})
	require.Equal(t, "u", r.Input[0].ID)
	require.Equal(t, "msg_c_i1", r.Input[1].ID)
}

func TestResponseOf_IsWhatAnItemsIDNames(t *testing.T) {
	d := NewDraft(begin(t, ""))
	d.Reasoning("hm")
	d.Text("x", nil)
	d.Call("c", "f")
	for i, want := range []string{"rs_1_0", "msg_1_1", "fc_1_2"} {
		require.Equal(t, want, d.Response.Output[i].ID)
		require.Equal(t, "resp_1", ResponseOf(want))
	}
	require.Equal(t, "resp_abc", ResponseOf("fco_abc_i17"))
	require.LessOrEqual(t, len(itemID(&Item{Type: TypeOutput}, NewID(PrefixResponse), "i", 1<<30)), maxID)
	for _, id := range []string{"", "msg", "msg_", "msg_abc", "msg_abc_", "msg__1", "msg_abc_x", "msg_abc_-1", "msg_abc_ii1", "msg_abc_1_2"} {
		require.Empty(t, ResponseOf(id), id)
	}
}

func TestReasoning_ComesBackByItsToken(t *testing.T) {
	d := NewDraft(begin(t, `"include":["reasoning.encrypted_content"]`))
	d.Reasoning("Two \u00e5 <and> two.")
	d.Text("Four.", nil)
	raw, err := json.Marshal(Item{Type: TypeReasoning, ID: "rs_1_0", Encrypted: func() string { d.close(StatusCompleted); return d.Response.Output[0].Encrypted }()})
	require.NoError(t, err)
	require.Contains(t, string(raw), `"content":[],"encrypted_content":"thoth1.`)
	got, e := items(t, "["+string(raw)+"]")
	require.Nil(t, e)
	require.Equal(t, d.Response.Output[0].Content, got[0].Content)
	require.Empty(t, got[0].Encrypted)

	plain := NewDraft(begin(t, ""))
	plain.Reasoning("x")
	plain.close(StatusCompleted)
	require.Empty(t, plain.Response.Output[0].Encrypted, "it was not asked for")
}

func TestReasoning_AForeignTokenIsPassedOverWhereThereIsText(t *testing.T) {
	for field, read := range map[string]func(*Item) []Part{
		`"content":[{"type":"reasoning_text","text":"hm"}],"summary":[]`: func(i *Item) []Part { return i.Content },
		`"summary":[{"type":"summary_text","text":"hm"}]`:                func(i *Item) []Part { return i.Summary },
	} {
		got, e := items(t, `[{"type":"reasoning","encrypted_content":"gAAAAABo",`+field+`}]`)
		require.Nil(t, e, field)
		require.Len(t, read(&got[0]), 1)
		require.Equal(t, "hm", text(read(&got[0])))
		require.Empty(t, got[0].Encrypted)
		require.Equal(t, 1, len(got[0].Content)+len(got[0].Summary), "nothing is made of the token")
	}
	_, e := items(t, `[{"type":"reasoning","encrypted_content":"gAAAAABo","content":[],"summary":[]}]`)
	require.Equal(t, "input[0].encrypted_content", *e.Param)
}

func FuzzUnseal(f *testing.F) {
	f.Add(seal("text"))
	f.Add("thoth1.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		text, ok := unseal(seal(s))
		require.True(t, ok)
		require.Equal(t, s, text)
		_, ok = unseal(seal(s) + "A")
		require.False(t, ok)
		_, _ = unseal(s)
	})
}
