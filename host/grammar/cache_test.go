package grammar

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// maker counts how often each key is made.
type maker struct {
	t     *testing.T
	cache *Cache
	made  map[string]int
}

func (m *maker) get(key, text string) string {
	m.t.Helper()
	got, err := m.cache.Get(key, func() (string, error) {
		m.made[key]++
		return text, nil
	})
	require.NoError(m.t, err)
	return got
}

func TestCache_KeepsWhatWasUsedLastWithinItsBytes(t *testing.T) {
	m := maker{t, NewCache(30), map[string]int{}}
	text := strings.Repeat("x", 9) // ten bytes with a key of one
	for _, key := range []string{"a", "b", "c", "a", "d"} {
		require.Equal(t, text, m.get(key, text))
		require.LessOrEqual(t, m.cache.Bytes(), 30)
	}
	require.Equal(t, 30, m.cache.Bytes())
	m.get("a", text) // used after b, so b went
	m.get("c", text)
	m.get("d", text)
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, m.made)
	m.get("b", text)
	require.Equal(t, 2, m.made["b"])
}

func TestCache_WhatIsLargerThanTheCacheEvictsNothing(t *testing.T) {
	m := maker{t, NewCache(20), map[string]int{}}
	m.get("a", "small")
	large := strings.Repeat("x", 20)
	require.Equal(t, large, m.get("b", large))
	require.Equal(t, large, m.get("b", large))
	m.get("a", "small")
	require.Equal(t, map[string]int{"a": 1, "b": 2}, m.made)
}

func TestCache_ErrorsAreNotKept(t *testing.T) {
	c := NewCache(100)
	broken := errors.New("broken")
	_, err := c.Get("a", func() (string, error) { return "", broken })
	require.ErrorIs(t, err, broken)
	text, err := c.Get("a", func() (string, error) { return "root", nil })
	require.NoError(t, err)
	require.Equal(t, "root", text)
}

func TestCache_OneKeyIsMadeOnceForAllWhoAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(100)
		calls, release := 0, make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				text, err := c.Get("a", func() (string, error) {
					calls++
					<-release
					return "root", nil
				})
				require.NoError(t, err)
				require.Equal(t, "root", text)
			})
		}
		other, err := c.Get("b", func() (string, error) { return "other", nil })
		require.NoError(t, err)
		require.Equal(t, "other", other)
		synctest.Wait() // one makes it, nine wait
		close(release)
		wg.Wait()
		require.Equal(t, 1, calls)
	})
}

func TestCache_NoMoreAreMadeAtOnceThanThereAreProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(1000)
		var making, all atomic.Int32
		release := make(chan struct{})
		var wg sync.WaitGroup
		n := runtime.GOMAXPROCS(0)
		for i := range 3 * n {
			wg.Go(func() {
				_, err := c.Get(strconv.Itoa(i), func() (string, error) {
					require.LessOrEqual(t, int(making.Add(1)), n)
					defer making.Add(-1)
					all.Add(1)
					<-release
					if i%2 == 0 {
						return "", errors.New("broken")
					}
					return "root", nil
				})
				require.Equal(t, i%2 == 0, err != nil)
			})
		}
		synctest.Wait()
		require.EqualValues(t, n, making.Load())
		close(release)
		wg.Wait()
		require.EqualValues(t, 3*n, all.Load())
	})
}
