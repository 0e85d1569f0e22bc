//! Pages in headless Chromium: what they show once their scripts have run, and what they say on the console.

use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Names under which distributions install it.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "chrome"];

/// What is opened, and how.
pub struct Look<'a> {
    /// The program.
    pub browser: &'a str,
    /// The page's address.
    pub address: &'a str,
    /// A directory that is there meanwhile only.
    pub profile: &'a Path,
    /// Where to draw the page, if wanted.
    pub screenshot: Option<&'a Path>,
    /// Further arguments of the program.
    pub arguments: &'a [&'a str],
}

/// The browser that is installed, if one is.
pub fn find() -> Option<&'static str> {
    BROWSERS.iter().copied().find(|name| crate::run::is_installed(name, "--version"))
}

/// Bytes that a program has printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Opens a page; gives its elements after the script has run. A word on the console is an error.
pub fn open(look: &Look<'_>) -> Result<String, Box<dyn Error>> {
    let base = || {
        let mut command = Command::new("timeout");
        command.args(["60", look.browser, "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--enable-logging=stderr"]);
        command.args(look.arguments).arg(format!("--user-data-dir={}", look.profile.display()));
        command
    };
    let opened = base().args(["--dump-dom", look.address]).output()?;
    let log = text(&opened.stderr);
    if !opened.status.success() {
        return Err(format!("{}: {}\n{log}", look.browser, opened.status).into());
    }
    if let Some(line) = log.lines().find(|line| line.contains("CONSOLE")) {
        return Err(format!("on the console of {}: {line}", look.address).into());
    }
    if let Some(path) = look.screenshot {
        base().arg(format!("--screenshot={}", path.display())).arg(look.address).output()?;
    }
    let _ = std::fs::remove_dir_all(look.profile);
    Ok(text(&opened.stdout))
}
