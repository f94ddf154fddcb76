package entrypoint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tcpListen is the state LISTEN in /proc/net/tcp (proc_pid_net(5)).
const tcpListen = "0A"

// listeners are the TCP ports a process listens on, as URLs at loopback.
func listeners(pid int) []string {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	fds, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	sockets := map[string]bool{}
	for _, fd := range fds {
		link, _ := os.Readlink(fd)
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var urls []string
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(proc, "net", table))
		if err != nil {
			continue
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			// sl local_address rem_address st queues timer retrnsmt uid timeout inode
			col := strings.Fields(sc.Text())
			if len(col) < 10 || col[3] != tcpListen || !sockets[col[9]] {
				continue
			}
			_, hex, _ := strings.Cut(col[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", port))
			}
		}
		f.Close()
	}
	return urls
}
