//! The command table: specs and handlers by family.
