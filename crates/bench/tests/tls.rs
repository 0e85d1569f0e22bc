//! TLS against a real redis-server, with the test's certificates: effects of a right configuration, and
//! messages of a wrong one. Without redis-server or openssl these tests say so and pass.

use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A server that speaks TLS and asks for client certificates, and the files that belong to it.
struct Secured {
    _server: Server,
    directory: tempfile::TempDir,
    port: ReservedPort,
}

/// Runs openssl in `directory`.
fn openssl(directory: &Path, line: &str) {
    let done = Command::new("openssl").current_dir(directory).args(line.split(' ')).output().expect("starts");
    assert!(done.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Secured {
    /// `None` where this machine lacks a needed program.
    fn start() -> Option<Secured> {
        if !["redis-server", "openssl"].into_iter().all(is_installed) {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        std::fs::write(at.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("written");
        for name in ["ca", "other"] {
            openssl(
                at,
                &format!(
                    "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt"
                ),
            );
        }
        for name in ["server", "client"] {
            openssl(
                at,
                &format!("req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"),
            );
            openssl(
                at,
                &format!(
                    "x509 -req -days 2 -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out {name}.crt"
                ),
            );
        }
        let port = ReservedPort::take().expect("a port");
        let file = |name: &str| at.join(name).to_string_lossy().into_owned();
        let arguments = [
            "--tls-port".into(),
            port.number().to_string(),
            "--tls-cert-file".into(),
            file("server.crt"),
            "--tls-key-file".into(),
            file("server.key"),
            "--tls-ca-cert-file".into(),
            file("ca.crt"),
        ];
        let server = Server::start(Path::new("redis-server"), &arguments).expect("redis-server starts");
        Some(Secured { _server: server, directory, port })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the load tester; words that begin with `@` are files of the directory.
    fn bench(&self, line: &str) -> Output {
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => self.file(name).to_string_lossy().into_owned(),
            None => word.to_string(),
        });
        let program = env!("CARGO_BIN_EXE_martlet-bench");
        let mut command = Command::new(program);
        let port = self.port.number().to_string();
        command.args(["-h", "localhost", "-p", &port, "-n", "200", "-c", "4", "-P", "2"]);
        command.args(words).output().expect("runs")
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn what_is_right_is_served() {
    let Some(secured) = Secured::start() else { return };
    let known = "--tls --cacert @ca.crt --cert @client.crt --key @client.key";
    for (line, expected) in [
        (format!("{known} -t set,get -q"), "GET: "),
        (format!("{known} --sni localhost -t ping -q"), "PING_MBULK: "),
        (format!("{known} --epoll -t set -q"), "SET: "),
        (format!("{known} --tls-ciphersuites TLS_AES_128_GCM_SHA256 -t set -q"), "SET: "),
        ("--tls --insecure --cert @client.crt --key @client.key -t set -q".to_string(), "SET: "),
        // Values longer than a record of TLS, and the control connection of our own reports.
        (format!("{known} -d 50000 -t set,get -q"), "GET: "),
        (format!("{known} --rate 500 --command GET"), "requests/s"),
    ] {
        let output = secured.bench(&line);
        let said = text(&output);
        // GET without a key is an error of the server, reported as one: the connection worked.
        let is_served = output.status.success() || said.contains("wrong number of arguments");
        assert!(is_served && said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let Some(secured) = Secured::start() else { return };
    for (line, expected) in [
        ("--tls --cacert @other.crt --cert @client.crt --key @client.key -t set -q", "UnknownIssuer"),
        ("--tls --cacert @missing.crt -t set -q", "missing.crt"),
        ("--tls --cacert @ca.crt --cert @client.crt -t set -q", "key"),
        (
            "--tls --cacert @ca.crt --cert @client.crt --key @client.key --tls-ciphersuites NONE -t set -q",
            "NONE",
        ),
        // No certificate although the server asks for one; no TLS although the server speaks nothing else.
        ("--tls --cacert @ca.crt -t set -q", "CertificateRequired"),
        ("-t set -q", "(127.0.0.1:"),
    ] {
        let output = secured.bench(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output));
        assert!(text(&output).to_lowercase().contains(&expected.to_lowercase()), "{line}: {}", text(&output));
    }
}
