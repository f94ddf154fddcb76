package cold

import (
	_ "github.com/cespare/xxhash/v2"
	_ "github.com/johannesboyne/gofakes3"
	_ "pgregory.net/rapid"
)
