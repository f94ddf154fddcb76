// Package cold is the cold tier: blocks in a folder or bucket, where they survive
// the process and other replicas find them.
//
// One object is one block (see package block for its bytes), named
// root/parent/key in hex, or root/parent/key-N when it is a tail of N tokens. So a
// block is found without an index, and one bounded listing gives a parent's
// tails. Whatever fails a check is deleted and counted, never used.
//
// [Store] is the folder or bucket: write whole or not at all, read, list, delete.
// [Tier] is the tier above it: deadlines, the breaker and the learned speed, the
// index of what is there, the budget and its evictor, the sweeper. [Later] is a tier
// that is opened behind, and fails until then.
//
// # Stores
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
// A file has its name only when all its bytes are synced: it is written beside it
// under a temporary name and renamed. Any number of processes may share a store:
// they overwrite whole objects with equal ones, and what one deletes another misses.
//
// Everything below a folder named like a root counts against the budget: old
// models, other processes' blocks, temporary and foreign files. What lies beside
// those folders is not ours, is not counted and never touched.
//
// No key, text or token id is logged, only reasons and sizes.
package cold
