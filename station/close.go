package station

import (
	"context"
	"net/http"
	"time"
)

// LastWrites is how long answers may take to leave whose handlers have returned.
const LastWrites = 250 * time.Millisecond

// CloseServer ends a server whose station has drained. A drain waits for handlers, and
// what net/http writes behind them, the ends of streams and whole answers, is still on its
// way.
func CloseServer(srv *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), LastWrites)
	defer cancel()
	_ = srv.Shutdown(ctx)
	_ = srv.Close()
}
