package responses

import (
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

func TestEncodePage_IsTheItemsAsTheyWereStored(t *testing.T) {
	all, e := items(t, `[{"role":"user","content":"<a>","id":"one \""},{"role":"user","content":"b","id":"two"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}","id":"three"}]`)
	require.Nil(t, e)
	raw := EncodeItems(all)
	split, err := SplitItems(raw)
	require.NoError(t, err)
	require.Len(t, split, 3)
	for _, r := range [][2]int{{0, 3}, {1, 2}, {3, 3}} {
		want := Items{Object: "list", Data: list(all[r[0]:r[1]]), HasMore: r[1] < 3}
		if n := len(want.Data); n > 0 {
			want.FirstID, want.LastID = &want.Data[0].ID, &want.Data[n-1].ID
		}
		require.Equal(t, string(openai.Encode(want)), string(EncodePage(split[r[0]:r[1]], want.HasMore)))
	}
	require.Equal(t, raw, EncodeItems(all), "they are pieces of what was stored, which stays as it is")
	for _, bad := range []string{``, `[`, `[{"id":1}`, `[{"id"}]`, `[{},7]`} {
		_, err := SplitItems([]byte(bad))
		require.Error(t, err, bad)
	}
	split, err = SplitItems([]byte(`[]`))
	require.NoError(t, err)
	require.Empty(t, split)
}
