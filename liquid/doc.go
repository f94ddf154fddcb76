// Package liquid is the policy of liquid memory: prefix-KV reuse across
// requests. The station stores and restores; this package decides whether the
// feature is on and, for every client to see, why not.
//
// Its words: a station *can save KV sessions* when it says so in /health, or,
// being older than that field, when it answers the probe; the *switch* is the
// conjunction of the setting, that ability, /decode-next and an architecture
// whose KV can be cut. [State] is one reading of it.
//
// The request path that uses it (embed, load, forward, decode-next, save) is
// not in this build: the switch is read, shown and never effective, and the
// reason says so.
package liquid
