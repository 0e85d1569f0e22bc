//! The process title: the text that `ps` and `/proc/<pid>/cmdline` show.
//!
//! Linux has no call for it: the title is written over the memory in which the kernel put the arguments and
//! the environment. Invariant: the title's memory is taken over before any thread exists, after the
//! environment was copied elsewhere, and afterwards only [`ProcessTitle`] reads or writes it.

use std::path::Path;
use std::sync::Mutex;

use martlet_base::sync::lock;

use martlet_config::{Config, TitlePart, title_parts};

/// The memory of the title.
#[derive(Debug)]
pub struct ProcessTitle {
    area: Mutex<Option<&'static mut [u8]>>,
    /// How the program was called: `{title}`.
    program: String,
}

impl ProcessTitle {
    /// Takes over the memory of the arguments and the environment. `std::env::args` must not be used
    /// afterwards.
    ///
    /// When that memory cannot be found, or a thread exists already, the title stays as it is.
    pub fn take_over(program: String) -> Self {
        let area = if martlet_base::background::thread_count() == 1 { area() } else { None };
        Self { area: Mutex::new(area), program }
    }

    /// Shows the title of a configuration; too long a title is cut.
    ///
    /// # Errors
    /// What CONFIG SET answers when the template cannot be expanded.
    pub fn show(&self, config: &Config, config_file: Option<&Path>) -> Result<(), String> {
        let text = title_text(config, config_file, &self.program).ok_or("failed to set process title")?;
        let mut area = lock(&self.area);
        if let Some(area) = area.as_mut() {
            write(area, text.as_bytes());
        }
        Ok(())
    }
}

/// Writes a title into its memory, whose last byte stays zero.
fn write(area: &mut [u8], title: &[u8]) {
    let length = title.len().min(area.len().saturating_sub(1));
    let (text, rest) = area.split_at_mut(length);
    text.copy_from_slice(&title[..length]);
    rest.fill(0);
}

/// The title that a configuration asks for; none when its template is invalid.
pub fn title_text(config: &Config, config_file: Option<&Path>, program: &str) -> Option<String> {
    let unixsocket = || config.unixsocket.as_ref().map_or(String::new(), |path| path.display().to_string());
    let title = title_parts(&config.proc_title_template)?.into_iter().map(|part| match part {
        TitlePart::Text(text) => text.to_string(),
        TitlePart::Variable("title") => program.to_string(),
        TitlePart::Variable("listen-addr") if config.port == 0 && config.tls_port == 0 => {
            format!("unixsocket:{}", unixsocket())
        }
        TitlePart::Variable("listen-addr") => {
            let port = if config.port == 0 { config.tls_port } else { config.port };
            format!("{}:{port}", config.bind.first().map_or("*", String::as_str))
        }
        TitlePart::Variable("server-mode") if config.cluster_enabled => "[cluster]".into(),
        TitlePart::Variable("port") => config.port.to_string(),
        TitlePart::Variable("tls-port") => config.tls_port.to_string(),
        TitlePart::Variable("unixsocket") => unixsocket(),
        TitlePart::Variable("config-file") => {
            config_file.map_or("-".into(), |path| path.display().to_string())
        }
        TitlePart::Variable(_) => String::new(),
    });
    Some(title.collect::<String>().trim_matches(' ').to_string())
}

/// The memory of the arguments and, behind it, of the environment, which is copied to the heap first.
fn area() -> Option<&'static mut [u8]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, which may hold anything: count behind it.
    let fields: Vec<usize> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let &[argument_start, argument_end, environment_start, environment_end] =
        fields.get(45..49)?.first_chunk()?;
    let is_one_piece = argument_start != 0
        && argument_start < argument_end
        && argument_end == environment_start
        && environment_start <= environment_end;
    if !is_one_piece {
        return None;
    }
    for (name, value) in std::env::vars_os() {
        // SAFETY: there is no other thread that could read the environment in this moment.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: the kernel laid the two areas out as one writable piece of the main thread's stack that lasts
    // as long as the process. No other reference to it is left: the environment was copied, and the arguments
    // are not asked for again.
    Some(unsafe {
        std::slice::from_raw_parts_mut(argument_start as *mut u8, environment_end - argument_start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_expand() {
        let title = |change: &dyn Fn(&mut Config), file: Option<&str>| {
            let mut config = Config::default();
            change(&mut config);
            title_text(&config, file.map(Path::new), "martlet").unwrap()
        };
        assert_eq!(title(&|_| {}, None), "martlet *:6379");
        assert_eq!(title(&|config| config.cluster_enabled = true, None), "martlet *:6379 [cluster]");
        assert_eq!(title(&|config| config.bind = vec!["127.0.0.1".into()], None), "martlet 127.0.0.1:6379");
        let socket = |config: &mut Config| {
            config.port = 0;
            config.unixsocket = Some("/run/x".into());
        };
        assert_eq!(title(&socket, None), "martlet unixsocket:/run/x");
        let all = |config: &mut Config| {
            config.proc_title_template =
                "TEST {title} {listen-addr} {port} {tls-port} {unixsocket} {config-file}".into()
        };
        assert_eq!(title(&all, Some("/etc/m.conf")), "TEST martlet *:6379 6379 0  /etc/m.conf");
        assert_eq!(title(&all, None), "TEST martlet *:6379 6379 0  -");
    }

    #[test]
    fn the_last_byte_stays_zero() {
        let mut area = *b"abcdef";
        write(&mut area, b"xyz");
        assert_eq!(&area, b"xyz\0\0\0");
        write(&mut area, b"123456789");
        assert_eq!(&area, b"12345\0");
        write(&mut [], b"1");
    }
}
