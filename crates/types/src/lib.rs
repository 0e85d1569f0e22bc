//! Value types: strings apart, the encodings of list, set, hash and sorted set; no keys, no clients.
