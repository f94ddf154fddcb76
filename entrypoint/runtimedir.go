package entrypoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxSocketPath is what fits into sockaddr_un with its NUL (unix(7)).
const maxSocketPath = 107

const socketName = "station.sock"

// makeRuntimeDir makes a private folder for the station's socket: a path of
// its own for every entrypoint, so that two on one machine never meet, and the
// same one over the station's restarts.
func makeRuntimeDir(candidates ...string) (string, error) {
	var faults []error
	for _, base := range candidates {
		if base == "" {
			continue
		}
		dir, err := os.MkdirTemp(base, "thoth-") // mode 0700
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if n := len(filepath.Join(dir, socketName)); n > maxSocketPath {
			_ = os.Remove(dir)
			faults = append(faults, fmt.Errorf("%s is too long for a socket's path (%d of %d bytes)", dir, n, maxSocketPath))
			continue
		}
		return dir, nil
	}
	return "", settingError("no folder for the station's socket: %s; set THOTH_RUNTIME_DIR to a writable folder, or THOTH_STATION_LISTEN=127.0.0.1:0",
		strings.ReplaceAll(errors.Join(faults...).Error(), "\n", "; "))
}

// stationURL turns a listen address into the URL the host is given, "" when
// only the handshake will tell the port. An address that other machines could
// reach is refused: the station has no keys and no limits for strangers.
func stationURL(listen string) (string, error) {
	if strings.HasPrefix(listen, "unix:") {
		u, err := url.Parse(listen)
		if err != nil || !filepath.IsAbs(u.Path) || u.Host != "" {
			return "", settingError("THOTH_STATION_LISTEN is %q; a socket is written unix:///absolute/path.sock", listen)
		}
		if len(u.Path) > maxSocketPath {
			return "", settingError("THOTH_STATION_LISTEN: the socket's path has %d bytes, at most %d are possible", len(u.Path), maxSocketPath)
		}
		return "unix://" + u.Path, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", settingError("THOTH_STATION_LISTEN is %q; allowed are 127.0.0.1:PORT and unix:///path.sock", listen)
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "", settingError("THOTH_STATION_LISTEN is %q: the station must listen on loopback or a unix socket only", listen)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", settingError("THOTH_STATION_LISTEN is %q: the port must be a number from 0 to 65535", listen)
	} else if n == 0 {
		return "", nil
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}
