//! A type that no product file knows: its structure, its descriptor, its commands.

pub mod commands;
pub mod descriptor;
pub mod structure;
