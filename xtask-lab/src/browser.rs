//! Pages in headless Chromium: their content once their scripts have run, and their console output.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::run::in_root;

/// Names under which distributions install it.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Options of a chore that opens pages.
#[derive(clap::Args)]
pub struct Options {
    /// The program that makes or serves them.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    pub ours: PathBuf,
    /// Keep pages and screenshots here.
    #[arg(long)]
    pub keep: Option<PathBuf>,
}

/// A page, and how it is opened.
pub struct Page<'a> {
    /// The program.
    pub browser: &'a str,
    /// The page's address.
    pub address: &'a str,
    /// A directory that exists during the run only.
    pub profile: &'a Path,
    /// Where to draw the page, if wanted.
    pub screenshot: Option<&'a Path>,
    /// Further arguments of the program.
    pub arguments: &'a [&'a str],
}

/// The browser that is installed, if one is.
pub fn find() -> Option<&'static str> {
    BROWSERS.iter().copied().find(|name| xtask::run::is_installed(name, "--version"))
}

/// Bytes that a program has printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Opens a page; gives its elements after the script has run. A word on the console is an error.
pub fn open(page: &Page<'_>) -> Result<String, Box<dyn Error>> {
    let (dom, console) = open_with_console(page)?;
    match console.first() {
        Some(line) => Err(format!("on the console of {}: {line}", page.address).into()),
        None => Ok(dom),
    }
}

/// Opens a page; gives its elements after the script has run, and the lines on the console.
pub fn open_with_console(page: &Page<'_>) -> Result<(String, Vec<String>), Box<dyn Error>> {
    let base = || {
        let mut command = Command::new("timeout");
        command.args(["60", page.browser, "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--enable-logging=stderr"]);
        command.args(page.arguments).arg(format!("--user-data-dir={}", page.profile.display()));
        command
    };
    let opened = base().args(["--dump-dom", page.address]).output()?;
    let log = text(&opened.stderr);
    if !opened.status.success() {
        return Err(format!("{}: {}\n{log}", page.browser, opened.status).into());
    }
    // The browser's own pages may say something, too.
    let is_ours = |line: &&str| line.contains("CONSOLE") && !line.contains("source: chrome://");
    let console = log.lines().filter(is_ours).map(str::to_owned).collect();
    if let Some(path) = page.screenshot {
        base().arg(format!("--screenshot={}", path.display())).arg(page.address).output()?;
    }
    let _ = std::fs::remove_dir_all(page.profile);
    Ok((text(&opened.stdout), console))
}
