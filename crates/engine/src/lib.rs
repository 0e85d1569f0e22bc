//! Shard locks and the gate: who may touch which keys when.
