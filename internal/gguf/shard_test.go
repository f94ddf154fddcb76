package gguf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShardName_ParsesAndNamesItsSiblings(t *testing.T) {
	n, ok := ParseShardName("my-model-00002-of-00012.gguf")
	require.True(t, ok)
	require.Equal(t, ShardName{Stem: "my-model", No: 2, Count: 12}, n)
	require.Equal(t, "my-model-00012-of-00012.gguf", n.Sibling(12))
	for _, other := range []string{"", "model.gguf", "m-1-of-3.gguf", "m-00001-of-00003.bin", "m-00001-of-00003.gguf.partial", "00001-of-00003.gguf"} {
		_, ok := ParseShardName(other)
		require.False(t, ok, other)
	}
}
