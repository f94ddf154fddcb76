package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/station/engine"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// kvDefaults are the flags when nothing is set.
func kvDefaults(store string) *kvFlags {
	return &kvFlags{WarmBytes: -1, Store: store, ColdBytes: -1, ColdTimeout: 10 * time.Second, Readers: 1, Writers: 1}
}

func TestKVFlags_RefuseWhatCanBeNoStore(t *testing.T) {
	for _, store := range []string{"auto", "none", "/dir", "file:///dir", "s3://bucket/prefix?region=x", "gs://bucket", "mem://"} {
		require.NoError(t, kvDefaults(store).check(), store)
	}
	for _, store := range []string{"dir", "/", "file://host/dir", "file:///dir?x=1", "s3://", "ftp://host", "s3://%zz"} {
		var bad *engine.LoadError
		require.ErrorAs(t, kvDefaults(store).check(), &bad, store)
		require.Equal(t, engine.LoadBadSetting, bad.Kind)
		require.Contains(t, bad.Msg, "THOTH_KV_STORE")
	}
	f := kvDefaults("auto")
	f.Key = "short"
	require.ErrorContains(t, f.check(), "THOTH_KV_KEY")
}

// says is the state and the start's line of a store.
func says(t *testing.T, store string) (x wire.KVTier, line string) {
	t.Helper()
	var text strings.Builder
	log := zerolog.New(zerolog.SyncWriter(&text))
	f := kvDefaults(store)
	f.ColdBytes = 1 << 20
	tier, why := f.open(64, log)
	require.Empty(t, why)
	x = tier.Stats(func(block.Key) bool { return true })
	sayWhereKVIs(&wire.KVIndex{Cold: x}, log)
	require.NoError(t, tier.Close())
	return x, text.String()
}

func TestKVFlags_AStoreThatHangsDoesNotHoldUpTheStart(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, answers nothing
	require.NoError(t, err)
	defer silent.Close()
	x, line := says(t, "s3://kv?region=us-east-1&use_path_style=true&endpoint=http://"+silent.Addr().String())
	require.Equal(t, "failing", x.State)
	require.Equal(t, "s3", x.Store)
	require.Contains(t, line, `"store_state":"opening"`)
}

func TestKVFlags_AStoreThatCannotBeUsedIsTriedAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	x, line := says(t, "file://"+file)
	require.Equal(t, "failing", x.State)
	require.Equal(t, "the store cannot be used: not a directory", x.Reason, "no path leaves the station")
	require.Contains(t, line, `"store_state":"failing"`)
	require.Contains(t, line, "KV will not survive a restart")

	x, line = says(t, "file://"+t.TempDir())
	require.Equal(t, "on", x.State)
	require.Contains(t, line, `"store_state":"on"`)
}
