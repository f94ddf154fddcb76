package listen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Close ends a server whose requests have ended. What net/http writes behind their
// handlers, the ends of streams and whole answers, is still on its way, and has the grace;
// the error tells that connections were cut after it.
func Close(srv *http.Server, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("some connections were cut: %w", err), srv.Close())
	}
	return err
}
