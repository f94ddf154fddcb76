package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEncode_WritesTextAsItIsAndWhatIsAbsentAsNull(t *testing.T) {
	require.Equal(t, `{"list":null,"map":null,"text":"<&> `+"\ufffd"+`","odd":0}`, string(Encode(struct {
		List  []int          `json:"list"`
		Map   map[string]int `json:"map"`
		Text  string         `json:"text"`
		Empty int            `json:"empty,omitempty"`
		Odd   int            `json:"odd"`
	}{Text: "<&> \xff"})))
}
