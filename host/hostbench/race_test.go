//go:build race

package hostbench

const raceEnabled = true
