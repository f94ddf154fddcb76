package responses

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func BenchmarkEvents_Text(b *testing.B) {
	b.ReportAllocs()
	e := NewEvents(New(&Request{}, NewID(PrefixResponse), "model", time.Now()))
	buf := e.Created(nil)
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 { // an answer's end
			e.Draft.close(StatusCompleted)
		}
		buf = e.Text(buf[:0], " token", nil)
	}
}

func TestEvents_ADeltaAllocatesNothingOfItsOwn(t *testing.T) {
	e := NewEvents(New(&Request{}, NewID(PrefixResponse), "model", time.Now()))
	buf := e.Text(nil, " token", nil)
	e.text.Grow(1 << 20)
	require.Zero(t, testing.AllocsPerRun(1000, func() { buf = e.Text(buf[:0], " token", nil) }))
}
