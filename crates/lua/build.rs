//! Compiles Lua from `lua-5.1.5/` into a static library that is a part of this crate.
//!
//! Invariant: nothing outside of this folder is read but the C compiler's own headers.

use std::path::{Path, PathBuf};

const SOURCES: &str = "lua-5.1.5";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SOURCES}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(Path::new(SOURCES))? {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    files.sort();
    let mut build = cc::Build::new();
    // `_longjmp` saves no signal mask: an error costs no system call.
    build.files(&files).include(SOURCES).define("LUA_USE_ULONGJMP", None);
    // Sums of two ints wrap: a comparison behind them is not optimised away.
    build.flag("-fwrapv");
    if std::env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some() {
        build.define("LUA_USE_APICHECK", None);
    }
    // The bindings are a crate of their own, so that no order of linking is right for both: all of it is
    // linked.
    build.warnings(false).link_lib_modifier("+whole-archive").compile("martlet_lua51");
    Ok(())
}
