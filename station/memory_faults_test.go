package station_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// What goes wrong around liquid memory, and must not cost more than it has to.

func openShelf(c kvstore.Cold) func(int) (kvstore.Cold, string) {
	return func(int) (kvstore.Cold, string) { return c, "" }
}

func emptyShelf() *shelf {
	s := &shelf{blocks: map[block.Name]*block.Block{}, hang: make(chan struct{})}
	close(s.hang)
	return s
}

func TestLoad_TwoLoadsOfOnePrefixDoNotWaitForEachOther(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	tokens := text(300, 1)
	a, b := f.embed(tokens), f.embed(tokens)
	f.load(a, nil)
	f.load(b, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var both sync.WaitGroup
	for _, s := range []string{a, b} {
		both.Go(func() {
			_, err := f.KVLoad(ctx, s, 0, nil)
			require.NoError(t, err)
		})
	}
	both.Wait()
}

// undeletable is a cold tier that cannot delete.
type undeletable struct{ *shelf }

func (undeletable) Delete(context.Context, kvstore.Which) (int, int64, error) {
	return 0, 0, errors.New("open /srv/kv/aa/bb/cc: permission denied")
}

// Its caller did nothing wrong: the KV was there when its call ended.
func TestSave_OfKVThatHadToGoSaysSo(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Sequences: 1}, station.Options{SwapBytes: 1})
	s := f.embed(text(100, 3))
	f.forward(s)
	f.forward(f.embed(text(100, 4)))
	a, err := f.KVSave(t.Context(), s, 100, &wire.KVSaveRequest{})
	require.NoError(t, err)
	require.False(t, a.Saved)
	require.Contains(t, a.Reason, "has left the pool")
	_, err = f.KVSave(t.Context(), s, 101, &wire.KVSaveRequest{})
	require.Equal(t, wire.CodeInvalid, err.(*wire.Error).Code, "so many it never had")
	f.forward(s)
	require.True(t, f.save(s, 100).Saved)
}

func TestDelete_AFailingStoreLeavesNothingToFindInThePool(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{OpenCold: openShelf(undeletable{emptyShelf()})})
	f.st.SetDigest("aa")
	tokens := text(300, 1)
	s := f.embed(tokens)
	f.load(s, &wire.KVLoadRequest{Keep: true})
	f.forward(s)
	_, err := f.KVDelete(t.Context(), "", &wire.KVDeleteRequest{All: true})
	require.Equal(t, wire.CodeUnavailable, err.(*wire.Error).Code)
	require.NotContains(t, err.Error(), "/", "no path leaves the station")
	require.Zero(t, f.load(f.embed(tokens), nil).Position)
	_, err = f.KVDelete(t.Context(), s, &wire.KVDeleteRequest{})
	require.NoError(t, err)
	x, err := f.KVIndex(t.Context())
	require.NoError(t, err)
	require.Zero(t, x.Warm.Blocks+x.Pending, "nor is it stored again when its session ends")
}

func TestDelete_ASwappedSessionIsForgottenToo(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Cells: 1024, ContextLength: 1024}, station.Options{})
	tokens := text(600, 1)
	s := f.embed(tokens)
	f.load(s, &wire.KVLoadRequest{Keep: true})
	f.forward(s)
	f.fresh(text(800, 5), 4) // pushes s out of the pool
	_, err := f.KVDelete(t.Context(), "", &wire.KVDeleteRequest{All: true})
	require.NoError(t, err)
	zero := float32(0)
	a := collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s, N: 2, IgnoreEOG: true, Sampling: &wire.Sampling{Temperature: &zero}}))
	require.Nil(t, a.err)
	require.Zero(t, f.load(f.embed(tokens), nil).Position)
}

func TestSave_ASwappedSessionComesBackForIt(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Cells: 1024, ContextLength: 1024}, station.Options{})
	tokens := text(600, 9)
	s := f.embed(tokens)
	f.load(s, nil)
	f.forward(s)
	f.fresh(text(800, 5), 4)
	a := f.save(s, 600)
	require.True(t, a.Saved, a.Reason)
	require.Equal(t, 599, f.load(f.embed(tokens), nil).Position)
}

func TestSave_WhatTheCallerDidNotSaveIsNotKept(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	tokens := text(64, 1)
	s := f.embed(tokens)
	f.load(s, &wire.KVLoadRequest{Keep: true, Group: "g"})
	f.forward(s)
	_, err := f.KVSave(t.Context(), s, 64, &wire.KVSaveRequest{Group: "g"})
	require.NoError(t, err)
	zero := float32(0)
	x := collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: s, N: 200, IgnoreEOG: true, Sampling: &wire.Sampling{Temperature: &zero}}))
	require.Nil(t, x.err)
	_, err = f.KVDelete(t.Context(), s, &wire.KVDeleteRequest{})
	require.NoError(t, err)
	_, err = f.KVFlush(t.Context()) // what was captured is copied
	require.NoError(t, err)
	r, err := f.KVLookup(t.Context(), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: append(tokens, x.tokens...)}})
	require.NoError(t, err)
	require.Equal(t, 64, r.Position)
}

func TestKeep_BlocksOfAnUnsavedSessionHaveItsLabel(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	s := f.embed(text(200, 1))
	f.load(s, &wire.KVLoadRequest{Keep: true, Group: "g"})
	f.forward(s)
	_, err := f.KVDelete(t.Context(), s, &wire.KVDeleteRequest{})
	require.NoError(t, err)
	d, err := f.KVDelete(t.Context(), "", &wire.KVDeleteRequest{Group: "g"})
	require.NoError(t, err)
	require.Equal(t, 3, d.Blocks)
}

func TestDrain_AStuckHandlerDoesNotCostTheWriting(t *testing.T) {
	cold := emptyShelf()
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{KV: kvstore.Options{WarmBytes: testWarmBytes, TailDelay: time.Hour}, OpenCold: openShelf(cold)})
	f.st.SetDigest("aa")
	s := f.embed(text(40, 1)) // a tail, which waits to be written
	f.load(s, nil)
	f.forward(s)
	f.save(s, 40)
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	eventually(t, "the handler waits for its body", func() bool { return f.st.Busy() > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.Equal(t, 1, f.st.Drain(ctx).Kept)
	require.NoError(t, ctx.Err(), "in time")
}

func TestStats_DoNotTellWhoUsesWhat(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	s := f.embed(text(200, 1))
	f.load(s, &wire.KVLoadRequest{Scope: "tenant"})
	f.forward(s)
	_, err := f.KVSave(t.Context(), s, 200, &wire.KVSaveRequest{Scope: "tenant", Name: "named"})
	require.NoError(t, err)
	eventually(t, "it is in the index", func() bool {
		f.load(f.embed(text(200, 1)), &wire.KVLoadRequest{Scope: "tenant"})
		x, err := f.KVIndex(t.Context())
		return err == nil && len(x.Top) > 0
	})
	stats, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.NotNil(t, stats.KV)
	require.Empty(t, stats.KV.Top)
}
