package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// engineStopWait is how long an engine may take to end when the run is stopped.
const engineStopWait = 2 * time.Second

// runEngine runs the command and reads the last JSON object of its output:
// figures like decode_1, decode_16, prefill_718, in tokens a second.
func runEngine(ctx context.Context, command string) (map[string]float64, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	// A group of its own, so that what the shell started ends too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = engineStopWait
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return engineFigures(out.Bytes())
}

func engineFigures(out []byte) (map[string]float64, error) {
	// One object over several lines, or one on the last line after others.
	candidates := [][]byte{out}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	candidates = append(candidates, lines[len(lines)-1])
	for _, c := range candidates {
		var raw map[string]any
		if json.Unmarshal(c, &raw) != nil {
			continue
		}
		figures := map[string]float64{}
		for name, v := range raw {
			if n, ok := v.(float64); ok && n > 0 {
				figures[name] = n
			}
		}
		if len(figures) > 0 {
			return figures, nil
		}
	}
	return nil, errors.New("the command printed no JSON object of figures")
}
