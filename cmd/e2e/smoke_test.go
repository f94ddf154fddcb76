//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChat_StreamedAndWholeAreTheSame(t *testing.T) {
	more := obj{"max_tokens": 24}
	whole := shared.chat(t, more)
	e := shared.stream(t, more)
	require.True(t, e.Done)
	require.NotEmpty(t, whole.Text(t))
	require.Equal(t, whole.Text(t), e.Text(0))
	require.Equal(t, []string{whole.Finish(t).(string)}, e.Finishes(0))
}
