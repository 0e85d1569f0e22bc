//! Notifies a supervisor that the server is ready or stops: systemd over its socket, upstart by stopping
//! once.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use martlet_config::Supervised;

use super::system;

/// The supervisor of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// No supervisor.
    None,
    /// upstart, in a job with `expect stop`.
    Upstart,
    /// systemd, which listens on this socket.
    Systemd(OsString),
}

/// The supervisor that the configuration and the environment name. A configured one that is missing is
/// logged.
pub fn find_supervisor(mode: Supervised, environment: impl Fn(&str) -> Option<OsString>) -> Supervisor {
    let upstart = || environment("UPSTART_JOB").map(|_| Supervisor::Upstart);
    let systemd = || environment("NOTIFY_SOCKET").map(Supervisor::Systemd);
    match mode {
        Supervised::No => Supervisor::None,
        Supervised::Auto => upstart().or_else(systemd).unwrap_or(Supervisor::None),
        Supervised::Upstart => upstart().unwrap_or_else(|| {
            tracing::warn!("upstart supervision requested, but UPSTART_JOB not found!");
            Supervisor::None
        }),
        Supervised::Systemd => systemd().unwrap_or_else(|| {
            tracing::warn!("systemd supervision requested or auto-detected, but NOTIFY_SOCKET not found!");
            Supervisor::None
        }),
    }
}

impl Supervisor {
    /// Whether there is a supervisor: then the server stays in the foreground.
    pub fn is_there(&self) -> bool {
        *self != Self::None
    }

    /// Its name, as `supervised` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "no",
            Self::Upstart => "upstart",
            Self::Systemd(_) => "systemd",
        }
    }

    /// Says that clients are served.
    pub fn ready(&self) {
        match self {
            Self::None => {}
            Self::Upstart => {
                tracing::info!("supervised by upstart, will stop to signal readiness");
                system::raise(libc::SIGSTOP);
            }
            Self::Systemd(_) => self.tell("STATUS=Ready to accept connections\nREADY=1\n"),
        }
    }

    /// Says that the server is about to exit.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    /// Sends a message in systemd's form, to systemd only.
    pub fn tell(&self, message: &str) {
        let Self::Systemd(socket) = self else { return };
        if let Err(error) = send(socket.as_bytes(), message) {
            tracing::warn!("systemd supervision error: {}", martlet_base::disk::error_text(&error));
        }
    }
}

/// Sends a datagram to a socket's path, or to an abstract name behind an `@`.
fn send(socket: &[u8], message: &str) -> io::Result<()> {
    let address = match socket {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides() {
        let find = |mode, name: &'static str| {
            find_supervisor(mode, move |asked| (asked == name).then(|| "/s".into()))
        };
        assert_eq!(find(Supervised::No, "NOTIFY_SOCKET"), Supervisor::None);
        assert_eq!(find(Supervised::Auto, "NOTIFY_SOCKET"), Supervisor::Systemd("/s".into()));
        assert_eq!(find(Supervised::Auto, "UPSTART_JOB"), Supervisor::Upstart);
        assert_eq!(find(Supervised::Systemd, "UPSTART_JOB"), Supervisor::None);
        assert_eq!(find(Supervised::Systemd, "NOTIFY_SOCKET"), Supervisor::Systemd("/s".into()));
        assert_eq!(find(Supervised::Auto, ""), Supervisor::None);
    }

    #[test]
    fn systemd_hears_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("martlet-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listeners = [UnixDatagram::bind(&path).unwrap(), UnixDatagram::bind_addr(&address).unwrap()];
        for (listener, name) in
            listeners.iter().zip([path.into_os_string(), format!("@{abstract_name}").into()])
        {
            let supervisor = Supervisor::Systemd(name);
            supervisor.ready();
            supervisor.stopping();
            let mut buffer = [0; 100];
            let mut heard = || {
                let length = listener.recv(&mut buffer).unwrap();
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            };
            assert_eq!(heard(), "STATUS=Ready to accept connections\nREADY=1\n");
            assert_eq!(heard(), "STOPPING=1\n");
        }
    }
}
