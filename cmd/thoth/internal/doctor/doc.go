// Package doctor looks at an installation and its machine and says what will
// not work, before a user finds out: binaries, kernel libraries, CPU and memory
// limits, model file, cache folder, port, and a running server's own account.
//
// A check looks at one thing, changes nothing that outlives it, and ends within
// seconds. Its findings are ok, warn (it works, but not as well as it could, or a
// part is not there yet) or fail (it cannot work); warn and fail carry a fix that
// can be typed or followed. One fail makes the whole run fail.
package doctor
