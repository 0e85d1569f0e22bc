//! Clock, randomness, limits, number text, accounting allocator: what every other crate may use.
