// Package bucket is a folder or bucket of objects, for what is kept over restarts and
// shared with other processes: stored KV and stored responses.
//
// [Bucket] writes whole or not at all, with a sync or without, reads, lists and deletes;
// [Try] finds out whether one can be used; [Below] is a folder in one; a [Breaker] keeps
// requests from one that fails.
//
// # Addresses
//
//	/abs/dir or file:///abs/dir  a folder; made with mode 0700, files 0600
//	s3://bucket/prefix?...       S3 and what speaks its protocol
//	gs://bucket/prefix           Google Cloud Storage, with the default credentials
//	mem://                       memory of this process, for tests
//
// Credentials of s3 come from where the AWS tools look: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, a profile, or the machine's role. They must allow to
// list, read, write and delete below the prefix. The query may say region= (or
// AWS_REGION), endpoint=http://host:port (or AWS_ENDPOINT_URL_S3) and
// use_path_style=true for a server of one's own, disable_https=true, profile=,
// role=, anonymous=true; request_checksum_calculation=when_required and
// response_checksum_validation=when_required for servers that know no newer
// checksums. MinIO, for one:
//
//	s3://kv/models?region=us-east-1&endpoint=http://minio:9000&use_path_style=true
//
// # Invariants
//
// A file has its name only when all its bytes are written: it is written beside it
// under a temporary name and renamed, and no other file comes with it. So a process that
// dies leaves no half file under a name. What is written is synced before, and then a
// machine that loses its power leaves none either; what is put is not, and may be torn by
// that until the system has written it down.
//
// Any number of processes may share a bucket; what one deletes another misses.
package bucket
