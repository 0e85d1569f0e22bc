//! Compiles mimalloc from `mimalloc-3.3.2/` into a static library that is a part of this crate.
//!
//! Invariant: nothing outside of this folder is read but the C compiler's own headers.

use std::path::Path;

const SOURCES: &str = "mimalloc-3.3.2";

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    let sources = Path::new(SOURCES);
    let mut build = cc::Build::new();
    build.file(sources.join("src/static.c")).include(sources.join("include")).include(sources.join("src"));
    // Every binary links it statically: thread-local variables are at fixed offsets.
    build.flag_if_supported("-ftls-model=initial-exec");
    // Checks of its invariants would take several times as long as allocating.
    build.define("MI_DEBUG", "0").define("NDEBUG", None);
    if std::env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_none() {
        build.define("MI_BUILD_RELEASE", None);
    }
    build.warnings(false).compile("martlet_mimalloc");
}
