package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantile_IsLinearBetweenNeighbours(t *testing.T) {
	require.True(t, math.IsNaN(quantile(nil, 0.5)))
	require.Equal(t, 7.0, quantile([]float64{7}, 0.95))
	require.Equal(t, 2.5, quantile([]float64{4, 1, 3, 2}, 0.5))
	require.InDelta(t, 3.85, quantile([]float64{4, 1, 3, 2}, 0.95), 1e-9)
}

func TestSeries_LeavesOutMissingRounds(t *testing.T) {
	s := put(put(nil, 0, 5), 2, 1)
	require.Equal(t, &Spread{Min: 1, Median: 3, Max: 5, Values: []float64{5, 1}}, s.spread())
	require.Nil(t, series(nil).spread())
	require.Nil(t, series{math.NaN()}.spread())
}

func TestRatios_AboveOneMeansFirstIsFaster(t *testing.T) {
	a, b := series{100, 50, math.NaN(), 1}, series{50, 100, 1, 0}
	require.Equal(t, []float64{2, 0.5}, ratios(a, b, false).values())
	require.Equal(t, []float64{0.5, 2, 0}, ratios(a, b, true).values())
}

// spoken makes an answer with one token at each given millisecond.
func spoken(start time.Time, at ...int) *answer {
	a := &answer{began: start, completionTokens: len(at)}
	for _, t := range at {
		a.arrivals = append(a.arrivals, time.Duration(t)*time.Millisecond)
	}
	a.first = a.arrivals[0]
	return a
}

func TestTogether_CountsDecodeOnlyWhileAllDecode(t *testing.T) {
	start := time.Now()
	// Everyone decodes between 300 ms and 500 ms: 2 + 2 tokens in 0.2 s.
	f := together(start, []*answer{spoken(start, 100, 200, 300, 400, 500), spoken(start, 300, 400, 500, 600, 1000)})
	require.InDelta(t, 20, f[mDecode], 1e-6)
	require.InDelta(t, 10, f[mTotal], 1e-6)
	require.InDelta(t, 200, f[mTTFT50], 1e-6)
	require.Equal(t, 5.0, f[mMin])
	require.Greater(t, f[mFairness], 0.9)
}

func TestTogether_WeighsChunksOfSeveralTokens(t *testing.T) {
	start := time.Now()
	a := spoken(start, 100, 200, 300)
	a.completionTokens = 9
	require.InDelta(t, 30, together(start, []*answer{a})[mDecode], 1e-6)
}

func TestTogether_SeesAStarvedClient(t *testing.T) {
	start := time.Now()
	quick := spoken(start, 100, 200, 300, 400, 500)
	require.Zero(t, together(start, []*answer{quick, spoken(start, 600, 700)})[mFairness])
	require.Less(t, together(start, []*answer{quick, spoken(start, 100, 900, 1000)})[mFairness], 0.3)
	_, any := together(start, []*answer{quick, spoken(start, 600, 700)})[mDecode]
	require.False(t, any, "no moment had all clients decoding")
}

func TestAnswer_ReadsAStream(t *testing.T) {
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5},"_gnosis":{"timings":{"engine_ms":3,"ttft_ms":4}}}` + "\n\ndata: [DONE]\n\n"
	const text = ": ping\n\n" + `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":"He"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"llo"}}]}` + "\n\n"
	const finish = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	a := &answer{began: time.Now()}
	require.NoError(t, a.read(strings.NewReader(text+finish+usage)))
	require.Equal(t, "Hello", a.text)
	require.Len(t, a.arrivals, 2, "the role alone is no token")
	require.Equal(t, []int{7, 5}, []int{a.promptTokens, a.completionTokens})
	require.Equal(t, []float64{3, 4}, []float64{a.engineMS, a.serverTTFTMS})

	a = &answer{began: time.Now()}
	require.NoError(t, a.read(strings.NewReader(text+finish)))
	require.Equal(t, 2, a.completionTokens, "chunks, for want of usage")

	for in, want := range map[string]string{
		text: "without a finish reason",
		text + `data: {"error":{"message":"engine failed"}}` + "\n\n": "engine failed",
		"data: {oops\n\n": "not JSON",
		finish + usage:    "no text",
	} {
		require.ErrorContains(t, (&answer{began: time.Now()}).read(strings.NewReader(in)), want)
	}
}

func TestEngineFigures_ReadsTheLastObject(t *testing.T) {
	for _, out := range []string{`{"decode_1": 101.5, "model": "x", "off": 0}`, "loading\n{\"decode_1\":101.5}\n", "{\n\"decode_1\": 101.5\n}\n"} {
		f, err := engineFigures([]byte(out))
		require.NoError(t, err, out)
		require.Equal(t, map[string]float64{"decode_1": 101.5}, f)
	}
	for _, out := range []string{"", "done", "{}", "[1]"} {
		_, err := engineFigures([]byte(out))
		require.Error(t, err, out)
	}
}
