//go:build !linux

package cold

func freeBytes(string) int64 { return 0 }

// OnMemory tells whether a folder lies on a disk that is memory; not known here.
func OnMemory(string) bool { return false }
