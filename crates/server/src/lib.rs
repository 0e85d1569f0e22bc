//! Wires the layers: configuration, connections, sessions, introspection.
