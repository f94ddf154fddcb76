package env

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnsetEmpty_LeavesWhatHasAValueOrIsNotOurs(t *testing.T) {
	for name, value := range map[string]string{"THOTH_CELLS": "", "PORT": "", "FAT_STATION_URL": "", "THOTH_THREADS": "2", "OTHER": ""} {
		t.Setenv(name, value)
	}
	UnsetEmpty()
	for name, want := range map[string]bool{"THOTH_CELLS": false, "PORT": false, "FAT_STATION_URL": false, "THOTH_THREADS": true, "OTHER": true} {
		_, there := os.LookupEnv(name)
		require.Equal(t, want, there, name)
	}
}

func TestUnsetEmpty_AnEmptyStoreIsNone(t *testing.T) {
	t.Setenv("THOTH_KV_STORE", "")
	t.Setenv("THOTH_RESPONSES_STORE", "")
	UnsetEmpty()
	require.Equal(t, "none", os.Getenv("THOTH_KV_STORE"))
	require.Equal(t, "none", os.Getenv("THOTH_RESPONSES_STORE"))
}
