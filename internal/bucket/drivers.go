package bucket

// The kinds of stores besides folders, by the scheme of their URL.
import (
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/memblob" // mem://
	_ "gocloud.dev/blob/s3blob"  // s3://
)
