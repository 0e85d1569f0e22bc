//! Serialised values: RDB encoding, checksum, compression.
