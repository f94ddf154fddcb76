package hostbench

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Room for what is not of requests: the runtime's own tables, and the goroutine that
// looks at the station.
const (
	heapRoom   = 128 << 10
	objectRoom = 500
)

// fewBytes of responses are there before a thousand requests, and from then on the
// oldest one goes with each that comes.
const fewBytes = 256 << 10

// Nothing is kept of a request once it is answered, whatever it was: between the
// 1,000th and the 10,000th neither heap nor goroutines grow, and the last thousand
// allocates no more than the second. No two prompts are the same, so what is kept by
// prompt would show. Of the responses the store lets go what it has no room for.
func TestHost_KeepsNothingOfTenThousandRequests(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes seconds, and many times that under the race detector")
	}
	st := newStation(t, "qwen3.jinja", 0, true)
	p := startHost(t, settings{Station: st.address, Liquid: true, Store: t.TempDir(), StoreBytes: fewBytes})
	p.ready()
	const callers = 4
	all, asked := newCrowd(t, p, callers), 0
	upTo := func(n int) usage {
		from := asked
		all.ask(t, (n-from)/callers, func(i int) request { return varied(from + i) })
		asked = n
		return p.settled()
	}
	first, second, ninth, tenth := upTo(1000), upTo(2000), upTo(9000), upTo(10_000)
	t.Logf("heap %d KiB of %d objects, then %d KiB of %d", first.HeapBytes>>10, first.Objects, tenth.HeapBytes>>10, tenth.Objects)
	require.LessOrEqual(t, tenth.HeapBytes, first.HeapBytes+heapRoom)
	require.LessOrEqual(t, tenth.Objects, first.Objects+objectRoom)

	early, late := second.AllObjects-first.AllObjects, tenth.AllObjects-ninth.AllObjects
	t.Logf("%d allocations a request, then %d", early/1000, late/1000)
	require.InEpsilon(t, early, late, 0.05)

	require.Eventually(t, func() bool {
		st.idle.close()
		tenth = p.settled()
		return tenth.Goroutines <= first.Goroutines
	}, 10*time.Second, 20*time.Millisecond, "there were %d goroutines", first.Goroutines)
}

// A stream read to its last frame leaves its connection for the next one, though
// that frame comes before the end of the stream: else a tenth of all calls and more would
// begin with a new connection.
func TestHost_KeepsItsConnectionsToTheStation(t *testing.T) {
	st := newStation(t, "chatml.jinja", 0, false)
	p := startHost(t, settings{Station: st.address})
	p.ready()
	const callers, each = 4, 100
	newCrowd(t, p, callers).ask(t, each, func(i int) request {
		r := chat(`"max_tokens":2`)
		if i%2 == 0 {
			r = r.streamed()
		}
		return r
	})
	require.LessOrEqual(t, st.idle.connections(), callers+2, "one for each, and for looks at the station")
}

// varied is a request of every kind in turn, each with a text of its own. Every
// thousand has the same number of each.
func varied(i int) request {
	more := fmt.Sprintf(`"max_tokens":3,"user":"user-%d"`, i)
	all := []request{chat(more), chat(more + `,"n":2`), tools(more), calls(more), completion(more), anthropic(`"max_tokens":3`), anthropicCalls(`"max_tokens":3`),
		response(`"max_output_tokens":16`), embeddings(), rerank()}
	r := all[i%len(all)]
	r.body = strings.ReplaceAll(r.body, "two children", fmt.Sprintf("%d children", i))
	switch i / len(all) % 4 {
	case 1:
		r = r.streamed()
	case 2:
		r.native = true
	case 3:
		r = r.streamed()
		r.native = true
	}
	if i%50 == i/50%len(all) {
		r.body = strings.Replace(r.body, `"model":"fake"`, fmt.Sprintf(`"model":"fake-%d"`, i), 1)
		r.status, r.want = http.StatusNotFound, "fake-"
	}
	return r
}
