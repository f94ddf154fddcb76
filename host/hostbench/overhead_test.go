package hostbench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// step is the time from one token of a stream to the next: less than half of what
// the smallest model we know takes, and still the host is idle between two.
const step = 2 * time.Millisecond

// streamed is the number of tokens of a stream.
const streamed = 256

// warm is how many requests of each caller go ahead of those that are measured:
// connections are made, templates and grammars compiled, pools filled.
const warm = 50

// load is what is measured: a request, sent to a process that is set so.
type load struct {
	name     string
	template string // of the model
	set      settings
	request  request
}

// loads gives those of a list without liquid memory and with it, and the relay: the
// least that any program could take on this machine.
func loads(all []load, more string) (out []load) {
	for _, liquid := range []bool{false, true} {
		for _, l := range all {
			l.set.Liquid = liquid
			if l.request.path == "/v1/embeddings" && liquid {
				continue // which has no part in them
			}
			if l.name = "native/" + l.name; liquid {
				l.name = "liquid/" + l.name[len("native/"):]
			}
			out = append(out, l)
		}
	}
	plain := request{path: wire.RouteGenerate, body: object(`"prompt":{"text":`+quote(system)+`}`, more), want: `"done"`}
	return append(out, load{"relay", "chatml.jinja", settings{Relay: true}, plain})
}

// BenchmarkRequest gives the host's processor time of a request with a prompt of
// 200 tokens and an answer of one, sent whole.
func BenchmarkRequest(b *testing.B) {
	const more = `"max_tokens":1`
	for _, l := range loads([]load{
		{name: "chat", template: "chatml.jinja", request: chat(more)},
		{name: "chat_qwen3", template: "qwen3.jinja", request: chat(more)},
		{name: "tools_and_schema", template: "qwen3.jinja", request: tools(`"max_tokens":64`)},
		{name: "messages", template: "chatml.jinja", request: anthropic(more)},
		{name: "completions", template: "chatml.jinja", request: completion(more)},
		{name: "responses", template: "chatml.jinja", request: response(`"max_output_tokens":1`)},
		{name: "embeddings", template: "chatml.jinja", request: embeddings()},
	}, more) {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", l.name, clients), func(b *testing.B) {
				measure(b, l, 0, clients, warm, "request", 1)
			})
		}
	}
}

// BenchmarkStream gives the host's processor time of a streamed token: that of
// whole requests, their own part included, by the tokens of all.
func BenchmarkStream(b *testing.B) {
	more := fmt.Sprintf(`"max_tokens":%d`, streamed)
	for _, l := range loads([]load{
		{name: "chat", template: "chatml.jinja", request: chat(more).streamed()},
		{name: "messages", template: "chatml.jinja", request: anthropic(more).streamed()},
		{name: "completions", template: "chatml.jinja", request: completion(more).streamed()},
		{name: "responses", template: "chatml.jinja", request: response(fmt.Sprintf(`"max_output_tokens":%d`, streamed)).streamed()},
	}, more) {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", l.name, clients), func(b *testing.B) {
				measure(b, l, step, clients, 1, "token", streamed)
			})
		}
	}
}

// stores gives each benchmark a folder for responses. All are removed after the last:
// where inodes have lately been freed a file system may take long to find a new one,
// and what a benchmark removes would be measured by the next.
var stores storeFolders

type storeFolders struct{ dir string }

func (s *storeFolders) next(b *testing.B) string {
	b.Helper()
	var err error
	if s.dir == "" {
		s.dir, err = os.MkdirTemp("", "hostbench")
		require.NoError(b, err)
	}
	dir, err := os.MkdirTemp(s.dir, "")
	require.NoError(b, err)
	return dir
}

func (s *storeFolders) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// measure sends a load from several clients at once and reports the processor time
// of one thing, of which a request has so many. The elapsed time is the station's
// and the clients' as well, and says nothing.
func measure(b *testing.B, l load, step time.Duration, clients, warm int, thing string, each int) {
	if l.request.path == "/v1/responses" {
		l.set.Store = stores.next(b)
	}
	l.set.Station = newStation(b, l.template, step, l.set.Liquid).address
	p := startHost(b, l.set)
	if !l.set.Relay {
		p.ready()
	}
	all := newCrowd(b, p, clients)
	same := func(int) request { return l.request }
	all.ask(b, warm, same)
	before := p.used()
	for b.Loop() {
		all.ask(b, 1, same)
	}
	after, n := p.used(), float64(b.N*clients*each)
	b.ReportMetric(float64((after.CPU-before.CPU).Nanoseconds())/1e3/n, "host-cpu-us/"+thing)
	b.ReportMetric(float64(after.AllBytes-before.AllBytes)/n, "host-B/"+thing)
	b.ReportMetric(float64(after.AllObjects-before.AllObjects)/n, "host-allocs/"+thing)
	b.ReportMetric(0, "ns/op")
}
