//go:build !linux

package bucket

// FreeBytes is what the disk of a folder has left for us; not known here.
func FreeBytes(string) int64 { return 0 }

// OnMemory tells whether a folder lies on a disk that is memory; not known here.
func OnMemory(string) bool { return false }
