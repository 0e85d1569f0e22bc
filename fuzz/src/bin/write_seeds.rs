//! Writes the seeds of every target into `DIRECTORY/TARGET/`, where a fuzzer starts from them.

use martlet_fuzz::TARGETS;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "corpus".into());
    for (name, _, seeds) in TARGETS {
        let folder = Path::new(&directory).join(name);
        std::fs::create_dir_all(&folder)?;
        for (index, seed) in seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{index:03}")), seed)?;
        }
    }
    Ok(())
}
